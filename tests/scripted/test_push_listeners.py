"""Listeners that push consumers tell which queues are theirs: awaited on the loop, or called in a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

import pytest

from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.sync.push_consumer import PushConsumer as BlockingPushConsumer
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from support.clients.members import passes, until

Q0: Final = MessageQueue("T", "broker-a", 0)
FIRST: Final = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def accept(message: ReceivedMessage) -> None:
    """Consumed."""


async def test_a_listener_that_is_a_coroutine_function_is_awaited(peer: ScriptedPeer, clock: FakeClock) -> None:
    told: list[tuple[str, Any, tuple[MessageQueue, ...]]] = []

    async def listener(topic: str, queues: object, mine: object) -> None:
        await asyncio.sleep(0)
        told.append((topic, mine, consumer.queues))

    peer.route("T", queues=1)
    consumer = PushConsumer(peer.address, group="g", clock=clock, queue_listener=listener)
    consumer.subscribe("T", "*", accept)
    async with consumer:
        await until(lambda: told == [("T", {Q0}, (Q0,))])


async def test_a_listener_that_fails_leaves_the_queues_with_the_consumer(peer: ScriptedPeer, clock: FakeClock) -> None:
    async def listener(topic: str, queues: object, mine: object) -> None:
        raise ValueError("no listener today")

    peer.route("T", queues=1)
    peer.broker.put("T", b"x")
    consumer = PushConsumer(peer.address, group="g", clock=clock, consume_from=FIRST, queue_listener=listener)
    consumer.subscribe("T", "*", accept)
    async with consumer:
        await passes(clock, lambda: consumer.offsets().get(Q0) == 1, within_s=3)


async def test_a_listener_may_close_its_consumer(peer: ScriptedPeer, clock: FakeClock) -> None:
    went_on = asyncio.Event()

    async def listener(topic: str, queues: object, mine: object) -> None:
        await consumer.close()
        went_on.set()

    consumer = PushConsumer(peer.address, group="g", clock=clock, queue_listener=listener)
    consumer.subscribe("T", "*", accept)
    await consumer.start()
    async with asyncio.timeout(10):
        await consumer.run()
        await went_on.wait()


async def test_a_listener_that_waits_for_something_cancelled_does_not_end_the_rebalances() -> None:
    told: list[str] = []

    async def listener(topic: str, queues: object, mine: object) -> None:
        told.append(topic)
        worker = asyncio.get_running_loop().create_future()
        worker.cancel()
        await worker

    async with ScriptedPeer() as peer:
        peer.route("T", queues=1)
        peer.route("U", queues=1)
        consumer = PushConsumer(peer.address, group="g", queue_listener=listener)
        consumer.subscribe("T", "*", accept)
        async with consumer:
            await until(lambda: "T" in told)
            consumer.subscribe("U", "*", accept)
            await until(lambda: "U" in told)


async def test_close_in_a_task_that_a_listener_has_started_waits_for_the_end(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    workers: list[asyncio.Task[None]] = []
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()
        await consumer.close()
        assert consumer.is_over

    async def listener(topic: str, queues: object, mine: object) -> None:
        if not workers:
            workers.append(asyncio.get_running_loop().create_task(work()))

    consumer = PushConsumer(peer.address, group="g", clock=clock, queue_listener=listener)
    consumer.subscribe("T", "*", accept)
    await consumer.start()
    await until(lambda: bool(workers))
    go.set()
    async with asyncio.timeout(10):
        await workers[0]


async def test_a_listener_may_close_its_consumer_within_a_limit(peer: ScriptedPeer, clock: FakeClock) -> None:
    """`wait_for` has it done in a task of its own, for which the listener waits."""
    async with asyncio.timeout(10):
        consumer = PushConsumer(peer.address, group="g", clock=clock, queue_listener=lambda *told: closing())

        async def closing() -> None:
            await asyncio.wait_for(consumer.close(), 5)

        consumer.subscribe("T", "*", accept)
        await consumer.start()
        await consumer.run()


async def test_a_listener_of_a_blocking_consumer_may_close_it_and_hang() -> None:
    """Nothing waits for its thread, not even the end of the process."""
    closed, hanging = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def listener(topic: str, queues: object, mine: object) -> None:
        threads.append(threading.current_thread())
        consumer.close()
        closed.set()
        hanging.wait(60)

    async with ScriptedPeer() as peer:
        peer.route("T", queues=1)
        consumer = BlockingPushConsumer(peer.address, group="g", queue_listener=listener)
        consumer.subscribe("T", "*", accept)
        await asyncio.to_thread(consumer.start)
        await asyncio.to_thread(consumer.run)
        assert await asyncio.to_thread(closed.wait, 3)  # a thread that waited for itself would take 5 s
        assert threads[0].daemon
        hanging.set()
        await asyncio.to_thread(threads[0].join, 10)


async def test_a_listener_of_a_blocking_consumer_runs_in_a_thread_and_may_call_it() -> None:
    told: list[tuple[MessageQueue, ...]] = []
    async with ScriptedPeer() as peer:
        peer.route("T", queues=1)
        consumer = BlockingPushConsumer(
            peer.address, group="g", queue_listener=lambda topic, queues, mine: told.append(consumer.queues)
        )
        consumer.subscribe("T", "*", accept)
        await asyncio.to_thread(consumer.start)
        await until(lambda: told == [(Q0,)])
        await asyncio.to_thread(consumer.close)


async def test_a_listener_of_a_blocking_consumer_is_no_coroutine_function(peer: ScriptedPeer) -> None:
    async def listener(topic: str, queues: object, mine: object) -> None: ...

    class Listener:
        async def __call__(self, topic: str, queues: object, mine: object) -> None: ...

    for one in (listener, Listener()):
        with pytest.raises(TypeError, match=r"rocketline\.aio"):
            BlockingPushConsumer(peer.address, group="g", queue_listener=one)
