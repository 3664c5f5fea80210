"""Requests and their replies on real brokers, blocking and asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketline import (
    ConsumeFromWhere,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    Reply,
    aio,
    reply,
)
from rocketline.errors import ClosedError, NoReplyError
from rocketline.model.subscription import MessageModel
from support.clients.clusters import ClientCluster

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
_SOON_S = 30.0


def answer(message: ReceivedMessage) -> Reply:
    return reply(message, b"re:" + message.body, properties={"shape": "round"})


def test_a_blocking_producer_gets_what_the_handler_returns(cluster: ClientCluster) -> None:
    """S207, C114: small, and so large that both are compressed."""
    topic = cluster.topic()
    with (
        Producer(cluster.name_server, group=f"askers-{topic}") as producer,
        PushConsumer(cluster.name_server, group=f"repliers-{topic}", consume_from=FIRST) as consumer,
    ):
        consumer.subscribe(topic, "*", answer)
        for body in (b"2+2", b"x" * 100_000):
            received = producer.request(Message(topic, body), timeout_s=_SOON_S)
            assert (received.body, received.properties["shape"]) == (b"re:" + body, "round")
        assert producer.reply_counts == (0, 0, 0)


async def test_a_thousand_asyncio_requests_each_get_their_own_reply(cluster: ClientCluster) -> None:
    """S207, C114: with a handler for batches, which answers a list."""
    topic = cluster.topic()

    async def answer_all(messages: Sequence[ReceivedMessage]) -> list[Reply]:
        return [answer(message) for message in messages]

    async with (
        aio.Producer(cluster.name_server, group=f"askers-{topic}") as producer,
        aio.PushConsumer(
            cluster.name_server, group=f"repliers-{topic}", consume_from=FIRST, consume_batch_max=16
        ) as consumer,
    ):
        consumer.subscribe(topic, "*", answer_all)
        asked = [b"%d" % number for number in range(1000)]
        replies = await asyncio.gather(*(producer.request(Message(topic, body), timeout_s=_SOON_S) for body in asked))
        assert [each.body for each in replies] == [b"re:" + body for body in asked]


def test_nobody_replies_or_too_late(cluster: ClientCluster) -> None:
    """C115, C116."""
    topic = cluster.topic()
    go_on = threading.Event()

    def answer_late(message: ReceivedMessage) -> Reply:
        go_on.wait(_SOON_S)
        return answer(message)

    with (
        Producer(cluster.name_server, group=f"askers-{topic}") as producer,
        PushConsumer(cluster.name_server, group=f"repliers-{topic}", consume_from=FIRST) as consumer,
    ):
        with pytest.raises(NoReplyError, match="stored at offset 0"):
            producer.request(Message(topic, b"1"), timeout_s=0.5)
        consumer.subscribe(topic, "*", answer_late)
        go_on.set()
        waited = threading.Event()
        while not producer.reply_counts.late:
            waited.wait(0.05)
        assert producer.reply_counts == (0, 1, 0)


def test_closing_ends_the_wait(cluster: ClientCluster) -> None:
    topic = cluster.topic()
    producer = Producer(cluster.name_server, group=f"askers-{topic}")
    producer.start()
    errors: list[Exception] = []

    def ask() -> None:
        try:
            producer.request(Message(topic, b"1"), timeout_s=_SOON_S)
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not producer.reply_counts.waiting:
        thread.join(0.01)
    producer.close()
    thread.join(_SOON_S)
    assert len(errors) == 1


def test_an_orderly_consumer_replies_too(cluster: ClientCluster) -> None:
    topic = cluster.topic()
    with (
        Producer(cluster.name_server, group=f"askers-{topic}") as producer,
        PushConsumer(cluster.name_server, group=f"repliers-{topic}", consume_from=FIRST, orderly=True) as consumer,
    ):
        consumer.subscribe(topic, "*", answer)
        queue = producer.queues(topic)[0]
        for number in range(5):
            asked = Message(topic, b"%d" % number)
            assert producer.request(asked, queue=queue, timeout_s=_SOON_S).body == b"re:%d" % number


def test_a_handler_that_failed_replies_when_the_message_comes_again(cluster: ClientCluster) -> None:
    """S207: with all that a reply needs, by way of the retry topic."""
    topic, group = cluster.topic(queues=1), cluster.group()

    def fail_first(message: ReceivedMessage) -> Reply:
        if not message.reconsume_times:
            raise ValueError("not yet")
        return answer(message)

    with (
        Producer(cluster.name_server, group=f"askers-{topic}") as producer,
        PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer,
    ):
        consumer.subscribe(topic, "*", fail_first)
        assert producer.request(Message(topic, b"1"), timeout_s=90).body == b"re:1"


def test_of_the_replies_of_all_members_the_first_counts(cluster: ClientCluster, tmp_path: Path) -> None:
    """C116: each member of a group that broadcasts replies."""
    topic, group = cluster.topic(queues=1), cluster.group()

    def member(name: str) -> PushConsumer:
        consumer = PushConsumer(
            cluster.name_server,
            group=group,
            consume_from=FIRST,
            instance_name=name,
            message_model=MessageModel.BROADCASTING,
            offset_folder=tmp_path / name,
        )
        consumer.subscribe(topic, "*", answer)
        return consumer

    with Producer(cluster.name_server, group=f"askers-{topic}") as producer, member("one"), member("two"):
        assert producer.request(Message(topic, b"1"), timeout_s=_SOON_S).body == b"re:1"
        waited = threading.Event()
        while not producer.reply_counts.unknown:
            waited.wait(0.05)
        assert producer.reply_counts == (0, 0, 1)
