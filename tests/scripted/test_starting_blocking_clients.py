"""What other threads do to a blocking client before it runs, or while it starts."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from rocketline import Admin, LitePullConsumer, Message, Producer, PullConsumer, PushConsumer, SimpleConsumer
from rocketline.client.runtime.runtime import ClientRuntime as AsyncClientRuntime
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.errors import ClientError, ClosedError, ForkedError, GroupInUseError
from rocketline.model.queue import MessageQueue
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from support.clients.members import in_background, until

in_thread = asyncio.to_thread
Make = Callable[[ClientRuntime], Any]


def push(runtime: ClientRuntime) -> PushConsumer:
    consumer = PushConsumer(group="g", runtime=runtime)
    consumer.subscribe("T", "*", lambda message: None)
    return consumer


def lite_pull(runtime: ClientRuntime) -> LitePullConsumer:
    consumer = LitePullConsumer(group="g", runtime=runtime)
    consumer.subscribe("T")
    return consumer


def simple(runtime: ClientRuntime) -> SimpleConsumer:
    consumer = SimpleConsumer(group="g", runtime=runtime)
    consumer.subscribe("T")
    return consumer


CLIENTS: dict[str, Make] = {
    "producer": lambda runtime: Producer(group="g", runtime=runtime),
    "pull": lambda runtime: PullConsumer(group="g", runtime=runtime),
    "admin": lambda runtime: Admin(runtime=runtime),
    "push": push,
    "lite pull": lite_pull,
    "simple": simple,
}
every_client = pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    """A name server and broker in one, which has the topic T. Blocking clients live by the real clock."""
    async with ScriptedPeer() as peer:
        peer.route("T", queues=1)
        yield peer


class SlowStart:
    """Holds up the start of a runtime until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        start = AsyncClientRuntime._start

        async def slowly(runtime: AsyncClientRuntime) -> None:
            self.begun.set()
            await in_thread(self.go_on.wait, 10)
            await start(runtime)

        monkeypatch.setattr(AsyncClientRuntime, "_start", slowly)


@every_client
async def test_a_client_that_was_closed_cannot_start_and_makes_no_thread(peer: ScriptedPeer, make: Make) -> None:
    runtime = ClientRuntime.at(peer.address)
    client = make(runtime)
    for _ in range(2):
        client.close()
    with pytest.raises(ClosedError, match="make a new one"):
        client.start()
    assert not runtime.portal.is_started


@every_client
async def test_a_client_that_another_thread_closes_while_it_starts_leaves_nothing_behind(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    runtime, slow = ClientRuntime.at(peer.address), SlowStart(monkeypatch)
    client = make(runtime)
    starting = in_background(client.start)
    await in_thread(slow.begun.wait, 10)
    await in_thread(client.close)
    slow.go_on.set()
    with pytest.raises(ClosedError):
        await starting
    assert runtime.core.is_closed


async def test_a_push_consumer_that_is_closed_while_it_looks_for_routes_is_closed(peer: ScriptedPeer) -> None:
    routes = peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).hold(times=100)
    runtime = ClientRuntime.at(peer.address)
    consumer = push(runtime)
    starting = in_background(consumer.start)
    await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    await in_thread(consumer.close)
    routes.release()
    with pytest.raises(ClosedError):
        await starting
    assert runtime.core.is_closed
    assert "closed" in repr(consumer)


async def test_a_push_consumer_that_was_refused_can_start_later_and_be_closed(peer: ScriptedPeer) -> None:
    runtime = ClientRuntime.at(peer.address)
    await in_thread(runtime.lease)
    first, second = push(runtime), push(runtime)
    await in_thread(first.start)
    with pytest.raises(GroupInUseError):
        await in_thread(second.start)
    await in_thread(first.close)
    await in_thread(second.start)
    await in_thread(second.close)
    await in_thread(push(runtime).start)  # nobody has the place
    await in_thread(runtime.close)


async def test_topics_may_be_subscribed_by_another_thread_while_a_lite_pull_consumer_starts(peer: ScriptedPeer) -> None:
    peer.route("U", queues=1)
    routes = peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).hold(times=1).default(times=1000)
    consumer = lite_pull(ClientRuntime.at(peer.address))
    starting = in_background(consumer.start)
    await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    await in_thread(consumer.subscribe, "U")
    routes.release()
    await starting
    await until(lambda: {queue.topic for queue in consumer.assignment()} == {"T", "U"})
    await in_thread(consumer.close)


# --- a runtime that is closed under its clients


async def test_whoever_waits_for_messages_is_told_when_the_runtime_is_closed(peer: ScriptedPeer) -> None:
    runtime = ClientRuntime.at(peer.address)
    consumer, pushed = lite_pull(runtime), PushConsumer(group="h", runtime=runtime)
    await in_thread(consumer.start)
    await in_thread(pushed.start)
    running, polling = in_background(pushed.run), in_background(lambda: consumer.poll(60))
    iterating = in_background(lambda: list(consumer))
    await asyncio.sleep(0.05)
    await in_thread(runtime.close)
    async with asyncio.timeout(10):
        await running
        for waiting in (iterating, polling):
            with pytest.raises(ClosedError):
                await waiting
    with pytest.raises(ClosedError):
        consumer.poll(0)
    for client in (consumer, pushed):
        await in_thread(client.close)


@pytest.mark.parametrize("make", [push, lite_pull, simple])
async def test_a_consumer_of_a_closed_runtime_may_be_asked_and_cannot_start(peer: ScriptedPeer, make: Make) -> None:
    runtime = ClientRuntime.at(peer.address)
    await in_thread(runtime.lease)
    await in_thread(runtime.close)
    consumer = await in_thread(make, runtime)
    with pytest.raises(ClosedError):
        await in_thread(consumer.start)
    await in_thread(consumer.close)


@every_client
async def test_a_forked_child_that_starts_a_client_again_is_told_of_the_fork(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    client, parent = make(ClientRuntime.at(peer.address)), os.getpid()
    await in_thread(client.start)
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(ForkedError):
            client.start()
    await in_thread(client.close)


async def test_a_callback_on_the_loop_may_close_what_is_being_closed(peer: ScriptedPeer) -> None:
    sends = peer.on(RequestCode.SEND_MESSAGE_V2).hold(times=100)
    producer = Producer(peer.address, group="g")
    await in_thread(producer.start)
    problems: list[BaseException | None] = []

    def callback(receipt: object) -> None:
        try:
            producer.close()
        except ClientError as problem:
            problems.append(problem)
        else:
            problems.append(None)

    await in_thread(lambda: producer.send_soon(Message("T", b"x"), callback))
    await peer.wait_for(RequestCode.SEND_MESSAGE_V2)
    closing = in_background(producer.close)
    await until(lambda: producer._twin.is_closed)
    sends.release()
    await closing
    assert problems == [None]


class Keeper:
    """Keeps no offsets; says when they are asked for, and waits."""

    def __init__(self) -> None:
        self.loading, self.go_on = threading.Semaphore(0), threading.Event()

    async def load(self) -> dict[MessageQueue, int]:
        self.loading.release()
        await in_thread(self.go_on.wait, 10)
        return {}

    async def fetch(self, queue: MessageQueue) -> int | None:
        return None

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None: ...


async def test_of_two_threads_that_start_a_push_consumer_one_is_refused_and_the_other_counts(
    peer: ScriptedPeer,
) -> None:
    keeper = Keeper()
    runtime = ClientRuntime.at(peer.address)
    consumer = PushConsumer(group="g", runtime=runtime, offset_keeper=keeper)
    starts = [in_background(consumer.start) for _ in range(2)]
    for _ in starts:
        await in_thread(keeper.loading.acquire, timeout=10)
    keeper.go_on.set()
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["GroupInUseError", "NoneType"]
    running = in_background(consumer.run)
    await asyncio.sleep(0.05)
    assert not running.done()
    await in_thread(consumer.close)
    await running
