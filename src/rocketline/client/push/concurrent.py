"""Handlers called side by side, in any order. What they fail at goes back to the broker, which delivers it again later.

Java: ConsumeMessageConcurrentlyService. A pull's messages are cut into consume requests and handed to threads or tasks
all at once; what they have done comes back many at a time, and is taken out of each process queue in one go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from rocketline.client.consumer.process_queue import Queue
from rocketline.client.push.consume_request import ConsumeRequest, what_happened
from rocketline.client.push.consume_result import ConsumeResult
from rocketline.client.push.consumption import ConsumptionContext, HandlerPools, acknowledged, count_consumed
from rocketline.client.received_message import ReceivedMessage
from rocketline.model.delay_levels import FIRST_RETRY_LEVEL
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel

AGAIN_S: Final = 5.0
"""When messages that could not be sent back are consumed again. Java: submitConsumeRequestLater."""
_EXPIRED_DELAY_LEVEL: Final = FIRST_RETRY_LEVEL
"""However often the message was given before, as in Java."""
_EXPIRED_MAX: Final = 16
"""How many messages of a queue one round of the cleaner sends back."""


class ConcurrentConsumption:
    """Consumes messages in any order. All methods are for the loop's thread."""

    def __init__(self, shared: ConsumptionContext) -> None:
        self._shared = shared
        options = shared.options
        self._pools: HandlerPools[ConsumeRequest] = HandlerPools(
            shared.calls.call,
            shared.calls.call_async,
            self._finished,
            shared.spawn,
            size=options.consume_threads,
            name=f"ConsumeMessageThread_{shared.group[:100]}",
        )
        self._unfinished: set[ConsumeRequest] = set()
        """Bounded by flow control: these are messages that the process queues hold."""
        self._returning: set[asyncio.Task[None]] = set()
        self._return_limit = asyncio.Semaphore(options.consume_threads)
        self._is_closing = self._is_closed = False

    def take_in(self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        """Call handlers with messages that have been put into the process queue."""
        if self._is_closing or process_queue.is_dropped:
            return
        requests = self._shared.handlers.requests(queue, process_queue, messages)
        self._unfinished.update(requests)
        is_async = requests[0].handler.is_async
        if all(request.handler.is_async == is_async for request in requests[1:]):
            self._pools.submit(requests, is_async=is_async)
            return
        for each in (True, False):  # only a retry topic mixes handlers
            self._pools.submit([request for request in requests if request.handler.is_async == each], is_async=each)

    def resize(self, size: int) -> None:
        """Call up to `size` handlers at once from now on."""
        self._pools.resize(size)

    def is_inside(self) -> bool:
        """The caller is a handler, which must not wait for handlers."""
        return self._pools.is_inside()

    async def close(self, wait_s: float) -> None:
        """Call no further handler; give those that run so long to end, and to have their results taken in."""
        self._is_closing = True
        self._unfinished.difference_update(self._pools.take_back())
        if not await self._pools.idle(wait_s, self._returning):
            self._shared.tell_unfinished(handlers=len(self._unfinished))
        self._is_closed = True
        self._pools.close()

    # --- results

    def _finished(self, requests: list[ConsumeRequest]) -> None:
        """Take in what handlers have done, possibly long ago and for queues that are no longer ours."""
        self._unfinished.difference_update(requests)
        if self._is_closed:
            return
        done: dict[Queue, list[ConsumeRequest]] = {}
        for request in requests:
            process_queue = request.process_queue
            if process_queue.is_dropped or request.started_s is None:
                continue  # whoever has the queue now gets the messages again
            if request.replies:
                self._later(self._reply(request), name=f"reply to {request.queue}")
            elif request.result is not ConsumeResult.SUCCESS or request.context is not None:
                self._look_closer(request)
            elif process_queue in done:
                done[process_queue].append(request)
            else:
                done[process_queue] = [request]
        for process_queue, requests in done.items():
            queue = requests[0].queue
            messages = [message for request in requests for message in request.messages]
            count_consumed(self._shared.stats, queue.topic, requests, ok=len(messages), failed=0)
            self._remove(queue, process_queue, messages)

    def _look_closer(self, request: ConsumeRequest) -> None:
        """A handler failed, or had something to say about the messages."""
        failed = request.messages[acknowledged(request) :]
        ok = len(request.messages) - len(failed)
        count_consumed(self._shared.stats, request.queue.topic, [request], ok=ok, failed=len(failed))
        if failed:
            self._complain(request, failed)
        if failed and self._shared.options.message_model is MessageModel.CLUSTERING:
            self._later(self._return(request, failed), name=f"send back {request.queue}")
        else:
            self._remove(request.queue, request.process_queue, request.messages)

    def _later(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Do what takes waiting; closing waits for it, too."""
        task = self._shared.spawn(work, name=name)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _reply(self, request: ConsumeRequest) -> None:
        """The messages are done with when their replies are: should this process die before, they come again."""
        await self._shared.replies.send(request.replies)
        if not (request.process_queue.is_dropped or self._is_closed):
            self._look_closer(request)

    async def _return(self, request: ConsumeRequest, failed: Sequence[ReceivedMessage]) -> None:
        """Send messages back to the broker; those that it does not get are consumed again here."""
        delay_level = request.context.delay_level if request.context else 0
        process_queue = request.process_queue
        kept: list[ReceivedMessage] = []
        async with self._return_limit:
            for message in failed:
                # One that is gone was sent back by the cleaner, or the queue is no longer ours.
                is_here = message in process_queue and not process_queue.is_dropped
                if is_here and not await self._shared.send_back.send(message, request.queue, delay_level):
                    message.reconsume_times += 1
                    kept.append(message)
        if process_queue.is_dropped or self._is_closed:
            return
        self._remove(request.queue, process_queue, [message for message in request.messages if message not in kept])
        if kept:
            self._shared.later(AGAIN_S, lambda: self.take_in(request.queue, process_queue, kept))

    def _remove(self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        offset = process_queue.remove(messages, self._shared.clock.monotonic())
        if offset >= 0 and not process_queue.is_dropped:
            self._shared.offsets.update(queue, offset, increase_only=True)
        self._shared.progressed(queue)

    def _complain(self, request: ConsumeRequest, failed: Sequence[ReceivedMessage]) -> None:
        where = {
            "group": self._shared.group,
            "queue": request.queue,
            "offset": failed[0].queue_offset,
            "messages": len(failed),
        }
        if request.result is ConsumeResult.SUCCESS:
            told = f"{request.handler} wants the last {len(failed)} of {len(request.messages)} again (ack_index)"
            self._shared.throttle.warning("messages to be consumed again", told, **where)
        else:
            self._shared.throttle.error("messages not consumed", what_happened(request), error=request.error, **where)

    # --- messages that take too long

    async def clean_expired(self, owned: Mapping[MessageQueue, Queue]) -> None:
        """Send back what a handler has had for longer than `consume_timeout_s`, if nothing before it is left.

        Such a message keeps its queue's offset where it is. Java: cleanExpiredMsg.
        """
        for queue, process_queue in owned.items():
            for _ in range(_EXPIRED_MAX):
                message = process_queue.first
                if message is None or message not in self._expired(process_queue) or process_queue.is_dropped:
                    break
                if not await self._shared.send_back.send(message, queue, _EXPIRED_DELAY_LEVEL):
                    break
                if process_queue.first is message:
                    process_queue.remove([message], self._shared.clock.monotonic())
                    self._shared.progressed(queue)

    def _expired(self, process_queue: Queue) -> Iterable[ReceivedMessage]:
        until_s = self._shared.clock.monotonic() - self._shared.options.consume_timeout_s
        return {
            message
            for request in self._unfinished
            if request.process_queue is process_queue and request.started_s is not None and request.started_s < until_s
            for message in request.messages
        }
