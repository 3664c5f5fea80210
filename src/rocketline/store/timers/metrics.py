"""How many messages wait for their time, by the topic where they belong. Java: TimerMetrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketline.model.topic_config import DataVersion
from rocketline.wire.bodies.stats import TimerMetric, TimerMetrics

_NONE: Final = TimerMetric()


class WaitingCounts:
    """Counted as messages are parked and delivered; the file `timermetrics` is written with the checkpoint."""

    def __init__(self, saved: TimerMetrics, now_ms: Callable[[], int]) -> None:
        self._now_ms, self._version = now_ms, saved.data_version
        self._changes, self._changed_ms = 0, saved.data_version.timestamp
        self._waiting = dict(saved.timing_count)
        self.total = sum(metric.count for metric in self._waiting.values())
        """Of all topics."""

    def __len__(self) -> int:
        """How many topics there are."""
        return len(self._waiting)

    def add(self, topic: str, count: int) -> None:
        """So many more, or fewer, wait. A marker may count against a message that is not there, for a while."""
        self._changed_ms = now_ms = self._now_ms()
        self._changes += 1
        self.total += count
        waiting = self._waiting.get(topic, _NONE).count + count
        if waiting:
            self._waiting[topic] = TimerMetric(waiting, now_ms)
        else:
            self._waiting.pop(topic, None)

    def clear(self) -> None:
        """All are counted anew."""
        self._waiting.clear()
        self.total = 0

    @property
    def table(self) -> TimerMetrics:
        """As it is saved and as administrators ask for it."""
        before = self._version
        version = DataVersion(before.counter + self._changes, before.state_version, self._changed_ms)
        return TimerMetrics(version, dict(self._waiting))
