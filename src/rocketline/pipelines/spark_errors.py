"""What went wrong, in a line: Spark reports a failure with the traces of every process that it passed through."""

from __future__ import annotations

import re
from typing import Final

from rocketline.errors import PipelineError

_OURS: Final = re.compile(r"rocketline\.[\w.]*?(\w+Error): (.+)")
_PYTHON: Final = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_CLASS: Final = re.compile(r"\[[A-Z_]+(?:\.[A-Z_]+)*\] (?!\[)(.+)")
_LENGTH_MAX: Final = 600


def cause_of(text: str) -> str:
    """The line that says what happened, of a report of Spark's.

    >>> cause_of("[STREAM_FAILED] Query [id = 1] terminated: …\\nrocketline.errors.ConfigError: no topic")
    'no topic'
    """
    for pattern, group in ((_OURS, 2), (_RAISED, 1), (_PYTHON, 0)):
        if found := pattern.findall(text):
            last = found[-1]
            line = last if isinstance(last, str) else ": ".join(last) if group == 0 else last[group - 1]
            return _shortened(line)
    if found := _CLASS.findall(text):
        return _shortened(found[-1])
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return _shortened(lines[0] if lines else "no reason was given")


def query_failure(query: str, text: str) -> PipelineError:
    """The error for a query that has ended with Spark's report `text`."""
    return PipelineError(f"query {query}: {cause_of(text)}")


def _shortened(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LENGTH_MAX else f"{line[:_LENGTH_MAX]}…"
