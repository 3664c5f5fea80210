"""Messages that are delayed by a level."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.broker.server import Broker
from rocketline.clock import SystemClock
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.offsets import DelayOffsetTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from support.brokers.messages import create_topic, send
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, bodies, pull
from support.brokers.running import BrokerPeer, broker
from support.clients.members import until


@asynccontextmanager
async def scene(
    *, clock: FakeClock | None = None, files: FileSystem | None = None, **settings: str
) -> AsyncIterator[tuple[Broker, BrokerPeer]]:
    async with broker(clock=clock, files=files, **settings) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=2)
        yield running, peer


async def waiting_pull(peer: BrokerPeer, queue_id: int = 0, offset: int = 0) -> Command:
    """What comes first from there, whenever it comes."""
    return await peer.request(pull(offset, flags=SUBSCRIPTION | SUSPEND, queueId=str(queue_id)), 20)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_message_of_level_one_comes_a_second_later_and_not_before(flush: str) -> None:
    """S146."""
    async with scene(flushDiskType=flush) as (_, peer):
        sent_ms = SystemClock().wall_ms()
        answer = await send(peer, b"late", queue_id=1, DELAY="1", TAGS="A", own="value")
        assert answer.ext["queueId"] == "1"
        assert (await peer.request(pull(0, queueId="1"), 5)).code == 19
        (found,) = decode_records((await waiting_pull(peer, 1)).body)
        assert found.store_ms >= sent_ms + 1000
        assert (found.body, found.topic, found.queue_id, found.tag) == (b"late", "T", 1, "A")
        assert found.properties["own"] == "value"


async def test_level_beyond_the_last_is_two_hours(clock: FakeClock) -> None:
    """S147."""
    async with scene(clock=clock) as (_, peer):
        await send(peer, b"late", DELAY="99")
        parked = await peer.request(pull(0, topic=SCHEDULE_TOPIC, queueId="17"), 5)
        assert bodies(parked) == [b"late"]
        clock.advance(7200)
        assert bodies(await waiting_pull(peer)) == [b"late"]


async def test_level_three_is_ten_seconds(clock: FakeClock) -> None:
    """C119: with the levels as they are; not after 9.9 s, but after 10.2 s."""
    async with scene(clock=clock) as (_, peer):
        await send(peer, b"late", DELAY="3")
        await send(peer, b"less late", DELAY="1")
        clock.advance(9.9)
        assert bodies(await waiting_pull(peer)) == [b"less late"]  # so by then the broker has looked at all levels
        assert bodies(await peer.request(pull(0), 5)) == [b"less late"]
        clock.advance(0.3)
        assert bodies(await waiting_pull(peer, offset=1)) == [b"late"]


@pytest.mark.parametrize("level", ["0", "-1"])
async def test_level_zero_and_below_do_not_delay(level: str) -> None:
    """S148."""
    async with scene() as (_, peer):
        await send(peer, DELAY=level)
        assert bodies(await peer.request(pull(0), 5)) == [b"x"]


async def test_level_counts_more_than_a_timer(clock: FakeClock) -> None:
    """S152."""
    async with scene(clock=clock) as (_, peer):
        await send(peer, b"late", DELAY="2", TIMER_DELAY_SEC="100")
        parked = await peer.request(pull(0, topic=SCHEDULE_TOPIC, queueId="1"), 5)
        assert [message.properties.get("TIMER_DELAY_SEC") for message in decode_records(parked.body)] == [None]
        clock.advance(5)
        assert bodies(await waiting_pull(peer)) == [b"late"]


async def test_delay_outlasts_a_restart_and_no_message_comes_twice(clock: FakeClock) -> None:
    """S155."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (_, peer):
        await send(peer, b"before", DELAY="1")
        await send(peer, b"after", DELAY="3")
        clock.advance(1)
        assert bodies(await waiting_pull(peer)) == [b"before"]
    clock.advance(60)
    async with scene(clock=clock, files=files) as (_, peer):
        assert bodies(await waiting_pull(peer, offset=1)) == [b"after"]
        assert (await peer.request(pull(2), 5)).code == 19


async def test_progress_of_the_levels_can_be_asked_for(clock: FakeClock) -> None:
    async with scene(clock=clock) as (_, peer):
        await send(peer, DELAY="1")
        clock.advance(1)
        await waiting_pull(peer)
        answer = await peer.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert decode(DelayOffsetTable, answer.body).offset_table == {1: 1}


@pytest.mark.parametrize("count", [0, 2])
async def test_saved_offset_that_is_ahead_of_the_log_hides_no_message(clock: FakeClock, count: int) -> None:
    """S155: Apache's broker saves it ahead. After a power cut new messages got places that were said to be delivered,
    and never came."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (running, peer):
        for _ in range(count):
            await send(peer, b"before", DELAY="1")
        clock.advance(2)
        await until(lambda: running.storage.store.max_offset("T", 0) == count)
        path = running.storage.store.root / "config" / "delayOffset.json"
    files.write_file(path, b'{"offsetTable":{"1":5}}')
    async with scene(clock=clock, files=files) as (running, peer):
        await send(peer, b"new", DELAY="1")
        clock.advance(2)
        await until(lambda: running.storage.store.max_offset("T", 0) == count + 1)
        assert bodies(await peer.request(pull(count), 5)) == [b"new"]
