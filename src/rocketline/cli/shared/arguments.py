"""Arguments and options as people write them, and the examples under a command's help."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from rocketline.clock import Clock, SystemClock
from rocketline.model.queue import MessageQueue

if TYPE_CHECKING:
    from rocketline.client.consumer.subscriptions import MessageSelector

Command: TypeAlias = Callable[..., Any]

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MILLISECONDS: Final = re.compile(r"\d{10,16}")


def examples(*pairs: tuple[str, str]) -> str:
    r"""The text for Click's `epilog`: commands, each under what it does.

    >>> print(examples(("rocketline topic list", "all topics")).removeprefix("\b\n"))
    Examples:
      # all topics
      rocketline topic list
    """
    lines = [
        line for command, meaning in pairs for line in ((f"  # {meaning}",) if meaning else ()) + (f"  {command}",)
    ]
    return "\b\n" + "\n".join(["Examples:", *lines])


def filter_options(command: Command) -> Command:
    """Adds `--tag` and `--sql`, of which `selector` makes one."""
    command = click.option(
        "--sql", help="Only messages whose properties fulfil this: \"price > 5 AND region = 'north'\"."
    )(command)
    return click.option("--tag", help="Only messages with this tag, or with one of several: 'new || paid'.")(command)


def selector(tag: str | None, sql: str | None) -> MessageSelector | str | None:
    """What to choose among messages. Raises `click.UsageError`."""
    if sql is None:
        return tag
    if tag is not None:
        raise click.UsageError("--tag and --sql exclude each other: compare TAGS, as in \"TAGS = 'new' AND price > 5\"")
    from rocketline.client.consumer.subscriptions import by_sql

    return by_sql(sql)


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """The pairs in order. Raises `click.UsageError` for a text without a sign of equality.

    >>> parse_pairs("--property", ["color=red", "formula=a=b"])
    {'color': 'red', 'formula': 'a=b'}
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise click.UsageError(f"{option} {text!r}: write it as name=value")
        pairs[name] = value
    return pairs


def parse_queue(topic: str, text: str) -> MessageQueue:
    """The queue that `broker-a:3` means of a topic. Raises `click.UsageError`.

    >>> parse_queue("orders", "broker-a:3")
    MessageQueue(topic='orders', broker_name='broker-a', queue_id=3)
    """
    broker, _, number = text.rpartition(":")
    if not (broker and number.isascii() and number.isdigit()):
        raise click.UsageError(f"{text!r} is no queue: write it as broker-a:3, the broker's name and the number")
    return MessageQueue(topic, broker, int(number))


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


def span_argument(text: str) -> dt.timedelta:
    """The type of an option that is a length of time.

    >>> span_argument("90m")
    datetime.timedelta(seconds=5400)
    """
    if match := _AGO.fullmatch(text):
        with suppress(OverflowError):
            return dt.timedelta(milliseconds=float(match[1]) * _UNIT_MS[match[2]])
    raise click.BadParameter(f"{text!r} is no length of time: write 500ms, 90s, 10m, 2h or 3d")


def moment_argument(text: str) -> dt.datetime:
    """The type of an option that is a moment to come: local time if no zone is told.

    >>> moment_argument("2026-11-16T08:30+01:00").isoformat()
    '2026-11-16T08:30:00+01:00'
    """
    if _MILLISECONDS.fullmatch(text):
        return dt.datetime.fromtimestamp(int(text) / 1000, dt.UTC)
    try:
        found = dt.datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.astimezone()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is no moment: write 2026-11-16T08:30, local or with its zone, or milliseconds since 1970; "
            "for a time from now take --after"
        ) from None
