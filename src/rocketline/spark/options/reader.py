"""Reading options: texts into values, with every problem noted instead of raised at the first.

    reader = OptionReader(given, BY_KEY)
    count = reader.whole("pullBatchSize", low=1)
    reader.finish()          # raises ConfigError with all that was wrong

Options come from Spark with keys in lower case; problems name them as the documentation does.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from rocketline.errors import ConfigError
from rocketline.model.names import topic_problem
from rocketline.spark.options.table import CLIENT_PREFIX, SPARKS_OWN, Option

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DURATION: Final = re.compile(r"([0-9]{1,15})\s*([a-z]*)")
_UNITS_S: Final = {
    "": 0.001, "ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
_LONG_MAX: Final = 2**63 - 1
_NEARNESS: Final = 0.8
"""How alike two names must be, of 1, to be one and a slip of it."""


class OptionReader:
    """The options of one use; each value is read by its name in a table of options."""

    def __init__(self, given: Mapping[str, str], table: Mapping[str, Option]) -> None:
        """`table` has the options by their names in lower case."""
        self._given = {key.lower(): value for key, value in given.items()}
        self._table = table
        self._problems: list[str] = []

    def problem(self, text: str) -> None:
        """Note what is wrong; `finish` raises it with the rest."""
        self._problems.append(text)

    def check_topics(self, names: Iterable[str]) -> None:
        """Note each name that no topic can have."""
        for name in dict.fromkeys(names):
            if problem := topic_problem(name):
                self.problem(f"topic {name!r}: {problem}")

    def finish(self) -> None:
        """Raise `ConfigError` if anything was wrong."""
        if self._problems:
            raise ConfigError(self._problems)

    # --- values

    def has(self, name: str) -> bool:
        return bool(self._given.get(name.lower(), "").strip())

    def text(self, name: str) -> str:
        """What was given, without blanks around it, or the default; empty if there is neither."""
        option = self._table[name.lower()]
        return self._given.get(option.key, "").strip() or option.default

    def secret(self, name: str) -> str:
        """What was given, every blank of it."""
        return self._given.get(self._table[name.lower()].key, "")

    def required(self, name: str, how: str) -> str:
        """`how` says what to write."""
        text = self.text(name)
        if not text:
            self.problem(f"option {name} is missing: {how}")
        return text

    def flag(self, name: str) -> bool:
        text = self.text(name)
        if text.lower() not in ("true", "false"):
            self.problem(f"{name}={text!r}: true or false is wanted")
        return text.lower() == "true"

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        text = self.text(name).lower()
        if text not in allowed:
            self.problem(f"{name}={text!r}: it must be one of {', '.join(allowed)}")
        return text

    def pattern(self, name: str) -> str | None:
        """A regular expression, or None if there is none."""
        text = self.text(name) or None
        if text:
            try:
                re.compile(text)
            except (re.error, RecursionError) as error:
                self.problem(f"{name}={text!r} is no regular expression: {error}")
        return text

    def whole(self, name: str, *, low: int, high: int = _LONG_MAX) -> int:
        """A whole number that has a default."""
        number = self.whole_or_none(name, low=low, high=high)
        return low if number is None else number  # None: a problem was noted

    def whole_or_none(self, name: str, *, low: int, high: int = _LONG_MAX) -> int | None:
        """A whole number, or None if there is none."""
        text = self.text(name)
        if not text:
            return None
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            bounds = f"at least {low}" if high == _LONG_MAX else f"from {low} to {high}"
            self.problem(f"{name}={text!r}: a whole number is wanted, {bounds}")
            return None
        return int(text)

    def milliseconds(self, name: str, *, low: int = 1) -> float:
        """A number of milliseconds, in seconds."""
        return self.whole(name, low=low, high=2**31 - 1) / 1000

    def duration(self, name: str) -> float:
        """A time like 500ms, 30s, 15m, 2h or 1d, in seconds; a bare number is in milliseconds, as in Spark."""
        text = self.text(name)
        found = _DURATION.fullmatch(text.lower())
        if found is None or found[2] not in _UNITS_S:
            self.problem(f"{name}={text!r}: a time is wanted, as 500ms, 30s, 15m, 2h or 1d")
            return 0.0
        return int(found[1]) * _UNITS_S[found[2]]

    # --- what nobody asked for

    def refuse(self, name: str, why: str) -> None:
        """Note a problem if the option was given."""
        if self.has(name):
            self.problem(f"{name}: {why}")

    def unused(self, use: str) -> tuple[str, ...]:
        """The options that were given and mean nothing for this use: a letter of `Option.uses`. To be logged."""
        given = (self._table[key] for key in sorted(self._given.keys() & self._table.keys()))
        return tuple(option.name for option in given if use not in option.uses)

    def look_at_unknown(self) -> tuple[str, ...]:
        """The options that nobody knows, to be logged; a slip of a known name is a problem instead."""
        strange = []
        for key in sorted(self._given.keys() - self._table.keys()):
            if key in SPARKS_OWN or key.startswith("option."):
                continue
            nearest = difflib.get_close_matches(key, self._table, n=1, cutoff=_NEARNESS)
            if nearest:
                self.problem(f"there is no option {key}: did you mean {self._table[nearest[0]].name}?")
            elif key.startswith(CLIENT_PREFIX):
                known = ", ".join(
                    option.name for option in self._table.values() if option.key.startswith(CLIENT_PREFIX)
                )
                self.problem(f"there is no option {key}: those of the client are {known}")
            else:
                strange.append(key)
        return tuple(strange)
