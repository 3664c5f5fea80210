"""What comes between a consumer and its start: a close, or another start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping

import pytest

from rocketline.admin.aio import Admin
from rocketline.client.aio.lite_pull_consumer import LitePullConsumer
from rocketline.client.aio.pull_consumer import PullConsumer
from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.sync.lite_pull_consumer import LitePullConsumer as BlockingLitePullConsumer
from rocketline.errors import ClientError, ClosedError
from rocketline.model.queue import MessageQueue
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from support.clients.members import settled, until

Consumer = PushConsumer | LitePullConsumer


class SlowKeeper:
    """Keeps a consumer from starting until it is told to go on."""

    def __init__(self) -> None:
        self.loading, self.go_on = asyncio.Semaphore(0), asyncio.Event()

    async def load(self) -> dict[MessageQueue, int]:
        self.loading.release()
        await self.go_on.wait()
        return {}

    async def fetch(self, queue: MessageQueue) -> int | None:
        return None

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None: ...


async def outcome(work: Awaitable[object]) -> Exception | None:
    try:
        await work
    except (ClientError, ClosedError) as error:
        return error
    return None


def push(runtime: ClientRuntime, keeper: SlowKeeper) -> PushConsumer:
    consumer = PushConsumer(group="g", runtime=runtime, offset_keeper=keeper)
    consumer.subscribe("T", "*", lambda message: None)
    return consumer


def lite_pull(runtime: ClientRuntime, keeper: SlowKeeper) -> LitePullConsumer:
    consumer = LitePullConsumer(group="g", runtime=runtime, offset_keeper=keeper)
    consumer.subscribe("T")
    return consumer


@pytest.fixture
async def runtime(peer: ScriptedPeer) -> AsyncIterator[ClientRuntime]:
    async with ClientRuntime.at(peer.address) as runtime:
        yield runtime


@pytest.mark.parametrize("make", [push, lite_pull])
async def test_a_consumer_that_is_closed_while_it_starts_leaves_nothing_behind(
    runtime: ClientRuntime, make: Callable[[ClientRuntime, SlowKeeper], Consumer]
) -> None:
    keeper = SlowKeeper()
    consumer = make(runtime, keeper)
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(outcome(consumer.start()))
        await keeper.loading.acquire()
        await consumer.close()
        keeper.go_on.set()

    assert isinstance(starting.result(), ClosedError)
    async with make(runtime, keeper):  # nobody has its place
        pass


@pytest.mark.parametrize("make", [push, lite_pull])
async def test_of_two_starts_at_once_one_is_refused_and_the_other_counts(
    runtime: ClientRuntime, make: Callable[[ClientRuntime, SlowKeeper], Consumer]
) -> None:
    keeper = SlowKeeper()
    consumer = make(runtime, keeper)
    async with asyncio.TaskGroup() as group:
        starts = [group.create_task(outcome(consumer.start())) for _ in range(2)]
        for _ in starts:
            await keeper.loading.acquire()
        keeper.go_on.set()

    first, second = sorted((start.result() for start in starts), key=lambda problem: problem is not None)
    assert first is None
    assert second is not None
    with pytest.raises(ClientError, match="started already"):
        await consumer.start()
    await consumer.close()


async def test_of_two_threads_that_start_a_blocking_consumer_one_is_refused_and_the_other_counts() -> None:
    class Together(SlowKeeper):
        async def load(self) -> dict[MessageQueue, int]:
            if self.loading.locked():  # the first
                self.loading.release()
            else:
                self.go_on.set()
            return await super().load()

    async with ScriptedPeer() as peer:
        peer.route("T")
        consumer = BlockingLitePullConsumer(peer.address, group="g", offset_keeper=Together())
        consumer.subscribe("T")
        problems = await asyncio.gather(*(outcome(asyncio.to_thread(consumer.start)) for _ in range(2)))
        assert problems.count(None) == 1
        assert consumer.is_running
        await asyncio.to_thread(consumer.close)


async def test_a_listener_may_seek_while_the_start_waits_for_another_broker(
    peer: ScriptedPeer, runtime: ClientRuntime
) -> None:
    sought: list[MessageQueue] = []

    async def listener(topic: str, queues: object, mine: Collection[MessageQueue]) -> None:
        for queue in mine:
            await consumer.seek_to_begin(queue)
            sought.append(queue)

    async with ScriptedPeer(broker_name="broker-b") as slow:
        heartbeats = slow.on(RequestCode.HEART_BEAT).hold(times=100)
        peer.route("U", {"broker-b": slow})
        consumer = LitePullConsumer(group="g", runtime=runtime, queue_listener=listener)
        consumer.subscribe("T")
        consumer.subscribe("U")
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(consumer.start())
            await slow.wait_for(RequestCode.HEART_BEAT)
            await peer.wait_for(RequestCode.HEART_BEAT)
            runtime.wake_rebalance()
            await until(lambda: len(sought) == 4)
            assert not starting.done()
            heartbeats.release()
        await consumer.close()


async def test_topics_may_be_subscribed_while_a_lite_pull_consumer_starts(
    peer: ScriptedPeer, runtime: ClientRuntime
) -> None:
    peer.route("U")
    consumer = LitePullConsumer(group="g", runtime=runtime)
    consumer.subscribe("T")
    routes = peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).hold(times=1).default(times=1000)
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.start())
        await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        consumer.subscribe("U")
        routes.release()
    await until(lambda: {queue.topic for queue in consumer.assignment()} == {"T", "U"})
    await consumer.close()


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_a_start_that_goes_well_after_a_close_says_so(
    peer: ScriptedPeer, runtime: ClientRuntime, kind: Callable[..., Consumer]
) -> None:
    heartbeats = peer.on(RequestCode.HEART_BEAT).hold(times=100)
    consumer = kind(group="g", runtime=runtime)
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(outcome(consumer.start()))
        if isinstance(consumer, LitePullConsumer):
            consumer.subscribe("T")
        else:
            consumer.subscribe("T", "*", lambda message: None)
        await peer.wait_for(RequestCode.HEART_BEAT)
        await consumer.close()
        heartbeats.release()
    assert isinstance(starting.result(), ClosedError)


async def test_assigned_queues_are_not_pulled_after_a_close(peer: ScriptedPeer, runtime: ClientRuntime) -> None:
    routes = peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).hold(times=100)
    farewells = peer.on(RequestCode.UNREGISTER_CLIENT).hold(times=1).default(times=100)
    consumer = LitePullConsumer(group="g", runtime=runtime)
    consumer.assign([MessageQueue("T", "broker-a", 0)])
    consumer.watch_queues("T", print)
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(outcome(consumer.start()))
        await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        group.create_task(consumer.close())
        await settled()
        routes.release()
        await settled()
        farewells.release()
    assert isinstance(starting.result(), ClosedError)
    await settled()
    assert not peer.requests(RequestCode.LITE_PULL_MESSAGE)


@pytest.mark.parametrize("kind", [PullConsumer, Admin])
async def test_a_client_that_is_closed_while_its_runtime_starts_gives_it_back(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, kind: Callable[..., PullConsumer | Admin]
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    start = ClientRuntime._start

    async def slowly(runtime: ClientRuntime) -> None:
        begun.set()
        await go_on.wait()
        await start(runtime)

    monkeypatch.setattr(ClientRuntime, "_start", slowly)
    runtime = ClientRuntime.at(peer.address)
    client = kind(runtime=runtime) if kind is Admin else kind(group="g", runtime=runtime)
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(outcome(client.start()))
        await begun.wait()
        await client.close()
        go_on.set()
    assert isinstance(starting.result(), ClosedError)
    assert runtime.is_closed


# --- a runtime that is closed under its consumers


async def test_whoever_waits_for_messages_is_told_when_the_runtime_is_closed(peer: ScriptedPeer) -> None:
    runtime = ClientRuntime.at(peer.address)
    consumer, pushed = LitePullConsumer(group="g", runtime=runtime), PushConsumer(group="h", runtime=runtime)
    consumer.subscribe("T")
    await consumer.start()
    await pushed.start()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        running, waiting = group.create_task(pushed.run()), group.create_task(outcome(anext(consumer)))
        polling = group.create_task(outcome(consumer.poll(60)))
        await settled()
        assert not any(task.done() for task in (running, waiting, polling))
        await runtime.close()
    assert all(isinstance(waited.result(), ClosedError) for waited in (waiting, polling))
    with pytest.raises(ClosedError):
        await consumer.poll(0)
    await consumer.close()
    await pushed.close()


async def test_what_was_committed_is_saved_though_the_runtime_was_closed_first(peer: ScriptedPeer) -> None:
    saved: list[Mapping[MessageQueue, int]] = []

    class Keeper(SlowKeeper):
        async def save(self, offsets: Mapping[MessageQueue, int]) -> None:
            saved.append(dict(offsets))

    keeper, queue = Keeper(), MessageQueue("T", "broker-a", 0)
    keeper.go_on.set()
    runtime = ClientRuntime.at(peer.address)
    consumer = LitePullConsumer(group="g", runtime=runtime, offset_keeper=keeper)
    consumer.assign([queue])
    await consumer.start()
    await consumer.commit({queue: 5})
    await runtime.close()
    await consumer.close()
    assert {queue: 5} in saved
