"""What a consumer counts of each topic, for administrators to ask. Java: ConsumerStatsManager."""

from __future__ import annotations

from rocketline.clock import Clock
from rocketline.model.counters import HOUR, MINUTE, SPANS, Counter, sample
from rocketline.wire.bodies.running import ConsumeStatus


class TopicStats:
    """The counters of one topic. `value` and `times` of a counter are there to be raised directly.

    Rates count messages, and a time for each request or call; times are milliseconds, with one time for each.
    """

    __slots__ = ("consume_failed", "consume_ms", "consume_ok", "pull_ms", "pulled")

    def __init__(self) -> None:
        self.pulled, self.pull_ms = Counter(), Counter()
        self.consume_ok, self.consume_failed, self.consume_ms = Counter(), Counter(), Counter()

    @property
    def counters(self) -> tuple[Counter, ...]:
        return self.pulled, self.pull_ms, self.consume_ok, self.consume_failed, self.consume_ms


class ConsumerStats:
    """The statistics of one consumer. `tick` is called every 10 s, the first time at once.

        stats = ConsumerStats(clock)
        topic = stats.of("orders")
        topic.pulled.value += 32; topic.pulled.times += 1
        stats.status("orders").pull_tps

    Differs: nothing is logged every minute, hour and day.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_topic: dict[str, TopicStats] = {}
        self._due_s = [clock.monotonic() for _ in SPANS]

    def of(self, topic: str) -> TopicStats:
        """The counters of a topic, which are there from now on."""
        stats = self._by_topic.get(topic)
        if stats is None:
            stats = self._by_topic[topic] = TopicStats()
        return stats

    def forget(self, topic: str) -> None:
        """Nobody subscribes to the topic any more."""
        self._by_topic.pop(topic, None)

    def tick(self) -> None:
        """Take the samples that are due: of a minute every 10 s, of an hour every 10 minutes, of a day every hour."""
        now_s, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        for span in SPANS:
            if now_s >= self._due_s[span.place]:
                self._due_s[span.place] = now_s + span.every_s
                for stats in self._by_topic.values():
                    sample(stats.counters, span, now_ms)

    def status(self, topic: str) -> ConsumeStatus:
        """What the last minute brought; failed messages are of the last hour, and times too if the minute has none."""
        stats = self._by_topic.get(topic)
        if stats is None:
            return ConsumeStatus()
        consume_ms = stats.consume_ms.over(MINUTE)
        if not consume_ms.sum:
            consume_ms = stats.consume_ms.over(HOUR)
        return ConsumeStatus(
            pull_rt=stats.pull_ms.over(MINUTE).avgpt,
            pull_tps=stats.pulled.over(MINUTE).tps,
            consume_rt=consume_ms.avgpt,
            consume_ok_tps=stats.consume_ok.over(MINUTE).tps,
            consume_failed_tps=stats.consume_failed.over(MINUTE).tps,
            consume_failed_msgs=stats.consume_failed.over(HOUR).sum,
        )
