"""Counters that remember enough of their past to tell what the last minute, hour and day brought."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

_Sample: TypeAlias = tuple[int, int, int]
"""The time in milliseconds, and what value and times were at that time."""


class SampleSpan(NamedTuple):
    """How often a counter is sampled for a span, and how many samples are kept; `place` is where a counter has them."""

    place: int
    every_s: int
    samples_max: int


class Sums(NamedTuple):
    """What a span brought: the sum, how much of it in a second, and how much in each time something was added."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


MINUTE, HOUR, DAY = SPANS = SampleSpan(0, 10, 7), SampleSpan(1, 600, 7), SampleSpan(2, 3600, 25)


class Counter:
    """A sum, and how many times something was added to it. Java: StatsItem.

    `value` and `times` are there to be raised directly: that is done for every batch of messages.
    """

    __slots__ = ("samples", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self.samples: tuple[list[_Sample], ...] = tuple([] for _ in SPANS)

    def over(self, span: SampleSpan) -> Sums:
        """What was added between the first and the last sample of a span; nothing, if there are none yet."""
        samples = self.samples[span.place]
        if not samples:
            return Sums()
        (start_ms, first, first_times), (end_ms, last, last_times) = samples[0], samples[-1]
        total, times, elapsed_ms = last - first, last_times - first_times, end_ms - start_ms
        return Sums(
            sum=total,
            tps=total * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0,
            avgpt=total / times if times > 0 else 0.0,
        )

    def is_idle_since(self, moment_ms: int) -> bool:
        """Nothing was added since the last sample taken before that moment; False if there is no such sample."""
        for samples in self.samples:
            for time_ms, value, times in reversed(samples):
                if time_ms <= moment_ms:
                    return (value, times) == (self.value, self.times)
        return False


def sample(counters: Iterable[Counter], span: SampleSpan, now_ms: int) -> None:
    """Note the present state of each. Before its first sample a counter counts as zero, one interval earlier.

    One plain loop, because a broker with ten thousand topics has fifty thousand counters.
    """
    place, before_ms, samples_max = span.place, now_ms - span.every_s * 1000, span.samples_max
    for counter in counters:
        samples = counter.samples[place]
        if not samples:
            samples.append((before_ms, 0, 0))
        samples.append((now_ms, counter.value, counter.times))
        if len(samples) > samples_max:
            del samples[0]
