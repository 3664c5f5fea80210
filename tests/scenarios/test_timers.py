"""Messages for a moment, by producers of both flavours on real servers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rocketline import Admin, PullConsumer
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import InvalidMessageError, ResponseError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from support.clients.clusters import ClientCluster, wait_until
from support.clients.producers import FLAVOURS, MakeProducer, error_of, maker

SLOW_MACHINE_S = 30.0
LATE_MS_MAX = 5000
"""So much after its moment a message may come on a busy machine."""


@pytest.fixture(params=list(FLAVOURS))
def make(request: pytest.FixtureRequest) -> MakeProducer:
    return maker(request.param)


def read(cluster: ClientCluster, queue: MessageQueue, count: int) -> list[ReceivedMessage]:
    with PullConsumer(cluster.name_server, group=cluster.group("readers")) as consumer:
        found: list[ReceivedMessage] = []
        while len(found) < count:
            found += consumer.pull(queue, len(found), waits=True).messages
        return found


def waiting(cluster: ClientCluster, topic: str) -> int:
    with Admin(cluster.name_server) as admin:
        return sum(topics.get(topic, 0) for topics in admin.timers.waiting().values())


async def test_messages_come_at_their_moment_and_recalled_ones_never(
    cluster: ClientCluster, make: MakeProducer
) -> None:
    """C120, C121, S149, S154: some for a moment, some for a time from now, and one that is called back."""
    topic = cluster.topic(queues=1)
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        (queue,) = await producer.queues(topic)
        moment = datetime.now(UTC) + timedelta(seconds=4)
        recalled = await producer.send(Message(topic, b"recalled", deliver_after=3))
        assert recalled.recall_handle is not None
        await producer.send(Message(topic, b"moment", deliver_at=moment))
        await producer.send(Message(topic, b"after", deliver_after=timedelta(seconds=2)))
        assert await producer.recall(topic, recalled.recall_handle) == recalled.message_id
        due = await producer.send(Message(cluster.topic(queues=1), b"due", deliver_after=0))
        for wrong in ("garbage", "", due.recall_handle, b"bytes"):
            error = await error_of(producer.recall(topic, wrong))  # type: ignore[arg-type]
            assert isinstance(error, InvalidMessageError)
        after, at = await asyncio.to_thread(read, cluster, queue, 2)
        assert (after.body, at.body) == (b"after", b"moment")
        assert 2000 <= after.store_ms - after.born_ms < 2000 + LATE_MS_MAX
        assert 0 <= at.store_ms - moment.timestamp() * 1000 < LATE_MS_MAX
        error = await error_of(producer.recall(topic, recalled.recall_handle))
        assert isinstance(error, ResponseError)
        assert error.code == 604
    await asyncio.to_thread(wait_until, lambda: not waiting(cluster, topic))


async def test_administrators_see_what_waits(cluster: ClientCluster, make: MakeProducer) -> None:
    """How many by topic, and until when."""
    topic = cluster.topic(queues=1)
    begin_ms = datetime.now(UTC).timestamp() * 1000
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        receipts = [await producer.send(Message(topic, b"x", deliver_after=hours * 3600)) for hours in (1, 2, 3)]
        await asyncio.to_thread(wait_until, lambda: waiting(cluster, topic) == 3)
        with Admin(cluster.name_server) as admin:
            moments = await asyncio.to_thread(admin.timers.moments)
        late = [time_ms for time_ms in moments.due_ms if time_ms > begin_ms + 3600_000 - 2000]
        assert moments.is_complete
        assert len(late) >= 3
        for receipt in receipts:  # the next test begins with none
            assert receipt.recall_handle is not None
            await producer.recall(topic, receipt.recall_handle)
        await asyncio.to_thread(wait_until, lambda: not waiting(cluster, topic))
        with Admin(cluster.name_server) as admin:
            assert len((await asyncio.to_thread(admin.timers.moments)).due_ms) <= len(moments.due_ms) - 3


async def test_moment_beyond_the_limit_is_refused(cluster: ClientCluster, make: MakeProducer) -> None:
    """S151: whatever the application thinks, the broker says how far ahead it keeps messages."""
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        message = Message(cluster.topic(queues=1), b"x", deliver_after=timedelta(days=10))
        error = await error_of(producer.send(message))
        assert isinstance(error, ResponseError)
        assert error.code == 13
