"""Handlers called side by side, in any order. What they fail at goes back to the broker, which delivers it again later.

Java: ConsumeMessageConcurrentlyService. A pull's messages are cut into slices and handed to threads or tasks all at
once; what they have done comes back many slices at a time, and is taken out of each process queue in one go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rocketline.client.consume_result import ConsumeResult
from rocketline.client.consumption import HandlerPools, Surroundings, count_consumed
from rocketline.client.handling import Queue, Slice
from rocketline.client.received_message import ReceivedMessage
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel

AGAIN_S: Final = 5.0
"""When messages that could not be sent back are consumed again. Java: submitConsumeRequestLater."""
EXPIRED_DELAY_LEVEL: Final = 3
_EXPIRED_MAX: Final = 16
"""How many messages of a queue one round of the cleaner sends back."""


class ConcurrentConsumption:
    """Consumes messages in any order. All methods are for the loop's thread."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        options = around.options
        self._pools: HandlerPools[Slice] = HandlerPools(
            around.calls.call,
            around.calls.call_async,
            self._finished,
            around.spawn,
            size=options.consume_threads,
            name=f"ConsumeMessageThread_{around.group[:100]}",
        )
        self._unfinished: set[Slice] = set()
        """Bounded by flow control: these are messages that the process queues hold."""
        self._returning: set[asyncio.Task[None]] = set()
        self._return_limit = asyncio.Semaphore(options.consume_threads)
        self._is_closing = self._is_closed = False

    def take_in(self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        """Call handlers with messages that have been put into the process queue."""
        if self._is_closing or process_queue.is_dropped:
            return
        slices = self._around.handlers.slices(queue, process_queue, messages)
        self._unfinished.update(slices)
        is_async = slices[0].handler.is_async
        if all(part.handler.is_async == is_async for part in slices[1:]):
            self._pools.submit(slices, is_async=is_async)
            return
        for each in (True, False):  # only a retry topic mixes handlers
            self._pools.submit([part for part in slices if part.handler.is_async == each], is_async=each)

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
        try:
            async with asyncio.timeout(wait_s):
                await self._pools.idle()
                while self._returning:
                    await asyncio.wait(self._returning)
        except TimeoutError:
            self._around.throttle.warning(
                "consumer closed with work under way",
                "results of handlers that still run are dropped, and their messages will come again",
                group=self._around.group,
                handlers=len(self._unfinished),
            )
        self._is_closed = True
        self._pools.close()

    # --- results

    def _finished(self, slices: list[Slice]) -> None:
        """Take in what handlers have done, possibly long ago and for queues that are no longer ours."""
        self._unfinished.difference_update(slices)
        if self._is_closed:
            return
        done: dict[Queue, list[Slice]] = {}
        for part in slices:
            process_queue = part.process_queue
            if process_queue.is_dropped or part.started_s is None:
                continue  # whoever has the queue now gets the messages again
            if part.result is not ConsumeResult.SUCCESS or part.context is not None:
                self._look_closer(part)
            elif process_queue in done:
                done[process_queue].append(part)
            else:
                done[process_queue] = [part]
        for process_queue, parts in done.items():
            queue = parts[0].queue
            messages = [message for part in parts for message in part.messages]
            count_consumed(self._around.stats, queue.topic, parts, ok=len(messages), failed=0)
            self._remove(queue, process_queue, messages)

    def _look_closer(self, part: Slice) -> None:
        """A handler failed, or had something to say about the messages."""
        failed = part.messages[_acknowledged(part) :]
        ok = len(part.messages) - len(failed)
        count_consumed(self._around.stats, part.queue.topic, [part], ok=ok, failed=len(failed))
        if failed:
            self._complain(part)
        if failed and self._around.options.message_model is MessageModel.CLUSTERING:
            task = self._around.spawn(self._return(part, failed), name=f"send back {part.queue}")
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)
        else:
            self._remove(part.queue, part.process_queue, part.messages)

    async def _return(self, part: Slice, failed: Sequence[ReceivedMessage]) -> None:
        """Send messages back to the broker; those that it does not get are consumed again here."""
        delay_level = part.context.delay_level if part.context else 0
        process_queue = part.process_queue
        kept: list[ReceivedMessage] = []
        async with self._return_limit:
            for message in failed:
                # One that is gone was sent back by the cleaner, or the queue is no longer ours.
                is_here = message in process_queue and not process_queue.is_dropped
                if is_here and not await self._around.send_back.send(message, part.queue, delay_level):
                    message.reconsume_times += 1
                    kept.append(message)
        if process_queue.is_dropped or self._is_closed:
            return
        self._remove(part.queue, process_queue, [message for message in part.messages if message not in kept])
        if kept:
            self._around.later(AGAIN_S, lambda: self.take_in(part.queue, process_queue, kept))

    def _remove(self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        offset = process_queue.remove(messages, self._around.clock.monotonic())
        if offset >= 0 and not process_queue.is_dropped:
            self._around.offsets.update(queue, offset, increase_only=True)
        self._around.progressed(queue)

    def _complain(self, part: Slice) -> None:
        self._around.throttle.error(
            "messages not consumed",
            f"{part.handler} {'raised' if part.error else f'returned {part.result}'}",
            error=part.error,
            group=self._around.group,
            queue=part.queue,
            offset=part.messages[0].queue_offset,
            messages=len(part.messages),
        )

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
                if not await self._around.send_back.send(message, queue, EXPIRED_DELAY_LEVEL):
                    break
                if process_queue.first is message:
                    process_queue.remove([message], self._around.clock.monotonic())
                    self._around.progressed(queue)

    def _expired(self, process_queue: Queue) -> Iterable[ReceivedMessage]:
        until_s = self._around.clock.monotonic() - self._around.options.consume_timeout_s
        return {
            message
            for part in self._unfinished
            if part.process_queue is process_queue and part.started_s is not None and part.started_s < until_s
            for message in part.messages
        }


def _acknowledged(part: Slice) -> int:
    """How many of the slice's messages, counted from the first, are done with."""
    if part.result is not ConsumeResult.SUCCESS:
        return 0
    last = part.context.ack_index if part.context else len(part.messages)
    return max(0, min(last + 1, len(part.messages)))
