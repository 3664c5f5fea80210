"""A message that was popped: it is this client's alone, for some time."""

from __future__ import annotations

from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import HandleError, HandleExpiredError
from rocketline.model import property_names
from rocketline.wire.pop_handles import PopHandle


class PoppedMessage(ReceivedMessage):
    """A message with the right to acknowledge it, until `expires_s`; then the broker gives it to somebody again."""

    __slots__ = ("_is_settled", "expires_s", "first_pop_ms", "group", "handle")

    def __init__(self, message: ReceivedMessage, handle: PopHandle, *, group: str, expires_s: float) -> None:
        """`group` is as on the wire; `expires_s` is a time of the client's own clock, whatever the broker's says."""
        for slot in ReceivedMessage.__slots__:
            setattr(self, slot, getattr(message, slot))
        self.handle = handle
        """What the broker knows the right by. Java: the property POP_CK."""
        self.group, self.expires_s, self.first_pop_ms = group, expires_s, handle.pop_ms
        self._is_settled = False
        if self._properties is not None:
            self._tell(self._properties)

    @property
    def properties(self) -> dict[str, str]:
        """The application's and RocketMQ's own; among these, as in Java, the handle and the time of the first pop."""
        is_first = self._properties is None
        properties = super().properties
        if is_first:
            self._tell(properties)
        return properties

    def _tell(self, properties: dict[str, str]) -> None:
        properties[property_names.POP_CK] = self.handle.format()
        properties.setdefault(property_names.FIRST_POP_TIME, str(self.first_pop_ms))

    @property
    def attempt(self) -> int:
        """How often it has been handed out, this time included."""
        return self.reconsume_times + 1

    @property
    def is_settled(self) -> bool:
        """It was acknowledged or given back: nothing more can be said of it."""
        return self._is_settled

    def renew(self, handle: PopHandle, expires_s: float) -> None:
        """The right was replaced by another one; the old handle is void."""
        self.handle, self.expires_s = handle, expires_s
        if self._properties is not None:
            self._tell(self._properties)

    def settle(self) -> None:
        """Nothing more is to be said of it."""
        self._is_settled = True

    def check_open(self, group: str, now_s: float) -> None:
        """Raises `HandleError` unless `group` has the right to it, still, and `HandleExpiredError` if it had."""
        if self.group != group:
            raise HandleError(self.message_id, f"group {self.group!r} has popped it, not {group!r}")
        if self._is_settled:
            raise HandleError(self.message_id, "it was acknowledged or given back before")
        if now_s >= self.expires_s:
            raise HandleExpiredError(self.message_id)
