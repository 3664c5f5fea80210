"""The handle by which a producer calls back a timer message before its delivery, and the marker that is stored for it.
Java: RecallMessageHandle."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model import property_names

_VERSION = "v1"
_PARTS = 5


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """Which message, and where it waits."""

    topic: str
    broker_name: str
    deliver_ms: int
    """One more than the time of delivery that the broker was asked for."""
    unique_id: str

    def encode(self) -> str:
        """The handle as URL-safe Base64. Raises `LocalProtocolError` for a part that is empty or holds a blank."""
        parts = (_VERSION, self.topic, self.broker_name, str(self.deliver_ms), self.unique_id)
        for part in parts:
            if not part or " " in part:
                raise LocalProtocolError(f"a recall handle cannot carry {part!r}: its parts are separated by blanks")
        return base64.urlsafe_b64encode(" ".join(parts).encode("utf-8", "replace")).decode()

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """The handle in `text`, padded or not. Raises `RemoteProtocolError`; servers answer such a request with 604.

        >>> RecallHandle.decode(RecallHandle("T", "broker-a", 1700000000001, "ABC").encode()).topic
        'T'
        """
        parts = _decode_text(text).split(" ")
        if len(parts) < _PARTS or parts[0] != _VERSION:
            raise RemoteProtocolError(f"recall handle {text[:80]!r} is not of version {_VERSION} with {_PARTS} parts")
        _, topic, broker_name, deliver_ms, unique_id = parts[:_PARTS]
        if not (deliver_ms.isascii() and deliver_ms.isdigit() and len(deliver_ms) < 20):
            raise RemoteProtocolError(f"recall handle: its time {deliver_ms[:40]!r} is no number of milliseconds")
        return cls(topic, broker_name, int(deliver_ms), unique_id)


def recalled_key(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Which message a marker with such properties calls back: its topic and its unique key; None if it is no marker.

    Apache 5.3 writes topic and key, those before and after the key alone, as it is in the marker's own unique key: one
    that somebody made up may begin like the other form.

    >>> recalled_key({"REAL_TOPIC": "T", "TIMER_DEL_UNIQKEY": "T+a", "UNIQ_KEY": "a"})
    ('T', 'a')
    >>> recalled_key({"REAL_TOPIC": "T", "TIMER_DEL_UNIQKEY": "T+a", "UNIQ_KEY": "T+a"})
    ('T', 'T+a')
    """
    key = properties.get(property_names.TIMER_DEL_UNIQKEY)
    if not key:
        return None
    topic = properties.get(property_names.REAL_TOPIC, "")
    return topic, key if key == properties.get(property_names.UNIQ_KEY) else key.removeprefix(f"{topic}+")


def _decode_text(text: str) -> str:
    standard = text.replace("-", "+").replace("_", "/")
    try:
        if "+" in text or "/" in text:
            raise ValueError("the alphabet is the URL-safe one")
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise RemoteProtocolError(f"recall handle {text[:80]!r} is no URL-safe Base64: {error}") from None
