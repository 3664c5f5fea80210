"""Points in time as people write them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

import click

from rocketline.clock import Clock, SystemClock

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MILLISECONDS: Final = re.compile(r"\d{10,16}")


def parse_time(text: str, clock: Clock) -> int:
    """Milliseconds since 1970 of `now`, of `10m` (ago), of `2026-11-16 08:30` (here), or as they are.

    Raises `ValueError`.

    >>> from rocketline.testing.fake_clock import FakeClock
    >>> parse_time("1.5h", FakeClock()), parse_time("2023-11-14T22:13:20Z", FakeClock())
    (1699994600000, 1700000000000)
    """
    if text == "now":
        return clock.wall_ms()
    if match := _AGO.fullmatch(text):
        return clock.wall_ms() - round(float(match[1]) * _UNIT_MS[match[2]])
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    # Apache's tools write 2026-11-16#08:30:00:000.
    iso = re.sub(r"#(\d\d:\d\d:\d\d):(\d{3})$", r"T\1.\2", text)
    return round(dt.datetime.fromisoformat(iso).astimezone().timestamp() * 1000)


def time_argument(text: str) -> int:
    """The type of an argument or option that is a point in time, in milliseconds since 1970."""
    try:
        return parse_time(text, SystemClock())
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is no time: write now, 10m (ago; ms s m h d), 2026-11-16T08:30, or milliseconds since 1970"
        ) from None
