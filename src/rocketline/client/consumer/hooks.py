"""Code that sees what is consumed, before and after a handler, or the `with` block of a worker.

Java: ConsumeMessageHook.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rocketline.client.received_message import ReceivedMessage
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue


@dataclass(slots=True)
class ConsumeHookContext:
    """One call of a handler: the same object before and after. Java: ConsumeMessageContext."""

    group: str
    namespace: str
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    is_success: bool = False
    status: str = ""
    """The name of what the handler returned, as Java calls it."""
    return_type: str = ""
    """SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL or FAILED. Java: ConsumeReturnType."""
    carried: dict[object, object] = field(default_factory=dict)
    """What hooks want to find again after the call, each under itself. Java: mqTraceContext."""


class ConsumeHook(Protocol):
    """Called in the thread, or the task, that calls the handler. Whatever it raises is logged and goes no further."""

    def before_consume(self, context: ConsumeHookContext) -> None: ...

    def after_consume(self, context: ConsumeHookContext) -> None: ...


class ConsumeHooks:
    """The hooks of one consumer. Without any of them it is false, and calls need not make a context."""

    def __init__(self, hooks: Sequence[ConsumeHook], throttle: Throttle) -> None:
        self._hooks, self._throttle = tuple(hooks), throttle

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def before(self, context: ConsumeHookContext) -> None:
        for hook in self._hooks:
            try:
                hook.before_consume(context)
            except Exception as error:  # noqa: BLE001  # the application's: messages are consumed all the same
                self._complain(hook, error)

    def after(self, context: ConsumeHookContext) -> None:
        for hook in self._hooks:
            try:
                hook.after_consume(context)
            except Exception as error:  # noqa: BLE001  # as above
                self._complain(hook, error)

    def _complain(self, hook: ConsumeHook, error: Exception) -> None:
        self._throttle.error("consume hook failed", f"{type(hook).__qualname__} raised", error=error)
