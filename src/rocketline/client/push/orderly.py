"""Handlers called for one queue after the other, in the order of the messages. What fails is tried again in its place.

Java: ConsumeMessageOrderlyService. The messages of a queue travel to a thread, or task, as a run of requests: they are
called one by one until one is not a plain success, some time is over, or the queue is no longer ours. Only then does
the loop look at them again, so that a quick handler does not wait for the loop after every message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import takewhile
from typing import Any, Final, Protocol

from rocketline.client.consumer.process_queue import Queue
from rocketline.client.push.consume_request import ConsumeRequest, what_happened
from rocketline.client.push.consume_result import ConsumeResult
from rocketline.client.push.consumption import ConsumptionContext, HandlerPools, count_consumed
from rocketline.client.received_message import ReceivedMessage
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel

_RUN_SLICES: Final = 64
_RUN_S: Final = 0.05
"""After this time a run begins no further request: offsets get stored, and other queues have their turn."""
_RELOCK_S: Final = 0.1
"""How long after a lock was found missing it is asked for."""
_LOCKED_S: Final = 0.01
_NOT_LOCKED_S: Final = 3.0
"""How long after that the queue is looked at again, with and without a lock."""
SUSPEND_S_MIN: Final = 0.01
SUSPEND_S_MAX: Final = 30.0
UNLIMITED: Final = 2**31 - 1


class Locks(Protocol):
    """`queue_locks.QueueLocks`, as far as it is needed here."""

    async def lock(self, queue: MessageQueue) -> bool | None: ...


class OrderlyRun:
    """Consume requests of one queue, to be called in order."""

    __slots__ = ("called", "process_queue", "queue", "requests", "until_s")

    def __init__(self, queue: MessageQueue, process_queue: Queue, requests: Sequence[ConsumeRequest]) -> None:
        self.queue, self.process_queue, self.requests = queue, process_queue, requests
        self.called = 0
        self.until_s: float | None = None


class OrderlyConsumption:
    """Consumes each queue in order. All methods are for the loop's thread, but those that a run is called with."""

    def __init__(self, shared: ConsumptionContext, locks: Locks) -> None:
        self._shared, self._locks = shared, locks
        options = shared.options
        self._needs_lock = options.message_model is MessageModel.CLUSTERING
        self._reconsume_max = UNLIMITED if options.reconsume_times_max == -1 else options.reconsume_times_max
        self._pools: HandlerPools[OrderlyRun] = HandlerPools(
            self._call,
            self._call_async,
            self._finished,
            shared.spawn,
            size=options.consume_threads,
            name=f"ConsumeMessageThread_{shared.group[:100]}",
        )
        self._runs: dict[MessageQueue, OrderlyRun] = {}
        """What is under way, at most one for a queue, even if the queue was lost and taken anew meanwhile."""
        self._waiting: dict[MessageQueue, Queue] = {}
        """Queues that were taken anew while a run of their former life is under way."""
        self._dead: set[ReceivedMessage] = set()
        """Sent to the dead letters, while another message of their request must still be consumed."""
        self._publishing: set[asyncio.Task[None]] = set()
        self._is_closing = self._is_closed = False

    def take_in(self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        """Begin to consume a queue that nobody works on."""
        self._consume(queue, process_queue)

    def resize(self, size: int) -> None:
        """Work on up to `size` queues at once from now on."""
        self._pools.resize(size)

    def is_inside(self) -> bool:
        """The caller is a handler, which must not wait for handlers."""
        return self._pools.is_inside()

    async def close(self, wait_s: float) -> None:
        """Call no further handler; give those that run so long to end, and to have their results taken in."""
        self._is_closing = True
        for run in self._pools.take_back():
            self._runs.pop(run.queue, None)
        if not await self._pools.idle(wait_s, self._publishing):
            self._shared.tell_unfinished(queues=len(self._runs))
        self._is_closed = True
        self._pools.close()

    # --- beginning a run

    def _consume(self, queue: MessageQueue, process_queue: Queue) -> None:
        """Take the next messages of the queue and have them consumed, if it is ours."""
        if self._is_closing or process_queue.is_dropped:
            return
        if queue in self._runs:
            self._waiting[queue] = process_queue
            return
        now_s = self._shared.clock.monotonic()
        if self._needs_lock and not process_queue.is_lock_valid(now_s):
            self._shared.later(_RELOCK_S, lambda: self._relock_soon(queue, process_queue))
            return
        handlers = self._shared.handlers
        messages = process_queue.take(handlers.batch_max(queue.topic) * _RUN_SLICES, now_s)
        if not messages:
            return
        requests = handlers.requests(queue, process_queue, messages)
        is_async = requests[0].handler.is_async
        alike = list(takewhile(lambda request: request.handler.is_async == is_async, requests))
        self._put_back(process_queue, requests[len(alike) :])
        run = self._runs[queue] = OrderlyRun(queue, process_queue, alike)
        process_queue.idle.clear()
        self._pools.submit([run], is_async=is_async)

    def _relock_soon(self, queue: MessageQueue, process_queue: Queue) -> None:
        if not (self._is_closing or process_queue.is_dropped):
            self._shared.spawn(self._relock(queue, process_queue), name=f"lock {queue}")

    async def _relock(self, queue: MessageQueue, process_queue: Queue) -> None:
        pause_s = _LOCKED_S if await self._locks.lock(queue) else _NOT_LOCKED_S
        self._shared.later(pause_s, lambda: self._consume(queue, process_queue))

    # --- in a thread or a task

    def _call(self, run: OrderlyRun) -> None:
        for request in run.requests:
            if not self._goes_on(run):
                return
            self._shared.calls.call(request)
            run.called += 1
            if not _is_plain_success(request):
                return

    async def _call_async(self, run: OrderlyRun) -> None:
        for request in run.requests:
            if not self._goes_on(run):
                return
            await self._shared.calls.call_async(request)
            run.called += 1
            if not _is_plain_success(request):
                return

    def _goes_on(self, run: OrderlyRun) -> bool:
        """The next request may be called: the queue is still ours, and the run's time is not over."""
        now_s = self._shared.clock.monotonic()
        process_queue = run.process_queue
        if self._is_closing or process_queue.is_dropped:
            return False
        if self._needs_lock and not process_queue.is_lock_valid(now_s):
            return False
        if run.until_s is None:
            run.until_s = now_s + _RUN_S
        return now_s <= run.until_s

    # --- what came of it

    def _finished(self, runs: list[OrderlyRun]) -> None:
        for run in runs:
            if not self._is_closed:
                self._end(run)

    def _end(self, run: OrderlyRun) -> None:
        """Commit what was consumed, put back what was not, and see to the request that the run ended with."""
        process_queue = run.process_queue
        called = [request for request in run.requests[: run.called] if request.started_s is not None]
        if process_queue.is_dropped:  # whoever has the queue now gets the messages again
            self._leave(run)
            return
        self._put_back(process_queue, run.requests[len(called) :])
        last = called.pop() if called and not _is_plain_success(called[-1]) else None
        if called:
            self._count(run, called, is_ok=True)
            if last is not None:  # a commit is of all that was taken, and this is not done yet: it is given back for it
                process_queue.consume_again(last.messages)
            self._commit(run)
            if last is not None:
                process_queue.take(len(last.messages), self._shared.clock.monotonic())
        if last is None:
            self._go_on(run)
        elif last.replies:
            self._later(self._reply(run, last), name=f"reply to {run.queue}")
        else:
            self._see_to_last(run, last)

    async def _reply(self, run: OrderlyRun, request: ConsumeRequest) -> None:
        """The messages are done with when their replies are: should this process die before, they come again."""
        await self._shared.replies.send(request.replies)
        if run.process_queue.is_dropped or self._is_closed:
            self._leave(run)
        else:
            self._see_to_last(run, request)

    def _later(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Do what takes waiting; closing waits for it, too."""
        task = self._shared.spawn(work, name=name)
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    def _see_to_last(self, run: OrderlyRun, request: ConsumeRequest) -> None:
        """See to what a handler returned.

        | result   | with auto-commit | without                    |
        |----------|------------------|----------------------------|
        | SUCCESS  | commit, go on    | go on                      |
        | COMMIT   | as SUCCESS       | commit, go on              |
        | ROLLBACK | as SUCCESS       | all since the last commit again, after a pause |
        | others   | these messages again, after a pause; the dead letters if too often | the same |
        """
        is_auto = request.context is None or request.context.is_auto_commit
        result = request.result
        if is_auto and result in (ConsumeResult.COMMIT, ConsumeResult.ROLLBACK):
            self._shared.throttle.warning(
                "result without effect",
                f"{request.handler} returned {result} with auto-commit, which is taken for SUCCESS",
                group=self._shared.group,
            )
        if result is ConsumeResult.SUCCESS or (is_auto and result in (ConsumeResult.COMMIT, ConsumeResult.ROLLBACK)):
            self._count(run, [request], is_ok=True)
            if is_auto:
                self._commit(run)
            self._go_on(run)
        elif result is ConsumeResult.COMMIT:
            self._commit(run)
            self._go_on(run)
        elif result is ConsumeResult.ROLLBACK:
            run.process_queue.rollback()
            self._pause(run, request)
        else:
            self._suspend(run, request, is_auto)

    def _suspend(self, run: OrderlyRun, request: ConsumeRequest, is_auto: bool) -> None:
        """The handler failed. Messages that it has failed at too often go to the dead letters."""
        self._count(run, [request], is_ok=False)
        self._complain(request)
        exceeded = [each for each in request.messages if each.reconsume_times >= self._reconsume_max]
        for message in request.messages:
            if message.reconsume_times < self._reconsume_max:
                message.reconsume_times += 1
        if exceeded:
            self._later(self._bury(run, request, exceeded, is_auto), name=f"dead letters of {run.queue}")
        else:
            self._again(run, request)

    async def _bury(
        self, run: OrderlyRun, request: ConsumeRequest, exceeded: Sequence[ReceivedMessage], is_auto: bool
    ) -> None:
        must_retry = len(exceeded) < len(request.messages)
        for message in exceeded:
            if message not in self._dead:
                if await self._shared.send_back.publish(message, self._reconsume_max):
                    self._dead.add(message)
                else:
                    message.reconsume_times += 1
                    must_retry = True
        if run.process_queue.is_dropped or self._is_closed:
            self._dead.difference_update(request.messages)
            self._leave(run)
        elif must_retry:
            self._again(run, request)
        else:
            self._dead.difference_update(request.messages)
            if is_auto:
                self._commit(run)
            self._go_on(run)

    def _again(self, run: OrderlyRun, request: ConsumeRequest) -> None:
        run.process_queue.consume_again(request.messages)
        self._pause(run, request)

    def _pause(self, run: OrderlyRun, request: ConsumeRequest) -> None:
        wished_s = request.context.suspend_s if request.context else None
        pause_s = self._shared.options.suspend_s if wished_s is None else wished_s
        self._leave(run)
        self._shared.later(
            max(SUSPEND_S_MIN, min(pause_s, SUSPEND_S_MAX)), lambda: self._consume(run.queue, run.process_queue)
        )

    def _go_on(self, run: OrderlyRun) -> None:
        self._leave(run)
        self._consume(run.queue, run.process_queue)

    def _leave(self, run: OrderlyRun) -> None:
        """The run is over; a later life of its queue may begin."""
        self._runs.pop(run.queue, None)
        run.process_queue.idle.set()
        waiting = self._waiting.pop(run.queue, None)
        if waiting is not None:
            self._consume(run.queue, waiting)

    def _commit(self, run: OrderlyRun) -> None:
        offset = run.process_queue.commit()
        if offset >= 0 and not run.process_queue.is_dropped:
            self._shared.offsets.update(run.queue, offset, increase_only=False)
        self._shared.progressed(run.queue)

    def _put_back(self, process_queue: Queue, requests: Sequence[ConsumeRequest]) -> None:
        if requests:
            process_queue.consume_again([message for request in requests for message in request.messages])

    def _count(self, run: OrderlyRun, requests: Sequence[ConsumeRequest], *, is_ok: bool) -> None:
        messages = sum([len(request.messages) for request in requests])
        ok, failed = (messages, 0) if is_ok else (0, messages)
        count_consumed(self._shared.stats, run.queue.topic, requests, ok=ok, failed=failed)

    def _complain(self, request: ConsumeRequest) -> None:
        self._shared.throttle.error(
            "messages not consumed",
            f"{what_happened(request)}; its queue waits",
            error=request.error,
            group=self._shared.group,
            queue=request.queue,
            offset=request.messages[0].queue_offset,
        )


def _is_plain_success(request: ConsumeRequest) -> bool:
    """Committed without a look at anything else."""
    is_auto = request.context is None or request.context.is_auto_commit
    return is_auto and request.result is ConsumeResult.SUCCESS and not request.replies
