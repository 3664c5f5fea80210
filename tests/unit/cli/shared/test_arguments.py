"""Points in time as people write them."""

from __future__ import annotations

import datetime as dt

import click
import pytest

from rocketline.cli.shared.arguments import parse_time, span_argument, time_argument
from rocketline.testing.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("now", NOW_MS),
        ("250ms", NOW_MS - 250),
        ("10m", NOW_MS - 600_000),
        ("1.5h", NOW_MS - 5_400_000),
        ("2d", NOW_MS - 172_800_000),
        ("1699999999999", 1_699_999_999_999),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T22:13:20.250+00:00", NOW_MS + 250),
    ],
)
def test_time_is_read_in_every_form(text: str, time_ms: int) -> None:
    assert parse_time(text, FakeClock()) == time_ms


def test_time_without_a_zone_is_local_and_that_of_apaches_tools_too() -> None:
    local = round(dt.datetime(2026, 11, 16, 8, 30).astimezone().timestamp() * 1000)
    assert parse_time("2026-11-16 08:30", FakeClock()) == local
    assert parse_time("2026-11-16#08:30:00:007", FakeClock()) == local + 7


@pytest.mark.parametrize("text", ["", "yesterday", "10", "-5m", "2026-13-01", "99999999999999999"])
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time: write now, 10m"):
        time_argument(text)


@pytest.mark.parametrize("text", ["", "5", "-5s", "soon", "9" * 20 + "d", "9" * 400 + "s"])
def test_length_of_time_that_is_none_is_refused(text: str) -> None:
    """One beyond all bounds ended in a traceback."""
    with pytest.raises(click.BadParameter, match="no length of time"):
        span_argument(text)
