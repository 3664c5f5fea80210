"""When a message is to be delivered, as an application says it and as it travels."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from rocketline.errors import InvalidMessageError
from rocketline.model import property_names

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_MS_MAX: Final = 2**63 - 1


def timer_property(
    topic: str, deliver_at: datetime | None, deliver_after: timedelta | float | None, *, has_level: bool
) -> tuple[str, str]:
    """The property that says so. A broken millisecond counts as a whole one: no message is early.

    Raises `InvalidMessageError` for what is no moment, or more than one.

    >>> timer_property("T", datetime(2030, 1, 1, tzinfo=UTC), None, has_level=False)
    ('TIMER_DELIVER_MS', '1893456000000')
    >>> timer_property("T", None, 1.5, has_level=False)
    ('TIMER_DELAY_MS', '1500')
    """
    if deliver_at is not None and deliver_after is not None:
        raise InvalidMessageError(topic, "deliver_at and deliver_after exclude each other: give one moment")
    if has_level:
        raise InvalidMessageError(
            topic, "a delay_level and a moment exclude each other, and brokers would go by the level: give one"
        )
    if deliver_at is not None:
        return property_names.TIMER_DELIVER_MS, str(_moment_ms(topic, deliver_at))
    assert deliver_after is not None
    return property_names.TIMER_DELAY_MS, str(_delay_ms(topic, deliver_after))


def _moment_ms(topic: str, moment: object) -> int:
    if not isinstance(moment, datetime):
        raise InvalidMessageError(
            topic, f"deliver_at={moment!r} is no datetime; for a time from now take deliver_after"
        )
    if moment.utcoffset() is None:
        raise InvalidMessageError(
            topic,
            f"deliver_at={moment.isoformat()} has no time zone, so it is no moment: if it is local time, give its "
            ".astimezone(); else make it with a zone, as datetime.now(UTC) does",
        )
    return max(-((_EPOCH - moment) // _MS), 0)


def _delay_ms(topic: str, delay: object) -> int:
    if isinstance(delay, timedelta):
        found = -(-delay // _MS)
    elif isinstance(delay, int | float) and not isinstance(delay, bool) and math.isfinite(delay):
        found = math.ceil(round(delay * 1000, 3))
    else:
        raise InvalidMessageError(topic, f"deliver_after={delay!r} is neither a timedelta nor a number of seconds")
    if found < 0:
        raise InvalidMessageError(topic, f"deliver_after={delay!r}: a message is delivered later than it is sent")
    if found > _MS_MAX:
        raise InvalidMessageError(
            topic, f"deliver_after={delay!r} is longer than can be told: there are 64 bits for it"
        )
    return found


def moment_of(text: str | None) -> datetime | None:
    """The moment in a property, None if there is none."""
    return _EPOCH + timedelta(milliseconds=int(text)) if text else None


def delay_of(text: str | None) -> timedelta | None:
    """The time in a property, None if there is none."""
    return timedelta(milliseconds=int(text)) if text else None
