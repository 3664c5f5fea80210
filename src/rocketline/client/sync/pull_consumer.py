"""The blocking pull consumer: queues, offsets and pulls are the application's business. Java: DefaultMQPullConsumer.

It is no member of its group: others do not make room for it. The group's name is where its offsets are kept.

`pull` and `pull_raw` write to a socket that the calling thread has to itself. `pull_raw_soon` goes by the background
thread, where all pulls to one broker share a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Unpack

from rocketline.client.aio.pull_consumer import PullConsumer as AsyncPullConsumer
from rocketline.client.consumer.pull_core import COUNT_MAX
from rocketline.client.consumer.pull_options import PullKeywords, PullOptions
from rocketline.client.consumer.pull_request import PullQuery
from rocketline.client.consumer.pulls import PullResult, RawPull
from rocketline.client.consumer.subscriptions import MessageSelector
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.client.sync.shell import SocketClient, starts, waits
from rocketline.clock import Clock
from rocketline.errors import TransportError
from rocketline.model.queue import MessageQueue


class PullConsumer(SocketClient[AsyncPullConsumer, PullOptions]):
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
        super().__init__(PullOptions, name_servers, options, group, runtime, clock)
        self._twin = AsyncPullConsumer(name_servers, group=group, runtime=self.runtime.core, **options)
        self._core = self._twin.core
        self._connections = self._make_connections()

    # --- life

    start = starts(AsyncPullConsumer.start)

    def close(self) -> None:
        """Leave the runtime. Pulls of other threads that are under way end as they would. Again: does nothing."""
        self._close()

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
        self._twin.check_running()
        query = self._core.query(queue, offset, count_max, selector, waits=waits)
        return self._core.plan.result(query, self._pull(query, self._core.timeout_s(timeout_s, waits=waits)))

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
        self._twin.check_running()
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
        self._twin.check_running()
        loop = self.runtime.portal.loop
        work = self._twin.pull_raw(queue, offset, count_max, selector, waits=waits, timeout_s=timeout_s)
        return asyncio.run_coroutine_threadsafe(work, loop)

    def _pull(self, query: PullQuery, timeout_s: float) -> RawPull:
        plan, core = self._core.plan, self.runtime.core
        due_s = core.clock.monotonic() + timeout_s
        node = plan.node(query.queue) or self.runtime.portal.call(self._twin.pulls.search(query.queue, timeout_s))
        command = plan.requests.command(query, node)
        core.prepare(command, node.address)
        try:
            left_s = max(due_s - core.clock.monotonic(), 0.0)
            answer = self._connections.request(node.address, command, left_s)
        except TransportError:
            plan.forget_suggestion(query.queue)
            raise
        core.decorator.finish(command, node.address, answer)
        return plan.answered(query, node, answer)

    # --- offsets

    fetch_offset = waits(AsyncPullConsumer.fetch_offset)
    update_offset = waits(AsyncPullConsumer.update_offset)
    min_offset = waits(AsyncPullConsumer.min_offset)
    max_offset = waits(AsyncPullConsumer.max_offset)
    offset_for_time = waits(AsyncPullConsumer.offset_for_time)
    earliest_store_ms = waits(AsyncPullConsumer.earliest_store_ms)
    queues = waits(AsyncPullConsumer.queues)
