"""Handlers called with popped messages. What they have done is acknowledged; what they failed at is hidden for longer.

Java: ConsumeMessagePopConcurrentlyService. Differs: a message that failed too often goes to the dead letters, as one
that was pulled does; Java's client acknowledges it, and it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, cast

from rocketline.client.consumer.process_queue import Queue
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.pop.settling import RETRY_DELAYS_S, Settling, each_of, retry_delay_s
from rocketline.client.push.consume_request import ConsumeRequest, HandlerCaller, what_happened
from rocketline.client.push.consume_result import ConsumeResult
from rocketline.client.push.consumption import ConsumptionContext, HandlerPools, acknowledged, count_consumed
from rocketline.client.push.send_back import RECONSUME_TIMES_MAX
from rocketline.model.queue import MessageQueue

_DEAD: Final = -1


class _PopHandlerCaller:
    """Calls handlers, unless the messages are not ours any more. Java: isPopTimeout."""

    def __init__(self, calls: HandlerCaller, now_s: Callable[[], float]) -> None:
        self._calls, self._now_s = calls, now_s

    def call(self, request: ConsumeRequest) -> None:
        if not _is_expired(request, self._now_s()):
            self._calls.call(request)

    async def call_async(self, request: ConsumeRequest) -> None:
        if not _is_expired(request, self._now_s()):
            await self._calls.call_async(request)


def _popped(request: ConsumeRequest) -> Sequence[PoppedMessage]:
    return cast("Sequence[PoppedMessage]", request.messages)


def _is_expired(request: ConsumeRequest, now_s: float) -> bool:
    """All messages of a request came together."""
    return now_s >= _popped(request)[0].expires_s


class PopConsumption:
    """Consumes messages in any order. All methods are for the loop's thread."""

    def __init__(self, shared: ConsumptionContext, settling: Settling) -> None:
        self._shared, self._settling = shared, settling
        options, now_s = shared.options, shared.clock.monotonic
        maximum = options.reconsume_times_max
        self._reconsume_max = RECONSUME_TIMES_MAX if maximum == -1 else maximum
        calls = _PopHandlerCaller(shared.calls, now_s)
        self._pools: HandlerPools[ConsumeRequest] = HandlerPools(
            calls.call,
            calls.call_async,
            self._finished,
            shared.spawn,
            size=options.consume_threads,
            name=f"ConsumePopMessageThread_{shared.group[:100]}",
        )
        self._unfinished: set[ConsumeRequest] = set()
        """Bounded by `pop_count_max` of each queue."""
        self._telling: set[asyncio.Task[None]] = set()
        self._is_closing = self._is_closed = False

    def take_in(self, queue: MessageQueue, process_queue: Queue, messages: Sequence[PoppedMessage]) -> None:
        """Call handlers with what a pop brought."""
        if self._is_closing:
            return
        process_queue.message_count += len(messages)
        requests = self._shared.handlers.requests(queue, process_queue, messages)
        self._unfinished.update(requests)
        for is_async in (True, False):
            if some := [request for request in requests if request.handler.is_async == is_async]:
                self._pools.submit(some, is_async=is_async)

    def resize(self, size: int) -> None:
        """Call up to `size` handlers at once from now on."""
        self._pools.resize(size)

    def is_inside(self) -> bool:
        """The caller is a handler, which must not wait for handlers."""
        return self._pools.is_inside()

    async def close(self, wait_s: float) -> None:
        """Call no further handler, and give back what none has got; give those that run so long to end, and brokers so
        long to hear of it."""
        self._is_closing = True
        taken = self._pools.take_back()
        self._unfinished.difference_update(taken)
        self._give_back(taken)
        if not await self._pools.idle(wait_s, self._telling):
            self._shared.tell_unfinished(handlers=len(self._unfinished))
        self._is_closed = True
        self._pools.close()

    # --- results

    def _finished(self, requests: list[ConsumeRequest]) -> None:
        """Take in what handlers have done. Whose queue it is by now does not matter: the handle counts."""
        self._unfinished.difference_update(requests)
        done: list[ConsumeRequest] = []
        for request in requests:
            request.process_queue.message_count -= len(request.messages)
            self._shared.progressed(request.queue)
            if self._is_closed:
                continue
            if _is_expired(request, self._shared.clock.monotonic()):
                self._tell_late(request)
            elif request.started_s is None:  # the queue was dropped before
                self._give_back([request])
            elif request.replies:
                self._later(self._reply(request), name=f"reply to {request.queue}")
            elif request.result is ConsumeResult.SUCCESS and request.context is None:
                done.append(request)
            else:
                self._look_closer(request)
        if done:
            self._acknowledge(done)

    def _acknowledge(self, done: Sequence[ConsumeRequest]) -> None:
        messages = [message for request in done for message in _popped(request)]
        for request in done:
            ok = len(request.messages)
            count_consumed(self._shared.stats, request.queue.topic, [request], ok=ok, failed=0)
        self._later(self._ack(messages), name="acknowledge")

    def _look_closer(self, request: ConsumeRequest) -> None:
        """A handler failed, or had something to say about the messages."""
        ok = acknowledged(request)
        good, failed = _popped(request)[:ok], _popped(request)[ok:]
        count_consumed(self._shared.stats, request.queue.topic, [request], ok=len(good), failed=len(failed))
        if failed:
            self._shared.throttle.error(
                "messages not consumed",
                what_happened(request),
                error=request.error,
                group=self._shared.group,
                queue=request.queue,
                messages=len(failed),
            )
        level = request.context.delay_level if request.context else 0
        self._later(self._tell(good, failed, level), name=f"tell of {request.queue}")

    def _later(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Do what takes waiting; closing waits for it, too."""
        task = self._shared.spawn(work, name=name)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _reply(self, request: ConsumeRequest) -> None:
        """The messages are done with when their replies are: should this process die before, they come again."""
        await self._shared.replies.send(request.replies)
        if not self._is_closed:
            self._look_closer(request)

    async def _tell(self, good: Sequence[PoppedMessage], failed: Sequence[PoppedMessage], level: int) -> None:
        if good:
            await self._ack(good)

        async def give_back(message: PoppedMessage) -> None:
            if level <= _DEAD or message.reconsume_times >= self._reconsume_max:
                await self._settling.bury(message)
            else:
                delay_s = RETRY_DELAYS_S[min(level, len(RETRY_DELAYS_S) - 1)] if level else retry_delay_s(message)
                await self._settling.give_back(message, delay_s)

        for message, error in await each_of(failed, give_back):
            self._shared.throttle.warning("message not given back", "it comes again", popped=message, problem=error)

    def _give_back(self, requests: Sequence[ConsumeRequest]) -> None:
        """No handler has had these: somebody else may have them at once."""
        messages = [message for request in requests for message in _popped(request)]
        if messages:
            self._later(self._hand_over(messages), name="give back what no handler has got")

    async def _hand_over(self, messages: Sequence[PoppedMessage]) -> None:
        await each_of(messages, lambda message: self._settling.give_back(message, 0.0))

    async def _ack(self, messages: Sequence[PoppedMessage]) -> None:
        for message, error in await self._settling.ack_all(messages):
            self._shared.throttle.warning("message not acknowledged", "it comes again", popped=message, problem=error)

    def _tell_late(self, request: ConsumeRequest) -> None:
        self._shared.throttle.warning(
            "handler took too long",
            "its messages were given to somebody else meanwhile: a longer pop_invisible_s would help",
            queue=request.queue,
            messages=len(request.messages),
        )
