"""Attributes of topics and groups: what there is, and how a request changes them.

A request names each key with a sign: `+key=value` sets it, `-key` takes it away. What is stored has no signs.
Java: AttributeParser, AttributeUtil, TopicAttributes, SubscriptionGroupAttributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rocketline.errors import RemoteProtocolError

QUEUE_TYPE = "queue.type"
BATCHED = "BatchCQ"
CLEANUP_POLICY = "cleanup.policy"
MESSAGE_TYPE = "message.type"
_RESERVE_TIME = "reserve.time"
MIXED = "MIXED"
_MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", MIXED, "PRIORITY", "LITE")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One key: whether it can be changed after creation, and what it may hold."""

    is_changeable: bool
    allowed: str
    allows: Callable[[str], object]


def _one_of(*values: str, is_changeable: bool) -> Attribute:
    return Attribute(is_changeable, "one of " + ", ".join(values), values.__contains__)


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    QUEUE_TYPE: _one_of("SimpleCQ", BATCHED, is_changeable=False),
    CLEANUP_POLICY: _one_of("DELETE", "COMPACTION", is_changeable=False),
    MESSAGE_TYPE: _one_of(*_MESSAGE_TYPES, is_changeable=True),
    # Of tiered storage, which we do not have: it is kept, as Apache's broker does without.
    _RESERVE_TIME: Attribute(True, "a whole number from -1 on", re.compile(r"-1|\d{1,18}", re.ASCII).fullmatch),
}
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {}
"""None: the attributes that Apache knows belong to features that we do not have."""


_CHANGES_MAX = 100
"""Of which some are of keys that nobody knows: what follows is not taken apart."""


def parse_changes(text: str | None) -> dict[str, str]:
    """The changes in `+key=value,-key` by signed key. Raises `RemoteProtocolError`.

    >>> parse_changes("+message.type=FIFO,-cleanup.policy")
    {'+message.type': 'FIFO', '-cleanup.policy': ''}
    """
    changes: dict[str, str] = {}
    for part in text.split(",", _CHANGES_MAX) if text else ():
        key, equals, value = part.partition("=")
        sign = "+" if equals else "-"
        if not key.startswith(sign) or (equals and not value):
            raise RemoteProtocolError(f"attribute {part!r}: it must be +key=value, or -key to remove the key")
        if key in changes:
            raise RemoteProtocolError(f"attribute {key[1:]} is named twice")
        changes[key] = value
    return changes


def altered(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """The attributes after `changes`, which have signed keys; `current` is None for what is being created.

    Raises `RemoteProtocolError` for a key that is not known, fixed or named twice, and for a value it may not hold.
    """
    result = dict(current or {})
    seen = set[str]()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if sign not in ("+", "-"):
            raise RemoteProtocolError(f"attribute {signed!r}: it must be +key=value, or -key to remove the key")
        if key in seen:
            raise RemoteProtocolError(f"attribute {key} is named twice")
        seen.add(key)
        _check(known.get(key), sign, key, value, current)
        if sign == "+":
            result[key] = value
        else:
            del result[key]
    return result


def _check(attribute: Attribute | None, sign: str, key: str, value: str, current: Mapping[str, str] | None) -> None:
    if sign == "-" and current is None:
        raise RemoteProtocolError(f"attribute {key} cannot be removed from what is only being created")
    if sign == "-" and key not in (current or {}):
        raise RemoteProtocolError(f"attribute {key} cannot be removed: it is not set")
    if attribute is None:
        raise RemoteProtocolError(f"attribute {key!r} is not known")
    if current is not None and not attribute.is_changeable:
        raise RemoteProtocolError(f"attribute {key} is fixed when the topic is created")
    if sign == "+" and not attribute.allows(value):
        raise RemoteProtocolError(f"attribute {key}={value!r}: it must be {attribute.allowed}")
