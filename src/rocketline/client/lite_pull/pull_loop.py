"""Pulling for a lite pull consumer: a task for each queue, ahead of the application as far as its cache lets it.

Java: DefaultLitePullConsumerImpl.PullTaskImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from rocketline.client.consumer.backoff import PullBackoff
from rocketline.client.consumer.pull_request import PullQuery
from rocketline.client.consumer.pulls import Pulls, PullStatus
from rocketline.client.lite_pull.assigned_queues import NOWHERE, AssignedQueue, AssignedQueues
from rocketline.client.lite_pull.options import LitePullOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import FlowControlError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.wire.codes import ResponseCode

START_UNKNOWN_S: Final = 3.0
"""The pause after nobody could tell where a queue begins. Java: PULL_TIME_DELAY_MILLS_ON_EXCEPTION."""


class LitePullLoops:
    """The tasks of one consumer, at most one for each queue, each with at most one pull under way."""

    def __init__(
        self,
        runtime: ClientRuntime,
        options: LitePullOptions,
        queues: AssignedQueues,
        pulls: Pulls,
        *,
        start: Callable[[MessageQueue], Awaitable[int]],
        subscription: Callable[[str], SubscriptionData | None],
        throttle: Throttle,
    ) -> None:
        """`start` tells where a queue begins that has no position yet, `subscription` what is wanted of a topic."""
        self._runtime, self._options, self._queues, self._pulls = runtime, options, queues, pulls
        self._start, self._subscription, self._throttle = start, subscription, throttle
        self._tasks: dict[AssignedQueue, asyncio.Task[None]] = {}

    def begin(self, assigned: AssignedQueue) -> None:
        """Pull the queue until `end`, or until it is dropped. If that is under way, nothing happens."""
        if assigned not in self._tasks:
            self._tasks[assigned] = self._runtime.spawn(self._run(assigned), name=f"pull {assigned.queue}")

    def begin_anew(self, assigned: AssignedQueue) -> None:
        """The application has gone elsewhere: a pull under way may wait, at the wrong place, as long as a broker
        likes."""
        if assigned in self._tasks:
            self._tasks.pop(assigned).cancel()
            self.begin(assigned)

    def end(self, assigned: AssignedQueue) -> None:
        if assigned in self._tasks:
            self._tasks.pop(assigned).cancel()
        self._pulls.plan.forget(assigned.queue)

    async def close(self) -> None:
        """End all, and wait until they have."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, assigned: AssignedQueue) -> None:
        backoff = PullBackoff()
        while not assigned.cache.is_dropped:
            pause_s = self._queues.pause_s(assigned) or await self._pull(assigned, backoff)
            if pause_s:
                await self._runtime.sleep(pause_s)

    async def _pull(self, assigned: AssignedQueue, backoff: PullBackoff) -> float:
        """One pull and what follows from it; how long to wait afterwards."""
        queue, seeks = assigned.queue, assigned.seeks
        try:
            if assigned.pull_offset == NOWHERE:
                assigned.pull_offset = await self._start(queue)
        except Exception as error:  # noqa: BLE001  # an application's keeper may raise anything
            self._throttle.warning("start of a queue not known", "another try follows", queue=queue, problem=error)
            return START_UNKNOWN_S
        subscription = self._subscription(queue.topic)
        if subscription is None:  # given up, and the next rebalance takes the queue away
            return self._runtime.options.pull_pause_s
        assigned.cache.last_pull_s = begun_s = self._runtime.clock.monotonic()
        try:
            query = self._query(assigned, subscription)
            raw = await self._pulls.pull_raw(query, self._options.suspend_timeout_s)
            result = self._pulls.plan.result(query, raw)
        except Exception as error:  # noqa: BLE001  # an application's hook may raise anything
            return self._pause_after(error, queue, backoff)
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._throttle.warning(
                "offset outside of its queue", "reading goes on elsewhere", queue=queue, offset=result.next_offset
            )
        self._queues.put(assigned, seeks, result)
        now_s = self._runtime.clock.monotonic()
        return backoff.after(raw.next_offset - query.offset, bool(raw.body), now_s - begun_s, now_s)

    def _query(self, assigned: AssignedQueue, subscription: SubscriptionData) -> PullQuery:
        return PullQuery(
            assigned.queue,
            assigned.pull_offset,
            subscription,
            self._options.pull_batch_max,
            suspend_s=self._options.suspend_s,
            is_lite=True,
            with_subscription=True,
        )

    def _pause_after(self, error: Exception, queue: MessageQueue, backoff: PullBackoff) -> float:
        if isinstance(error, FlowControlError) and error.code == ResponseCode.FLOW_CONTROL:
            return backoff.after_refusal()
        self._throttle.warning("pull failed", "the queue is pulled again soon", queue=queue, problem=error)
        return self._runtime.options.pull_pause_s
