"""One message given to its handler on an administrator's demand. Java: consumeMessageDirectly.

No offset moves, nothing is sent back, and hooks do not see it: only the handler's answer is told. Its replies are sent.
"""

from __future__ import annotations

import asyncio
from typing import Final

from rocketline.client.consumer.hooks import ConsumeHooks
from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.push.consume_request import ConsumeRequest, HandlerCaller
from rocketline.client.push.consume_result import ConsumeResult
from rocketline.client.push.handler_pools import ThreadPool
from rocketline.client.push.handler_table import HandlerTable
from rocketline.client.push.replies import Replies
from rocketline.client.received_message import ReceivedMessage
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.wire.bodies.running import CMResult as DirectResult
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult

_CONCURRENT: Final = {
    ConsumeResult.SUCCESS: DirectResult.CR_SUCCESS,
    ConsumeResult.RETRY_LATER: DirectResult.CR_LATER,
    ConsumeResult.SUSPEND: DirectResult.CR_LATER,
}
_ORDERLY: Final = _CONCURRENT | {
    ConsumeResult.COMMIT: DirectResult.CR_COMMIT,
    ConsumeResult.ROLLBACK: DirectResult.CR_ROLLBACK,
}


class DirectConsumption:
    """Calls handlers outside of the ways of consuming, one at a time, in a thread that is made for the first call."""

    def __init__(
        self,
        group: str,
        handlers: HandlerTable,
        replies: Replies,
        clock: Clock,
        throttle: Throttle,
        *,
        is_orderly: bool,
    ) -> None:
        self._handlers, self._replies, self._clock, self._is_orderly = handlers, replies, clock, is_orderly
        self._calls = HandlerCaller(group, "", ConsumeHooks((), throttle), clock, float("inf"))
        self._threads: ThreadPool[ConsumeRequest] = ThreadPool(
            self._calls.call, self._finished, size=1, name=f"ConsumeMessageDirectly_{group[:100]}"
        )
        self._is_started = False
        self._waiting: dict[ConsumeRequest, asyncio.Future[None]] = {}

    async def consume(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        """Give the message to its handler, and tell what came of it."""
        self._handlers.restore_topics([message])
        process_queue: ProcessQueue[ReceivedMessage] = ProcessQueue(self._clock.monotonic())
        queue = message.queue  # nothing that this is for needs its name on the wire
        request = ConsumeRequest(queue, queue, process_queue, (message,), self._handlers.of(message))
        if request.handler.is_async:
            await self._calls.call_async(request)
        else:
            await self._call_in_thread(request)
        if request.replies:
            await self._replies.send(request.replies)
        return self._told(request)

    async def _call_in_thread(self, request: ConsumeRequest) -> None:
        if not self._is_started:
            self._is_started = True
            self._threads.start()
        done = self._waiting[request] = asyncio.get_running_loop().create_future()
        self._threads.submit([request])
        await done

    def _finished(self, requests: list[ConsumeRequest]) -> None:
        for request in requests:
            done = self._waiting.pop(request)
            if not done.done():
                done.set_result(None)

    def _told(self, request: ConsumeRequest) -> ConsumeMessageDirectlyResult:
        results = _ORDERLY if self._is_orderly else _CONCURRENT
        if request.error is not None:
            result, remark = DirectResult.CR_THROW_EXCEPTION, f"{type(request.error).__name__}: {request.error}"
        else:
            known = None if request.result is None else results.get(request.result)
            result, remark = known or DirectResult.CR_RETURN_NULL, None
        return ConsumeMessageDirectlyResult(
            order=self._is_orderly,
            auto_commit=request.context.is_auto_commit if request.context else True,
            consume_result=result,
            remark=remark,
            spent_time_mills=round(1000 * (request.ended_s - (request.started_s or request.ended_s))),
        )

    def is_inside(self) -> bool:
        """The caller is a handler, called from here."""
        return self._threads.is_inside()

    def close(self) -> None:
        self._threads.close()
