"""When a busy broker refuses, over real connections."""

from __future__ import annotations

import asyncio

import pytest

from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from support.brokers.messages import create_topic, send, try_send
from support.brokers.running import BrokerPeer, broker
from support.brokers.sends import send_v2
from support.stores.gated_files import GatedFileSystem


class HurriedClock(FakeClock):
    """Whoever looks at it twice has lost `step_s` in between."""

    step_s = 0.0

    def monotonic(self) -> float:
        self.advance(self.step_s)
        return super().monotonic()


async def test_a_send_that_waited_too_long_is_refused() -> None:
    """S223: the age counts from the moment when the request was read; 200 ms are too much."""
    clock = HurriedClock()
    async with (
        broker(clock=clock, brokerFastFailureEnable="true") as running,
        BrokerPeer(running.address) as peer,
    ):
        await create_topic(peer, "T")
        clock.step_s = 0.21
        for answer in (await try_send(peer), await peer.request(send_v2(), 20)):
            assert answer.code == 2
            assert str(answer.remark).startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")
        clock.step_s = 0
        assert (await send(peer)).ext["queueOffset"] == "0"


async def test_a_send_that_waited_too_long_is_taken_if_nobody_wants_it_refused() -> None:
    """S226."""
    clock = HurriedClock()
    async with (
        broker(clock=clock, brokerFastFailureEnable="false") as running,
        BrokerPeer(running.address) as peer,
    ):
        await create_topic(peer, "T")
        clock.step_s = 0.21
        for number in range(2):
            answer = await try_send(peer) if number else await peer.request(send_v2(), 20)
            assert (answer.code, answer.ext["queueOffset"]) == (0, str(number))


@pytest.mark.parametrize("capacity", [1, 3])
async def test_more_sends_than_may_wait_for_their_flush_are_refused(capacity: int) -> None:
    """S224: here those wait that were written and not yet flushed."""
    files = GatedFileSystem(FakeClock())
    async with (
        broker(files=files, flushDiskType="SYNC_FLUSH", sendThreadPoolQueueCapacity=str(capacity)) as running,
        BrokerPeer(running.address) as peer,
        asyncio.TaskGroup() as tasks,
    ):
        await create_topic(peer, "T")
        waiting = []
        for number in range(capacity):
            waiting.append(tasks.create_task(peer.request(send_v2(f"{number}".encode()), 20)))
            await peer.ask(RequestCode.GET_ALL_PRODUCER_INFO)  # by its answer the broker has taken the message
        await files.gate.begun()
        for answer in (await try_send(peer), await peer.request(send_v2(), 20)):
            assert answer.code == 2
            assert str(answer.remark).startswith(f"[OVERLOAD]system busy: {capacity} messages wait")
        files.gate.open()
        assert [answer.code for answer in await asyncio.gather(*waiting)] == [0] * capacity
        assert (await send(peer)).ext["queueOffset"] == str(capacity)


async def test_a_flush_that_takes_too_long_is_told_and_the_message_is_stored() -> None:
    """S144: 10, with the place of the message, which consumers get once it is flushed."""
    clock = FakeClock()
    files = GatedFileSystem(clock)
    async with (
        broker(clock=clock, files=files, flushDiskType="SYNC_FLUSH") as running,
        BrokerPeer(running.address) as peer,
        asyncio.TaskGroup() as tasks,
    ):
        await create_topic(peer, "T")
        waiting = tasks.create_task(peer.request(send_v2(b"slow"), 20))
        await files.gate.begun()
        clock.advance(5.1)
        answer = await waiting
        assert (answer.code, answer.ext["queueOffset"]) == (10, "0")
        assert running.storage.store.max_offset("T", 0) == 0
        files.gate.open()
        assert (await send(peer)).ext["queueOffset"] == "1"
        assert running.storage.store.max_offset("T", 0) == 2


async def test_messages_that_nobody_waits_for_can_be_read_as_soon_as_they_are_flushed() -> None:
    """waitStoreMsgOK=false."""
    files = GatedFileSystem(FakeClock())
    async with (
        broker(files=files, flushDiskType="SYNC_FLUSH") as running,
        BrokerPeer(running.address) as peer,
    ):
        await create_topic(peer, "T")
        answer = await try_send(peer, properties={"WAIT": "false"})
        assert (answer.code, answer.ext["queueOffset"]) == (0, "0")
        await files.gate.begun()
        assert running.storage.store.max_offset("T", 0) == 0
        files.gate.open()
        await send(peer)
        assert running.storage.store.max_offset("T", 0) == 2
