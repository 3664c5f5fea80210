"""The blocking pull consumer: queues, offsets and pulls are the application's business. Java: DefaultMQPullConsumer.

It is no member of its group: others do not make room for it. The group's name is where its offsets are kept.

`pull` and `pull_raw` write to a socket that the calling thread has to itself. `pull_raw_soon` goes by the background
thread, where all pulls to one broker share a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, Self, TypeVar, Unpack

from rocketline.client.options import make_options
from rocketline.client.pull_consumer import COUNT_MAX
from rocketline.client.pull_consumer import PullConsumer as AsyncPullConsumer
from rocketline.client.pull_options import PullKeywords, PullOptions
from rocketline.client.pull_request import PullQuery
from rocketline.client.pulling import PullResult, RawPull
from rocketline.client.scheduling import Stoppable
from rocketline.client.subscriptions import MessageSelector
from rocketline.clock import Clock
from rocketline.errors import TransportError
from rocketline.model.queue import MessageQueue
from rocketline.sync.connections import BlockingConnections
from rocketline.sync.runtime import ClientRuntime

_IDLE_CHECK_S: Final = 30.0
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class PullConsumer:
    """Pulls when told, for any number of threads. Use it as `with`, or between `start` and `close`.

    >>> from rocketline import Message, Producer
    >>> from rocketline.testing import Server
    >>> with Server() as server, PullConsumer(server.address, group="copy") as consumer:
    ...     with Producer(server.address, group="shop") as producer:
    ...         _ = producer.send(Message("orders", b"42"))
    ...     for queue in consumer.queues("orders"):
    ...         offset = max(consumer.fetch_offset(queue), consumer.min_offset(queue))
    ...         result = consumer.pull(queue, offset)
    ...         for message in result.messages:
    ...             print(message.body, message.queue_offset)
    ...         consumer.update_offset(queue, result.next_offset)
    b'42' 0
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[PullKeywords],
    ) -> None:
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        """
        self.options = make_options(PullOptions, name_servers, options)
        self.runtime = runtime or ClientRuntime(self.options, clock=clock)
        core = self.runtime.core
        self._core = AsyncPullConsumer(name_servers, group=group, runtime=core, **options)
        self.group = group
        self._connections = BlockingConnections(
            tls=core.tls,
            connect_timeout_s=core.options.connect_timeout_s,
            idle_s=core.options.idle_close_s,
            clock=core.clock,
        )
        self._closing_idle: Stoppable | None = None

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def client_id(self) -> str:
        return self.runtime.client_id

    # --- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Join the runtime. No server needs to be up for it. Raises `ClientError` if started already."""
        self.runtime.start_client(self._core, self._start)

    async def _start(self) -> None:
        await self._core.start()
        self._closing_idle = self.runtime.core.every(
            _IDLE_CHECK_S, _IDLE_CHECK_S, self._close_idle, name="close idle connections"
        )

    async def _close_idle(self) -> None:
        self._connections.close_idle()

    def close(self) -> None:
        """Leave the runtime. Pulls of other threads that are under way end as they would. Again: does nothing."""
        self._connections.close()
        self.runtime.close_client(self._core, self._close)

    async def _close(self) -> None:
        if self._closing_idle is not None:
            self._closing_idle.cancel()
        await self._core.close()

    @property
    def is_running(self) -> bool:
        return self._core.is_running

    # --- pulling

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = COUNT_MAX,
        selector: MessageSelector | str | None = None,
        *,
        waits: bool = False,
        timeout_s: float | None = None,
    ) -> PullResult:
        """Messages of the queue from `offset` on. Go on at the result's `next_offset`, also if there is none.

        `selector` chooses among them: tags as in `"new || paid"`, or `by_sql(…)`. With `waits` the broker holds the
        pull back at the end of the queue until a message comes, for 20 s (`suspend_s`). Raises `ValueError` for an
        offset or a count that cannot be, `ResponseError`, `TransportError`, `BrokerNotFoundError`, and
        `CallTimeoutError` if the time was over before anybody knew whom to ask.
        """
        self._core.check_running()
        query = self._core.query(queue, offset, count_max, selector, waits=waits)
        return self._core.pulls.plan.result(query, self._pull(query, self._core.timeout_s(timeout_s, waits=waits)))

    def pull_raw(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = COUNT_MAX,
        selector: MessageSelector | str | None = None,
        *,
        waits: bool = False,
        timeout_s: float | None = None,
    ) -> RawPull:
        """The same, with the messages as the bytes of their records; tags are filtered by their hashes alone."""
        self._core.check_running()
        query = self._core.query(queue, offset, count_max, selector, waits=waits)
        return self._pull(query, self._core.timeout_s(timeout_s, waits=waits))

    def pull_raw_soon(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = COUNT_MAX,
        selector: MessageSelector | str | None = None,
        *,
        waits: bool = False,
        timeout_s: float | None = None,
    ) -> Future[RawPull]:
        """The same without waiting: several may be under way, also of one queue, on one connection to each broker."""
        self._core.check_running()
        loop = self.runtime.portal.loop
        work = self._core.pull_raw(queue, offset, count_max, selector, waits=waits, timeout_s=timeout_s)
        return asyncio.run_coroutine_threadsafe(work, loop)

    def _pull(self, query: PullQuery, timeout_s: float) -> RawPull:
        pulls, core = self._core.pulls, self.runtime.core
        plan, due_s = pulls.plan, core.clock.monotonic() + timeout_s
        node = plan.node(query.queue) or self.runtime.portal.call(pulls.search(query.queue, timeout_s))
        command = plan.requests.command(query, node)
        core.prepare(command, node.address)
        try:
            left_s = max(due_s - core.clock.monotonic(), 0.0)
            answer = self._connections.request(node.address, command, left_s)
        except TransportError:
            plan.forget_suggestion(query.queue)
            raise
        core.preparation.finish(command, node.address, answer)
        return plan.answered(query, node, answer)

    # --- offsets

    def fetch_offset(self, queue: MessageQueue) -> int:
        """The offset that the group goes on at, as the broker has it; -1 if there is none. Java: fetchConsumeOffset."""
        return self._ask(self._core.fetch_offset, queue)

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Have the broker keep it, and wait until it has. Java: updateConsumeOffset, which waits for a timer."""
        self._ask(self._core.update_offset, queue, offset)

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        return self._ask(self._core.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return self._ask(self._core.max_offset, queue)

    def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message that was stored at this time, in ms since 1970, or later.

        Java: searchOffset.
        """
        return self._ask(self._core.offset_for_time, queue, time_ms)

    def earliest_store_ms(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored. Java: earliestMsgStoreTime."""
        return self._ask(self._core.earliest_store_ms, queue)

    def queues(self, topic: str) -> set[MessageQueue]:
        """All queues of a topic, by its newest route. Raises `TopicNotFoundError`.

        Java: fetchSubscribeMessageQueues.
        """
        return self._ask(self._core.queues, topic)

    def _ask(
        self, work: Callable[Arguments, Coroutine[Any, Any, Result]], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        self._core.check_running()
        return self.runtime.portal.call(work(*args, **kwargs))
