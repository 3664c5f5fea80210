"""Producers of transactions on real servers, read back by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

import rocketline
from rocketline import PullConsumer, ReceivedMessage, Transaction, TransactionState, aio
from rocketline.client.producer.transactions import Check
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from support.clients.clusters import ClientCluster, wait_until

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
SLOW_MACHINE_S = 30.0


def rolls_back(message: ReceivedMessage) -> TransactionState:
    return ROLLBACK


class WrongError(Exception):
    """What goes wrong in a test."""


def _commits(transaction: Transaction) -> WrongError:
    """All is done, and then something else goes wrong."""
    transaction.commit()
    return WrongError()


def delivered(cluster: ClientCluster, topic: str, count: int) -> list[ReceivedMessage]:
    """The messages of a topic with one queue, once there are so many."""
    queue = MessageQueue(topic, "broker-a", 0)
    with PullConsumer(cluster.name_server, group=cluster.group("readers")) as consumer:
        found: list[ReceivedMessage] = []
        while len(found) < count:
            found += consumer.pull(queue, len(found), waits=True).messages
        return found + list(consumer.pull(queue, len(found)).messages)


def blocking(cluster: ClientCluster, group: str, check: Check = rolls_back) -> rocketline.TransactionProducer:
    return rocketline.TransactionProducer(
        cluster.name_server, group=group, check=check, send_timeout_s=SLOW_MACHINE_S, instance_name=f"i{id(check)}"
    )


def test_leaving_the_block_commits_and_an_exception_rolls_back(cluster: ClientCluster) -> None:
    """S166–S168, C106, C107."""
    topic = cluster.topic(queues=1)
    with blocking(cluster, cluster.group()) as producer:
        with producer.transaction(Message(topic, b"a", tags="A", keys=["k"], properties={"own": "v"})) as kept:
            assert kept.state is None
        with pytest.raises(WrongError), producer.transaction(Message(topic, b"b")) as dropped:
            raise WrongError
        with producer.transaction(Message(topic, b"c")) as changed:
            changed.rollback()
        with pytest.raises(WrongError), producer.transaction(Message(topic, b"d")) as decided:
            raise _commits(decided)
        assert [one.state for one in (kept, dropped, changed, decided)] == [COMMIT, ROLLBACK, ROLLBACK, COMMIT]
    first, second = delivered(cluster, topic, 2)
    assert (first.body, first.tags, list(first.keys), first.properties["own"]) == (b"a", "A", ["k"], "v")
    assert (first.message_id, first.transaction_id) == (kept.transaction_id, kept.transaction_id)
    assert second.body == b"d"


async def test_same_with_asyncio(cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1)
    group = cluster.group()
    async with aio.TransactionProducer(
        cluster.name_server, group=group, check=rolls_back, send_timeout_s=SLOW_MACHINE_S
    ) as producer:
        async with producer.transaction(Message(topic, b"a")):
            await asyncio.sleep(0)
        with pytest.raises(WrongError):
            async with producer.transaction(Message(topic, b"b")):
                raise WrongError
        receipts = [
            await producer.send_in_transaction(Message(topic, b"c"), work)
            for work in (works(COMMIT), works_awaited(COMMIT), works(ROLLBACK), works_awaited(ROLLBACK))
        ]
        assert [receipt.state for receipt in receipts] == [COMMIT, COMMIT, ROLLBACK, ROLLBACK]
        plain = await producer.send(Message(topic, b"plain"))
        assert plain.is_ok
    found = await asyncio.to_thread(delivered, cluster, topic, 4)
    assert sorted(one.body for one in found) == [b"a", b"c", b"c", b"plain"]


def works(state: TransactionState) -> Callable[[Transaction], TransactionState]:
    return lambda _: state


def works_awaited(state: TransactionState) -> Callable[[Transaction], Awaitable[TransactionState]]:
    async def work(transaction: Transaction) -> TransactionState:
        await asyncio.sleep(0)
        return state

    return work


def test_what_is_left_open_is_asked_for(cluster: ClientCluster) -> None:
    """S171, C108, C111: once more and again, until the check function knows."""
    topic = cluster.topic(queues=1)
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.body.decode())
        if asked.count(message.body.decode()) == 1:
            raise WrongError("not known yet")
        return COMMIT if message.body == b"kept" else ROLLBACK

    def fails(transaction: Transaction) -> TransactionState:
        raise WrongError(transaction.transaction_id)

    with blocking(cluster, cluster.group(), check) as producer:
        receipt = producer.send_in_transaction(Message(topic, b"kept"), fails)
        assert receipt.state is UNKNOWN
        assert isinstance(receipt.error, WrongError)
        assert producer.send_in_transaction(Message(topic, b"dropped"), works_awaited(UNKNOWN)).state is UNKNOWN
        (found,) = delivered(cluster, topic, 1)
        assert (found.body, found.message_id) == (b"kept", receipt.transaction_id)
        wait_until(lambda: len(asked) >= 4)
    assert delivered(cluster, topic, 1)[0].body == b"kept"


def test_another_process_of_the_group_is_asked(cluster: ClientCluster) -> None:
    """S174: with the one that died gone."""
    topic, group = cluster.topic(queues=1), cluster.group()
    asked = threading.Event()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.set()
        return COMMIT

    with blocking(cluster, group) as first, first.transaction(Message(topic, b"orphan")) as transaction:
        transaction.leave_open()
    with blocking(cluster, group, check) as second:
        assert asked.wait(SLOW_MACHINE_S), "it has sent nothing, and answers all the same"
        second.send(Message(topic, b"plain"))
        assert sorted(one.body for one in delivered(cluster, topic, 2)[:2]) == [b"orphan", b"plain"]


def test_check_functions_that_hang_stop_neither_the_client_nor_other_checks(cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1)
    release = threading.Event()

    def check(message: ReceivedMessage) -> TransactionState:
        if message.body == b"hangs":
            release.wait()
        return COMMIT

    producer = rocketline.TransactionProducer(
        cluster.name_server,
        group=cluster.group(),
        check=check,
        check_workers=2,
        check_timeout_s=0.5,
        send_timeout_s=SLOW_MACHINE_S,
    )
    with producer:
        for body in (b"hangs", b"hangs", b"hangs", b"fine"):
            assert producer.send_in_transaction(Message(topic, body), works(UNKNOWN)).state is UNKNOWN
        assert delivered(cluster, topic, 1)[0].body == b"fine"
        assert producer.send(Message(topic, b"plain")).is_ok
        release.set()
        delivered(cluster, topic, 5)


def test_delay_level_is_left_away(cluster: ClientCluster) -> None:
    """C113."""
    topic = cluster.topic(queues=1)
    with blocking(cluster, cluster.group()) as producer:
        with producer.transaction(Message(topic, b"a", delay_level=18)):
            pass
        assert delivered(cluster, topic, 1)[0].body == b"a"


async def test_open_transactions_are_listed(cluster: ClientCluster) -> None:
    """With their age, their checks, their group and topic; and not once they have ended."""
    topic, group = cluster.topic(queues=1), cluster.group()
    async with (
        aio.Admin(cluster.name_server) as admin,
        aio.TransactionProducer(
            cluster.name_server, group=group, check=works_unknown, send_timeout_s=SLOW_MACHINE_S
        ) as producer,
    ):
        async with producer.transaction(Message(topic, b"done")):
            pass
        async with producer.transaction(Message(topic, b"open")) as transaction:
            transaction.leave_open()
        found = [each for each in await admin.transactions.open() if each.topic == topic]
        while not found or found[-1].checks < 2 or len(found) > 1:
            await asyncio.sleep(0.2)
            found = [each for each in await admin.transactions.open() if each.topic == topic]
        assert (found[0].group, found[0].message_id, found[0].broker_name) == (
            group,
            transaction.transaction_id,
            "broker-a",
        )
        await producer.end_transaction(transaction, COMMIT)


def works_unknown(message: ReceivedMessage) -> TransactionState:
    return UNKNOWN
