"""Hooks around every attempt to send: who may look, and who may forbid. Java: SendMessageHook, CheckForbiddenHook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rocketline.client.producer.receipts import SendReceipt
from rocketline.logs import Log
from rocketline.model.message import Message
from rocketline.model.property_names import DELAY, TRAN_MSG
from rocketline.model.queue import MessageQueue

_log = Log(__name__)


class SendMode(Enum):
    """What the caller does meanwhile. Java: CommunicationMode."""

    SYNC = "SYNC"
    """The caller waits for the receipt: `send`."""
    ASYNC = "ASYNC"
    """The caller goes on, and is told later: `send_soon`."""
    ONEWAY = "ONEWAY"
    """The caller never learns what became of the message."""


class MessageKind(Enum):
    """Java: MessageType."""

    NORMAL = "Normal_Msg"
    HALF = "Trans_Msg_Half"
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
        properties = self.messages[0].properties
        if properties.get(TRAN_MSG) == "true":
            return MessageKind.HALF
        return MessageKind.DELAY if DELAY in properties else MessageKind.NORMAL


class SendHook(Protocol):
    """Called around every attempt, in the thread or loop that sends. Its own failures are logged and change nothing.

    After a oneway message there is neither a receipt nor an error.
    """

    def before_send(self, context: SendContext) -> None: ...

    def after_send(self, context: SendContext) -> None: ...


class MessageHook(Protocol):
    """Called once with each message that is sent, before the first attempt, in the thread or loop of the caller.

    It returns what is sent in its place, which may be the same: the application's own message is not to be changed.
    What it raises is logged, and changes nothing.
    """

    def prepare_message(self, message: Message) -> Message: ...


class ForbiddenHook(Protocol):
    """Called before every attempt. What it raises goes to the caller, and nothing is sent. Java: CheckForbiddenHook.

    A `ClientError` counts as a failed attempt: the next one may go to another broker, which the hook may allow.
    """

    def check_forbidden(self, context: SendContext) -> None: ...


def hooked(hooks: Sequence[MessageHook], message: Message) -> Message:
    """What is sent in the place of `message`."""
    for hook in hooks:
        try:
            message = hook.prepare_message(message)
        except Exception as error:  # noqa: BLE001  # the application's: messages are sent all the same
            _log.error("message hook failed", error=error, topic=message.topic)
    return message


class SendHooks:
    """The hooks of one producer."""

    def __init__(self, send: Sequence[SendHook] = (), forbidden: Sequence[ForbiddenHook] = ()) -> None:
        self._send, self._forbidden = tuple(send), tuple(forbidden)

    def __bool__(self) -> bool:
        return bool(self._send or self._forbidden)

    @contextmanager
    def around(self, context: SendContext) -> Iterator[None]:
        """The hooks' turns before and after an attempt, which sets `context.receipt`. Raises what forbids it."""
        for forbidden in self._forbidden:
            forbidden.check_forbidden(context)
        self._call("before", [hook.before_send for hook in self._send], context)
        try:
            yield
        except Exception as error:
            context.error = error
            raise
        finally:
            self._call("after", [hook.after_send for hook in self._send], context)

    def _call(self, when: str, hooks: Sequence[Callable[[SendContext], None]], context: SendContext) -> None:
        for hook in hooks:
            try:
                hook(context)
            except Exception as error:  # noqa: BLE001  # a hook only looks on
                _log.error(f"send hook failed {when} a message", error=error, topic=context.queue.topic)
