"""For which moment a message is, by its properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketline.model import property_names

_DIGITS_MAX: Final = 19


def asked_ms(properties: Mapping[str, str], now_ms: int, lead_ms: int = 0) -> int | str:
    """When the message is to be delivered; or what is wrong with what it says. `now_ms` is by a clock that is ahead by
    `lead_ms` of the one on the wall, by which a moment is meant; a marker was given its moment by the first.

    >>> asked_ms({"TIMER_DELIVER_MS": "5000", "TIMER_DELAY_SEC": "2"}, 1000), asked_ms({"TIMER_DELAY_MS": "-7"}, 1000)
    (3000, 993)
    >>> asked_ms({"TIMER_DELIVER_MS": "soon"}, 1000)
    "the property TIMER_DELIVER_MS is 'soon', which is no number"
    """
    name = next(name for name in property_names.TIMERS if name in properties)
    text = properties[name]
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isdecimal() and len(digits) <= _DIGITS_MAX and -(2**63) <= int(text) < 2**63):
        return f"the property {name} is {text[:40]!r}, which is no number"
    if name == property_names.TIMER_DELIVER_MS:
        return int(text) if property_names.TIMER_DEL_UNIQKEY in properties else int(text) + lead_ms
    return now_ms + int(text) * (1000 if name == property_names.TIMER_DELAY_SEC else 1)


def slot_before(deliver_ms: int, precision_ms: int) -> int:
    """The slot of a moment. It is delivered when it is over: never before the moment, and at most a step after.

    >>> slot_before(5001, 1000), slot_before(5000, 1000)
    (5000, 4000)
    """
    return (deliver_ms - 1) // precision_ms * precision_ms
