"""How many messages wait for their time, by the topic where they belong. Java: TimerMetrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from rocketline.wire.bodies.stats import TimerMetric, TimerMetrics


class WaitingCounts:
    """Counted as messages are parked and delivered; the file `timermetrics` is written with the checkpoint."""

    def __init__(self, saved: TimerMetrics, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._version = saved.data_version
        self._topics = dict(saved.timing_count)

    def add(self, topic: str, count: int) -> None:
        before = self._topics.get(topic)
        if before is None and count < 0:  # of a topic that was deleted meanwhile
            return
        self._topics[topic] = TimerMetric((before.count if before is not None else 0) + count, self._now_ms())
        self._version = replace(self._version, counter=self._version.counter + 1, timestamp=self._now_ms())

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        self._topics.pop(topic, None)

    def clear(self) -> None:
        """All are counted anew."""
        self._topics.clear()

    @property
    def by_topic(self) -> Mapping[str, TimerMetric]:
        return self._topics

    @property
    def table(self) -> TimerMetrics:
        """As it is saved and as administrators ask for it."""
        return TimerMetrics(self._version, dict(self._topics))
