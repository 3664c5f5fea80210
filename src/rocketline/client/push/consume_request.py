"""An application's handlers, and the calls of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from rocketline.client.consumer.hooks import ConsumeHookContext, ConsumeHooks
from rocketline.client.consumer.process_queue import Queue
from rocketline.client.push.consume_result import ConsumeContext, ConsumeResult
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.replies import Reply
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue

Returned: TypeAlias = ConsumeResult | Reply | Sequence[Reply] | None
"""What handlers return. Replies are a success, once they are sent."""
MessageHandler: TypeAlias = (
    Callable[[ReceivedMessage], Returned] | Callable[[ReceivedMessage, ConsumeContext], Returned]
)
"""Gets one message, and the context if it has a second parameter without a default."""
BatchHandler: TypeAlias = (
    Callable[[Sequence[ReceivedMessage]], Returned] | Callable[[Sequence[ReceivedMessage], ConsumeContext], Returned]
)
"""Gets up to `consume_batch_max` messages of one queue at once."""
AsyncMessageHandler: TypeAlias = (
    Callable[[ReceivedMessage], Awaitable[Returned]] | Callable[[ReceivedMessage, ConsumeContext], Awaitable[Returned]]
)
AsyncBatchHandler: TypeAlias = (
    Callable[[Sequence[ReceivedMessage]], Awaitable[Returned]]
    | Callable[[Sequence[ReceivedMessage], ConsumeContext], Awaitable[Returned]]
)


class Handler:
    """A function of the application, and how it wants to be called."""

    __slots__ = ("function", "is_async", "is_batch", "takes_context")

    def __init__(self, function: Callable[..., Any], *, is_batch: bool) -> None:
        if not callable(function):
            raise TypeError(f"a handler is a function that takes a message, not {function!r}")
        self.function, self.is_batch = function, is_batch
        self.takes_context = _takes_context(function)
        self.is_async = is_coroutine_function(function)

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", None) or repr(self.function)


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """What it returns must be awaited: a function of `async def`, or an object whose class has such a `__call__`."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _takes_context(function: Callable[..., Any]) -> bool:
    """The second parameter is for the context, unless it has a default: then it is the application's own.

    >>> _takes_context(lambda message, context: None), _takes_context(lambda message, factor=2: None)
    (True, False)
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some functions written in C do not tell
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([each for each in parameters if each.kind in positional and each.default is each.empty]) > 1


class ConsumeRequest:
    """Messages of one queue that a handler gets in one call, and what came of it."""

    __slots__ = (
        "context",
        "ended_s",
        "error",
        "handler",
        "messages",
        "process_queue",
        "queue",
        "replies",
        "result",
        "returned",
        "seen",
        "started_s",
    )

    def __init__(
        self,
        queue: MessageQueue,
        seen: MessageQueue,
        process_queue: Queue,
        messages: Sequence[ReceivedMessage],
        handler: Handler,
    ) -> None:
        """`queue` is as on the wire, `seen` the same as the application knows it."""
        self.queue, self.seen, self.process_queue = queue, seen, process_queue
        self.messages, self.handler = messages, handler
        self.context: ConsumeContext | None = ConsumeContext(seen) if handler.takes_context else None
        self.started_s: float | None = None
        """None: the handler has not been called, and if the request is finished never will be."""
        self.ended_s = 0.0
        self.result: ConsumeResult | None = None
        """None is Java's null: the handler returned something else."""
        self.returned = ""
        """What that was, for people."""
        self.replies: Sequence[Reply] = ()
        """What the handler answers to messages that are requests: to be sent before they count as consumed."""
        self.error: BaseException | None = None


def what_happened(request: ConsumeRequest) -> str:
    """Why messages come again, for the log."""
    if request.error is not None:
        return f"{request.handler} raised"
    return f"{request.handler} returned {request.returned or request.result}"


class HandlerCaller:
    """Calls handlers. It is used from many threads at once and keeps no state of a call in itself."""

    def __init__(self, group: str, namespace: str, hooks: ConsumeHooks, clock: Clock, consume_timeout_s: float) -> None:
        self._group, self._namespace, self._hooks, self._timeout_s = group, namespace, hooks, consume_timeout_s
        self._is_hooked = bool(hooks)
        self._now_s = clock.monotonic

    def call(self, request: ConsumeRequest) -> None:
        """Call the handler with the messages, unless their queue has been dropped. Never raises."""
        if request.process_queue.is_dropped:
            return
        hooked = self._before(request) if self._is_hooked else None
        handler = request.handler
        argument = request.messages if handler.is_batch else request.messages[0]
        request.started_s = self._now_s()
        try:
            context = request.context
            returned = handler.function(argument) if context is None else handler.function(argument, context)
        except BaseException as error:  # noqa: BLE001  # whatever it is, even sys.exit: the messages come again
            request.error = error
        else:
            _take_result(request, returned)
        request.ended_s = self._now_s()
        if hooked is not None:
            self._after(request, hooked)

    async def call_async(self, request: ConsumeRequest) -> None:
        """The same for a handler that is a coroutine function."""
        if request.process_queue.is_dropped:
            return
        hooked = self._before(request) if self._is_hooked else None
        handler = request.handler
        argument = request.messages if handler.is_batch else request.messages[0]
        request.started_s = self._now_s()
        try:
            context = request.context
            returned = await (handler.function(argument) if context is None else handler.function(argument, context))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            # Whatever it is, also the end of something that the handler waited for: the messages come again.
            request.error = error
        else:
            _take_result(request, returned)
        request.ended_s = self._now_s()
        if hooked is not None:
            self._after(request, hooked)

    def _before(self, request: ConsumeRequest) -> ConsumeHookContext:
        context = ConsumeHookContext(self._group, self._namespace, request.seen, request.messages)
        self._hooks.before(context)
        return context

    def _after(self, request: ConsumeRequest, context: ConsumeHookContext) -> None:
        assert request.started_s is not None
        context.is_success = request.result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
        context.status = (request.result or ConsumeResult.RETRY_LATER).name
        context.return_type = self._return_type(request, request.ended_s - request.started_s)
        self._hooks.after(context)

    def _return_type(self, request: ConsumeRequest, elapsed_s: float) -> str:
        if request.error is not None:
            return "EXCEPTION"
        if request.result is None:
            return "RETURNNULL"
        if elapsed_s >= self._timeout_s:
            return "TIME_OUT"
        return "SUCCESS" if request.result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT) else "FAILED"


def _is_cancelled() -> bool:
    """The task that runs handlers is to end; not just something that a handler waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _take_result(request: ConsumeRequest, returned: object) -> None:
    """Note what a handler returned."""
    if returned is None:
        request.result = ConsumeResult.SUCCESS
    elif isinstance(returned, ConsumeResult):
        request.result = returned
    elif isinstance(returned, Reply):
        request.result, request.replies = ConsumeResult.SUCCESS, (returned,)
    elif isinstance(returned, list | tuple) and all(isinstance(each, Reply) for each in returned):
        request.result, request.replies = ConsumeResult.SUCCESS, returned
    else:
        request.returned = f"{returned!r:.100}, which is no ConsumeResult, no reply and not None"
