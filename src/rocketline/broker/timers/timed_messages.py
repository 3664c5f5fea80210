"""How a timer message looks while it waits, and when it is delivered."""

from __future__ import annotations

from typing import Final

from rocketline.broker.storing.real_place import real_place
from rocketline.model import names, property_names
from rocketline.model.ids import LogOffset
from rocketline.model.message import StoredMessage
from rocketline.store.log.record_scan import property_of
from rocketline.wire.bodies.pop import ACK_TAG
from rocketline.wire.properties import NAME_END, decode_properties

_TIMER_OUT: Final = f"{property_names.TIMER_OUT_MS}{NAME_END}".encode()
_DELETE: Final = f"{property_names.TIMER_DEL_UNIQKEY}{NAME_END}".encode()
_TAGS: Final = f"{property_names.TAGS}{NAME_END}".encode()
_REAL_TOPIC: Final = f"{property_names.REAL_TOPIC}{NAME_END}".encode()
_ACK: Final = ACK_TAG.encode()
_REVIVE: Final = names.revive_topic("").encode()
_DIGITS_MAX: Final = 19
NEVER_PARKED: Final = 2**63 - 1
"""In place of the time when a message was parked: it was due before. Java: Long.MAX_VALUE."""


def slot_ms_of(message: StoredMessage) -> int | None:
    """The slot that a message of the timer topic was given, None if it has none. Apache's broker never gets over one
    that has none."""
    return _number(message.properties.get(property_names.TIMER_OUT_MS, ""))


def slot_ms_in(properties: bytes) -> int | None:
    """The same of its properties as they are stored: every message that is to wait is asked."""
    text = property_of(properties, _TIMER_OUT)
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else None


def is_marker(properties: bytes) -> bool:
    """It is there to call another one back."""
    return _DELETE in properties and property_names.TIMER_DEL_UNIQKEY in decode_properties(properties, keep_empty=True)


def key_of(message: StoredMessage) -> tuple[str, str]:
    """By what a marker names a message."""
    properties = message.properties
    return properties.get(property_names.REAL_TOPIC, ""), properties.get(property_names.UNIQ_KEY, "")


def real_topic_in(properties: bytes) -> bytes:
    """Where it is to go when its time has come."""
    return property_of(properties, _REAL_TOPIC)


def is_acknowledgement(properties: bytes) -> bool:
    """It ends one pop of a message, perhaps because another one, which is noted right before it, takes its place."""
    return property_of(properties, _TAGS) == _ACK and real_topic_in(properties).startswith(_REVIVE)


def released(parked: StoredMessage, parked_ms: int, now_ms: int) -> StoredMessage | None:
    """Make of the message, which nobody else has, what goes to its real topic; None if it does not say where that is.

    It keeps the properties that tell of its time, as Apache's does.
    """
    properties = parked.properties
    if (place := real_place(parked)) is None:
        return None
    properties[property_names.TIMER_ENQUEUE_MS] = str(parked_ms)
    properties[property_names.TIMER_DEQUEUE_MS] = str(now_ms)
    (parked.topic, parked.queue_id), parked.prepared_log_offset = place, LogOffset(0)
    return parked


def rolled(parked: StoredMessage, parked_ms: int, now_ms: int) -> StoredMessage:
    """The same for the timer topic, where it waits for another part of its time."""
    properties = parked.properties
    times = _number(properties.get(property_names.TIMER_ROLL_TIMES, "")) or 0
    properties[property_names.TIMER_ENQUEUE_MS] = str(parked_ms)
    properties[property_names.TIMER_ROLL_TIMES] = str(times + 1)
    properties[property_names.TIMER_DEQUEUE_MS] = str(now_ms)
    return parked


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else None
