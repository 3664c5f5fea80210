"""What `poll` does besides waiting, for asyncio and blocking consumers alike. Java: DefaultLitePullConsumerImpl.poll.

Every call begins with what earlier ones returned: the application has come back, so it is done with that, and it may be
committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketline.client.consumer.hooks import ConsumeHookContext, ConsumeHooks
from rocketline.client.lite_pull.assigned_queues import AssignedQueues, Batch
from rocketline.client.lite_pull.options import LitePullOptions
from rocketline.client.received_message import ReceivedMessage
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue


class Polling:
    """Takes messages for the application, with hooks and automatic commits."""

    def __init__(
        self,
        queues: AssignedQueues,
        options: LitePullOptions,
        clock: Clock,
        *,
        group: str,
        namespace: str,
        commit: Callable[[Mapping[MessageQueue, int]], object],
    ) -> None:
        """`commit` is called with the positions to commit, when it is time."""
        self._queues, self._clock, self._commit = queues, clock, commit
        self._group, self._namespace = group, namespace
        self._hooks = ConsumeHooks(options.consume_hooks, Throttle(clock, name=__name__))
        self._period_s = options.auto_commit_period_s if options.auto_commit else None
        self._commit_at_s = clock.monotonic()

    def take(self) -> list[ReceivedMessage]:
        """The messages of one pull, or none if none is there."""
        now_s = self._commit_if_due()
        batch = self._queues.take(now_s)
        if batch is None:
            return []
        self._show(batch)
        return batch.messages

    def take_one(self) -> ReceivedMessage | None:
        """The next message, or None if none is there."""
        now_s = self._commit_if_due()
        message, begun = self._queues.take_one(now_s)
        if begun is not None:
            self._show(begun)
        return message

    def _commit_if_due(self) -> float:
        now_s = self._clock.monotonic()
        if self._period_s is not None and now_s >= self._commit_at_s:
            self._commit_at_s = now_s + self._period_s
            if positions := self._queues.positions():
                self._commit(positions)
        return now_s

    def _show(self, batch: Batch) -> None:
        """Java's hooks see a success before the application has seen the messages, and so do ours."""
        if self._hooks:
            queue = batch.messages[0].queue
            context = ConsumeHookContext(self._group, self._namespace, queue, batch.messages)
            self._hooks.before(context)
            context.is_success, context.status, context.return_type = True, "CONSUME_SUCCESS", "SUCCESS"
            self._hooks.after(context)
