"""How many messages wait for their time, by the topic where they belong. Java: TimerMetrics."""

from __future__ import annotations

from collections.abc import Callable

from rocketline.model.topic_config import DataVersion
from rocketline.wire.bodies.stats import TimerMetric, TimerMetrics


class WaitingCounts:
    """Counted as messages are parked and delivered; the file `timermetrics` is written with the checkpoint."""

    def __init__(self, saved: TimerMetrics, now_ms: Callable[[], int]) -> None:
        self._now_ms, self._version = now_ms, saved.data_version
        self._changes, self._changed_ms = 0, saved.data_version.timestamp
        self._waiting = {topic: (metric.count, metric.time_stamp) for topic, metric in saved.timing_count.items()}

    def add(self, topic: str, count: int) -> None:
        """So many more, or fewer, wait. A marker may count against a message that is not there, for a while."""
        self._changed_ms = now_ms = self._now_ms()
        self._changes += 1
        waiting = self._waiting.get(topic, (0, 0))[0] + count
        if waiting:
            self._waiting[topic] = waiting, now_ms
        else:
            self._waiting.pop(topic, None)

    def clear(self) -> None:
        """All are counted anew."""
        self._waiting.clear()

    @property
    def total(self) -> int:
        """Of all topics."""
        return sum(count for count, _ in self._waiting.values())

    @property
    def table(self) -> TimerMetrics:
        """As it is saved and as administrators ask for it."""
        before = self._version
        version = DataVersion(before.counter + self._changes, before.state_version, self._changed_ms)
        return TimerMetrics(version, {topic: TimerMetric(*metric) for topic, metric in self._waiting.items()})
