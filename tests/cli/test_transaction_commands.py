"""`rocketline transaction`: open transactions, and those that were given up."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from rocketline import Message, PullConsumer, TransactionProducer, TransactionState
from rocketline.cli.commands import rocketline
from rocketline.testing import Server
from support.clients.clusters import wait_until

QUICK = {
    "transactionTimeOut": "0",
    "transactionCheckInterval": "200",
    "transactionOpBatchInterval": "50",
    "transactionCheckMax": "2",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(settings=QUICK) as server:
        yield server


def call(server: Server, *arguments: str) -> Result:
    return CliRunner().invoke(rocketline, ["transaction", *arguments, "-n", server.address])


def rows(server: Server, *arguments: str) -> list[dict[str, object]]:
    result = call(server, "list", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_transaction_is_listed_given_up_and_taken_up_again(server: Server) -> None:
    """S172."""
    state = TransactionState.UNKNOWN
    with (
        TransactionProducer(server.address, group="shop", check=lambda _: state, topics=("orders",)) as producer,
        PullConsumer(server.address, group="readers") as consumer,
    ):
        with producer.transaction(Message("orders", b"one")) as transaction:
            (row,) = rows(server)
            assert (row["topic"], row["producer_group"], row["message_id"]) == (
                "orders",
                "shop",
                transaction.transaction_id,
            )
            assert row["broker"]
            transaction.leave_open()
        wait_until(lambda: rows(server, "--given-up"))
        wait_until(lambda: not rows(server))
        (row,) = rows(server, "--given-up")
        assert (row["message_id"], row["checks"]) == (transaction.transaction_id, 2)
        shown = call(server, "list", "--given-up").output
        assert "orders" in shown
        assert transaction.transaction_id in shown
        state = TransactionState.COMMIT
        result = call(server, "resume", transaction.transaction_id)
        assert (result.exit_code, result.output) == (0, f"{transaction.transaction_id} is asked for again\n")
        queues = consumer.queues("orders")
        wait_until(lambda: any(consumer.pull(queue, 0).messages for queue in queues))


def test_nothing_is_told_to_people_and_not_to_machines(server: Server) -> None:
    wait_until(lambda: not rows(server))
    result = call(server, "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no transaction is open" in result.stderr


def test_message_that_is_not_there_is_an_error(server: Server) -> None:
    result = call(server, "resume", "7F0000010C1218B4AAC2000000000000")
    assert result.exit_code == 1
