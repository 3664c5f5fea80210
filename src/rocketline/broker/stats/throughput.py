"""What the store takes in and hands out: totals, rates, and how long it took. Java: StoreStatsService."""

from __future__ import annotations

import datetime as dt
import sys
from collections import deque
from typing import NamedTuple

_RATE_SPANS_S = (10, 60, 600)
_DISTRIBUTION = (
    ("<=0ms", 1), ("0~10ms", 10), ("10~50ms", 50), ("50~100ms", 100), ("100~200ms", 200), ("200~500ms", 500),
    ("500ms~1s", 1000), ("1~2s", 2000), ("2~3s", 3000), ("3~4s", 4000), ("4~5s", 5000), ("5~10s", 10_000),
    ("10s~", sys.maxsize),
)  # fmt: skip
"""What a class of put times is called, and the first millisecond beyond it."""


class Totals(NamedTuple):
    """What happened since the start, at one moment."""

    time_ms: int
    put: int
    """Messages stored."""
    found: int
    """Reads that found messages."""
    missed: int
    """Reads that found none."""
    transferred: int
    """Messages read."""


class Throughput:
    """Totals that are raised directly, and a sample of them for each of the last ten minutes' seconds."""

    def __init__(self) -> None:
        self.put_messages = 0
        self.put_bytes = 0
        self.put_failures = 0
        self.found = 0
        self.missed = 0
        self.transferred = 0
        self.get_ms_max = 0.0
        self._samples: deque[Totals] = deque(maxlen=max(_RATE_SPANS_S) + 1)

    def sample(self, now_ms: int) -> None:
        """To be called every second."""
        self._samples.append(Totals(now_ms, self.put_messages, self.found, self.missed, self.transferred))

    @property
    def put_tps(self) -> str:
        return self._rates("put")

    @property
    def get_found_tps(self) -> str:
        return self._rates("found")

    @property
    def get_missed_tps(self) -> str:
        return self._rates("missed")

    @property
    def get_transferred_tps(self) -> str:
        return self._rates("transferred")

    @property
    def get_total_tps(self) -> str:
        """Unlike the others it has a number, zero, for each span that is not over yet."""
        found, missed = (self._rates_over(kind) for kind in ("found", "missed"))
        return " ".join(str((one or 0.0) + (other or 0.0)) for one, other in zip(found, missed, strict=True))

    def _rates(self, kind: str) -> str:
        """Per second over 10 s, 1 min and 10 min, as Apache writes them: no number for a span that is not over yet."""
        return " ".join("" if rate is None else str(rate) for rate in self._rates_over(kind))

    def _rates_over(self, kind: str) -> list[float | None]:
        return [self._rate(kind, span_s) for span_s in _RATE_SPANS_S]

    def _rate(self, kind: str, span_s: int) -> float | None:
        if len(self._samples) <= span_s:
            return None
        first, last = self._samples[-1 - span_s], self._samples[-1]
        total: int = getattr(last, kind) - getattr(first, kind)
        return total * 1000 / max(1, last.time_ms - first.time_ms)


class PutTimes:
    """How long puts took, in milliseconds: the longest ever, and all those of the last whole minute."""

    def __init__(self) -> None:
        self._longest_ms = 0
        self._minute: dict[int, int] = {}
        self._last_minute: dict[int, int] | None = None

    def add(self, took_ms: int, count: int) -> None:
        minute = self._minute
        minute[took_ms] = minute.get(took_ms, 0) + count

    @property
    def longest_ms(self) -> int:
        return max(self._longest_ms, *self._minute, 0)

    def turn(self) -> None:
        """A minute is over."""
        self._longest_ms = self.longest_ms
        self._last_minute, self._minute = self._minute, {}

    def percentile(self, share: float) -> float:
        """The time that this share of the puts did not exceed; zero if there were none."""
        times = self._last_minute or {}
        left = share * sum(times.values())
        for took_ms in sorted(times):
            left -= times[took_ms]
            if left <= 0:
                return float(took_ms)
        return 0.0

    @property
    def distribution(self) -> str | None:
        """How many puts fell into each class of times, as Apache writes it; None before the first minute is over."""
        if self._last_minute is None:
            return None
        counts, low = [], 0
        for name, high in _DISTRIBUTION:
            counts.append((name, sum(n for took_ms, n in self._last_minute.items() if low <= took_ms < high)))
            low = high
        return "".join(f"[{name}]:{count} " for name, count in counts)


class DayTotals:
    """What a total was when today began and when yesterday did, by the broker's own calendar. Java: BrokerStats."""

    def __init__(self) -> None:
        self.yesterday_morning = 0
        self.today_morning = 0
        self._today: dt.date | None = None

    def turn(self, now_ms: int, total: int) -> None:
        """Note the total if this is the first call of a day, but for the very first."""
        today = dt.datetime.fromtimestamp(now_ms / 1000).astimezone().date()
        if self._today is not None and today != self._today:
            self.yesterday_morning, self.today_morning = self.today_morning, total
        self._today = today
