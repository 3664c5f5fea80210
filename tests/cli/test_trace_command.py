"""`rocketline message trace`: where a message has been."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from rocketline import Admin, Message, Producer, PushConsumer, ReceivedMessage
from rocketline.cli.commands import rocketline
from rocketline.errors import NoMessageError
from rocketline.model.names import TRACE_TOPIC
from rocketline.testing import Server
from support.clients.clusters import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        server.create_topic("orders", queues=1)
        server.create_group("billing")
        yield server


def call(server: Server, *arguments: str) -> Result:
    return CliRunner().invoke(rocketline, ["message", "trace", *arguments, "-n", server.address])


def test_story_of_a_message_that_was_retried(server: Server) -> None:
    seen: list[ReceivedMessage] = []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message)
        if len(seen) == 1:
            raise ValueError

    with (
        Producer(server.address, group="shop", trace=True) as producer,
        PushConsumer(server.address, group="billing", trace=True) as consumer,
    ):
        message_id = producer.send(Message("orders", b"a teapot", tags="new", keys=["42"])).message_id
        consumer.subscribe("orders", "*", handle)  # a new group may begin behind what comes while it starts
        wait_until(lambda: seen)
        while len(seen) < 2:
            server.advance(1)
            time.sleep(0.05)  # too much time at once, and the broker forgets its clients
    result = call(server, message_id)
    assert result.exit_code == 0, result.output
    title, _, sent, stored, first, again = result.stdout.splitlines()
    assert title == f"{message_id} of orders [new] #42"
    assert [line.split()[2] for line in (sent, stored, first)] == ["sent", "stored", "delivered"]
    assert "billing" in first
    assert "EXCEPTION" in first
    assert "delivered again" in again
    assert "SUCCESS" in again
    events = [json.loads(line) for line in call(server, message_id, "--json").stdout.splitlines()]
    assert [(event["step"], event["outcome"], event["retries"]) for event in events] == [
        ("sent", "", None),
        ("stored", "OK", None),
        ("delivered", "EXCEPTION", 0),
        ("delivered again", "SUCCESS", 1),
    ]
    assert {(event["message_id"], event["topic"]) for event in events} == {(message_id, "orders")}
    assert events[1]["where"] == server.broker_addresses[0]
    assert events[0]["at_ms"] <= events[1]["at_ms"] <= events[2]["at_ms"]
    with Admin(server.address) as admin:
        trace = admin.messages.trace(message_id)
    assert [event.outcome for event in trace.events] == ["", "OK", "EXCEPTION", "SUCCESS"]


def test_broken_records_are_counted_and_passed_over(server: Server) -> None:
    good = "SubAfter\x01CALL\x01BROKEN-1\x0112\x01true\x01null\x010\x02"
    with Producer(server.address, group="shop") as producer:
        producer.send(Message(TRACE_TOPIC, b"Pub\x01\x02" + good.encode(), keys=["BROKEN-1"]))
        producer.send(Message(TRACE_TOPIC, b"Pub\x01\x02", keys=["BROKEN-2"]))
    result = call(server, "BROKEN-1")
    assert result.exit_code == 0
    assert result.stdout.startswith("BROKEN-1, of whose sending nobody has told\n")
    assert "SUCCESS" in result.stdout
    assert "trace records that could not be read: 1" in result.stderr
    nothing = call(server, "BROKEN-2")
    assert nothing.exit_code == 1
    assert isinstance(nothing.exception, SystemExit | NoMessageError)


def test_message_that_nobody_traced_is_an_error(server: Server) -> None:
    result = call(server, "7F0000010C1218B4AAC2000000000000", "--begin", "1h", "--end", "1m")
    assert result.exit_code == 1


def test_topic_of_ones_own_is_looked_into(server: Server) -> None:
    with Producer(server.address, group="shop", trace=True, trace_topic="my_traces") as producer:
        message_id = producer.send([Message("orders", b"1"), Message("orders", b"2")]).message_ids[1]
    assert call(server, message_id).exit_code == 1
    result = call(server, message_id, "--trace-topic", "my_traces")
    assert result.stdout.startswith(f"{message_id} of orders\n")
