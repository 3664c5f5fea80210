"""What comes between a consumer and its start: a close, or another start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from rocketline.client.lite_pull_consumer import LitePullConsumer
from rocketline.client.push_consumer import PushConsumer
from rocketline.client.runtime import ClientRuntime
from rocketline.errors import ClientError, ClosedError
from rocketline.model.queue import MessageQueue
from rocketline.sync.lite_pull_consumer import LitePullConsumer as BlockingLitePullConsumer
from rocketline.testing.scripted_peer import ScriptedPeer

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


async def outcome(work: Awaitable[None]) -> Exception | None:
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
