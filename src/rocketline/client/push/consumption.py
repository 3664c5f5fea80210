"""What concurrent and orderly consumption have in common: what stands around them, and where they run handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias

from rocketline.client.consumer.offset_store import OffsetStore
from rocketline.client.consumer.process_queue import Queue
from rocketline.client.consumer.stats import ConsumerStats
from rocketline.client.push.consume_request import ConsumeRequest, HandlerCaller
from rocketline.client.push.consume_result import ConsumeResult
from rocketline.client.push.handler_pools import Job, Pool, TaskPool, ThreadPool
from rocketline.client.push.handler_table import HandlerTable
from rocketline.client.push.options import PushOptions
from rocketline.client.push.replies import Replies
from rocketline.client.push.send_back import SendBack
from rocketline.client.received_message import ReceivedMessage
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue

Spawn: TypeAlias = Callable[..., "asyncio.Task[Any]"]
"""`spawn(coroutine, name=…)`: a task that ends with the client at the latest."""


Later: TypeAlias = Callable[[float, Callable[[], object]], object]
"""`later(seconds, action)`: calls `action` on the loop, by the client's clock."""


@dataclass(frozen=True, slots=True)
class ConsumptionContext:
    """What a way of consuming works with. All of it belongs to the loop's thread, but `calls`."""

    group: str
    options: PushOptions
    clock: Clock
    handlers: HandlerTable
    calls: HandlerCaller
    offsets: OffsetStore
    stats: ConsumerStats
    send_back: SendBack
    replies: Replies
    throttle: Throttle
    spawn: Spawn
    later: Later
    progressed: Callable[[MessageQueue], None]
    """Told when a queue holds fewer messages than before: whoever pulls for it may be waiting for that."""

    def tell_unfinished(self, **left: int) -> None:
        """A consumer closes though handlers run."""
        told = "results of handlers that still run are dropped, and their messages will come again"
        self.throttle.warning("consumer closed with work under way", told, group=self.group, **left)


class Consumption(Protocol):
    """A way of consuming. Java: ConsumeMessageService."""

    def take_in(self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        """A pull brought these, and they have been put into the process queue."""

    def resize(self, size: int) -> None:
        """Call up to `size` handlers at once from now on."""

    def is_inside(self) -> bool:
        """The caller is a handler, which must not wait for handlers."""

    async def close(self, wait_s: float) -> None:
        """Call no further handler; give those that run so long to end, and their results the usual way."""


class HandlerPools(Generic[Job]):
    """Threads for handlers that block and tasks for those that await, each made when the first such handler comes."""

    def __init__(
        self,
        run: Callable[[Job], None],
        run_async: Callable[[Job], Coroutine[Any, Any, None]] | Callable[[Job], Awaitable[None]],
        finished: Callable[[list[Job]], None],
        spawn: Spawn,
        *,
        size: int,
        name: str,
    ) -> None:
        self._run, self._run_async, self._finished, self._spawn = run, run_async, finished, spawn
        self._size, self._name = size, name
        self._threads: ThreadPool[Job] | None = None
        self._tasks: TaskPool[Job] | None = None

    def submit(self, jobs: Sequence[Job], *, is_async: bool) -> None:
        (self._task_pool() if is_async else self._thread_pool()).submit(jobs)

    def _thread_pool(self) -> Pool[Job]:
        if self._threads is None:
            self._threads = ThreadPool(self._run, self._finished, size=self._size, name=self._name)
            self._threads.start()
        return self._threads

    def _task_pool(self) -> Pool[Job]:
        if self._tasks is None:
            self._tasks = TaskPool(self._run_async, self._finished, self._spawn, size=self._size, name=self._name)
            self._tasks.start()
        return self._tasks

    @property
    def _pools(self) -> list[Pool[Job]]:
        return [pool for pool in (self._threads, self._tasks) if pool is not None]

    def take_back(self) -> list[Job]:
        """The jobs that have not begun, which then never will."""
        return [job for pool in self._pools for job in pool.take_back()]

    def resize(self, size: int) -> None:
        self._size = size
        for pool in self._pools:
            pool.resize(size)

    def is_inside(self) -> bool:
        return any(pool.is_inside() for pool in self._pools)

    async def idle(self, wait_s: float, following: Collection[asyncio.Task[Any]]) -> bool:
        """Wait until nothing runs, nor any task that `following` gets meanwhile; False if that takes too long."""
        try:
            async with asyncio.timeout(wait_s):
                for pool in self._pools:
                    await pool.idle()
                while following:
                    await asyncio.wait(following)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        for pool in self._pools:
            pool.close()


def count_consumed(
    stats: ConsumerStats, topic: str, requests: Sequence[ConsumeRequest], *, ok: int, failed: int
) -> None:
    """Note calls of handlers, and of how many messages they made something or nothing."""
    counters = stats.of(topic)
    elapsed_s = sum([request.ended_s - request.started_s for request in requests if request.started_s is not None])
    counters.consume_ms.value += round(1000 * elapsed_s)
    counters.consume_ms.times += len(requests)
    if ok:
        counters.consume_ok.value += ok
        counters.consume_ok.times += len(requests)
    if failed:
        counters.consume_failed.value += failed
        counters.consume_failed.times += len(requests)


def acknowledged(request: ConsumeRequest) -> int:
    """How many of the request's messages, counted from the first, are done with."""
    if request.result is not ConsumeResult.SUCCESS:
        return 0
    last = request.context.ack_index if request.context else len(request.messages)
    return max(0, min(last + 1, len(request.messages)))
