"""Logs: events with fields on the standard library's `logging`, as lines for people or as JSON for machines.

    log = Log(__name__)
    log.info("broker registered", broker="broker-a", topics=12)

A library never sets logging up; a program calls `configure` once, or has its own handlers show `event key=value …`.
Peers' text may stand in a field or an event: whatever it holds, one event stays one line of bounded length.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from textwrap import indent
from typing import TextIO

from rocketline.clock import Clock

TEXT_CHARACTERS_MAX = 1000
"""An event or a field is cut here: peers may have written it."""

_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class LogFormat(Enum):
    """TEXT is for people, JSON (one object per line) for machines."""

    TEXT = "text"
    JSON = "json"


class Log:
    """A logger whose events carry fields."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        self.write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self.write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self.write(logging.WARNING, event, fields)

    def error(self, event: str, *, error: BaseException | None = None, **fields: object) -> None:
        """`error`, if given, is logged with its traceback."""
        self.write(logging.ERROR, event, fields, error)

    def write(self, level: int, event: str, fields: Mapping[str, object], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, _Event(event, fields), exc_info=error)


class _Event:
    """An event with its fields, as a record's message: whoever formats records, the fields are there."""

    __slots__ = ("fields", "text")

    def __init__(self, event: str, fields: Mapping[str, object]) -> None:
        self.text = _cut(event)
        self.fields = {
            name: value if isinstance(value, bool | int | float) else _cut(_joined(value))
            for name, value in fields.items()
        }

    def __str__(self) -> str:
        fields = "".join(f" {name}={_text(value)}" for name, value in self.fields.items())
        return f"{_one_line(self.text)}{fields}"


@dataclass(slots=True)
class _Cause:
    level: int
    line_at_s: float
    suppressed: int = 0


class Throttle:
    """Lets one line per second and cause through, so that no peer can fill the log; counts what it holds back.

    The next line of the cause tells the count as `suppressed`; `flush_due`, called now and then, and `flush` at the end
    tell what no next line came for. A cause is a fixed text of the program, never one from a peer: each is remembered.
    """

    def __init__(self, clock: Clock, *, name: str = "rocketline", period_s: float = 1.0) -> None:
        self._clock, self._log, self._period_s = clock, Log(name), period_s
        self._causes: dict[str, _Cause] = {}

    def info(self, cause: str, message: str, **fields: object) -> None:
        self._write(logging.INFO, cause, message, fields)

    def warning(self, cause: str, message: str, **fields: object) -> None:
        self._write(logging.WARNING, cause, message, fields)

    def error(self, cause: str, message: str, *, error: BaseException | None = None, **fields: object) -> None:
        """`error`, if given, is logged with its traceback."""
        self._write(logging.ERROR, cause, message, fields, error)

    def flush_due(self) -> None:
        """Tell the counts of causes whose second is over."""
        now_s = self._clock.monotonic()
        for cause, state in self._causes.items():
            if state.suppressed and now_s - state.line_at_s >= self._period_s:
                self._tell_count(cause, state, now_s)

    def flush(self) -> None:
        """Tell all counts now."""
        for cause, state in self._causes.items():
            if state.suppressed:
                self._tell_count(cause, state, self._clock.monotonic())

    def _write(
        self,
        level: int,
        cause: str,
        message: str,
        fields: Mapping[str, object],
        error: BaseException | None = None,
    ) -> None:
        now_s = self._clock.monotonic()
        state = self._causes.get(cause)
        if state is not None and now_s - state.line_at_s < self._period_s:
            state.suppressed += 1
            return
        self._causes[cause] = _Cause(level, now_s)
        counted = {**fields, "suppressed": state.suppressed} if state and state.suppressed else fields
        self._log.write(level, f"{cause}: {message}", counted, error)

    def _tell_count(self, cause: str, state: _Cause, now_s: float) -> None:
        suppressed, state.suppressed, state.line_at_s = state.suppressed, 0, now_s
        self._log.write(state.level, f"{cause}: more like the last line", {"suppressed": suppressed})


class TextFormatter(logging.Formatter):
    """`time LEVEL event key=value …`; a traceback follows on lines of its own, indented: none can pass for an event."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname:<7} {_event(record)}"
        return f"{line}\n{indent(self.formatException(record.exc_info), '    ')}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, event, the event's fields, and a traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        event = _event(record)
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event.text,
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(event.fields | entry)


def configure(level: str, log_format: LogFormat, stream: TextIO) -> None:
    """Send every log of this process, from `level` ("info", "debug" …) up, to `stream`. For programs."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _event(record: logging.LogRecord) -> _Event:
    """What a record tells; those of other libraries have no fields."""
    return record.msg if isinstance(record.msg, _Event) else _Event(record.getMessage(), {})


def _joined(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}… ({len(text)} characters)"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def _text(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _one_line(text: str) -> str:
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
