"""How many messages wait for their time, by the topic where they belong. Java: TimerMetrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rocketline.wire.bodies.stats import TimerMetric, TimerMetrics


class WaitingCounts:
    """Counted as messages are parked and delivered; the file `timermetrics` is written with the checkpoint."""

    def __init__(self, saved: TimerMetrics, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._version = saved.data_version
        self._topics = dict(saved.timing_count)

    def add(self, topic: str, count: int) -> None:
        """So many more, or fewer, wait. A marker may count against a message that is not there, for a while."""
        before, now_ms = self._topics.get(topic), self._now_ms()
        waiting = (before.count if before is not None else 0) + count
        if waiting:
            self._topics[topic] = TimerMetric(waiting, now_ms)
        else:
            self._topics.pop(topic, None)
        self._version = replace(self._version, counter=self._version.counter + 1, timestamp=now_ms)

    def clear(self) -> None:
        """All are counted anew."""
        self._topics.clear()

    @property
    def table(self) -> TimerMetrics:
        """As it is saved and as administrators ask for it."""
        return TimerMetrics(self._version, dict(self._topics))
