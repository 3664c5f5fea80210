"""Hooks around every attempt to send: who may look, and who may forbid. Java: SendMessageHook, CheckForbiddenHook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rocketline.client.receipts import SendReceipt
from rocketline.logs import Log
from rocketline.model.message import Message
from rocketline.model.property_names import DELAY
from rocketline.model.queue import MessageQueue

_log = Log(__name__)


class SendMode(Enum):
    """What the caller does meanwhile. Java: CommunicationMode."""

    SYNC = "SYNC"
    """It waits for the receipt: `send`."""
    ASYNC = "ASYNC"
    """It goes on, and is told later: `send_soon`, `send_async`."""
    ONEWAY = "ONEWAY"
    """It never learns what became of the message."""


class MessageKind(Enum):
    """Java: MessageType."""

    NORMAL = "Normal_Msg"
    DELAY = "Delay_Msg"


@dataclass(slots=True)
class SendContext:
    """One attempt to send, as hooks see it. Java: SendMessageContext, CheckForbiddenContext."""

    group: str
    messages: Sequence[Message]
    """The one message, or those of a batch, as the application handed them over."""
    queue: MessageQueue
    address: str
    """The broker's."""
    mode: SendMode
    client_id: str
    namespace: str
    unit_mode: bool
    receipt: SendReceipt | None = None
    """Of an attempt that succeeded."""
    error: Exception | None = None
    """Of an attempt that failed."""
    carried: object = None
    """Whatever a hook wants to find again after the attempt. Java: mqTraceContext."""

    @property
    def kind(self) -> MessageKind:
        return MessageKind.DELAY if DELAY in self.messages[0].properties else MessageKind.NORMAL


class SendHook(Protocol):
    """Called around every attempt, in the thread or loop that sends. Its own failures are logged and change nothing.

    After a oneway message there is neither a receipt nor an error.
    """

    def before_send(self, context: SendContext) -> None: ...

    def after_send(self, context: SendContext) -> None: ...


class ForbiddenHook(Protocol):
    """Called before every attempt. What it raises goes to the caller, and nothing is sent. Java: CheckForbiddenHook.

    A `ClientError` counts as a failed attempt: the next one may go to another broker, which the hook may allow.
    """

    def check_forbidden(self, context: SendContext) -> None: ...


class SendHooks:
    """The hooks of one producer."""

    def __init__(self, send: Sequence[SendHook] = (), forbidden: Sequence[ForbiddenHook] = ()) -> None:
        self._send, self._forbidden = tuple(send), tuple(forbidden)

    def __bool__(self) -> bool:
        return bool(self._send or self._forbidden)

    def before(self, context: SendContext) -> None:
        """Raises what a forbidding hook raises."""
        for forbidden in self._forbidden:
            forbidden.check_forbidden(context)
        for hook in self._send:
            try:
                hook.before_send(context)
            except Exception as error:  # noqa: BLE001  # a hook only looks on
                _log.error("send hook failed before a message", error=error, topic=context.queue.topic)

    def after(
        self, context: SendContext, *, receipt: SendReceipt | None = None, error: Exception | None = None
    ) -> None:
        context.receipt, context.error = receipt, error
        for hook in self._send:
            try:
                hook.after_send(context)
            except Exception as failure:  # noqa: BLE001
                _log.error("send hook failed after a message", error=failure, topic=context.queue.topic)
