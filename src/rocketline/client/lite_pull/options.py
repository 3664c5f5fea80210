"""What a lite pull consumer can be told beyond `ConsumerOptions`. Java: DefaultLitePullConsumer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketline.client.consumer.hooks import ConsumeHook
from rocketline.client.consumer.pulls import FilterHook
from rocketline.client.lite_pull.assigned_queues import CacheLimits
from rocketline.client.options import option
from rocketline.client.rebalance.options import ConsumerKeywords, ConsumerOptions, QueueListener
from rocketline.model.subscription import ConsumeFromWhere

_STARTS: Final = (
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullOptions(ConsumerOptions):
    """The options of a lite pull consumer, with Java's defaults."""

    stream_requests: bool = True
    """Mark the client's id and all requests as a stream's. Java: enableStreamRequestType."""
    auto_commit: bool = True
    """`poll` commits, now and then, what earlier calls returned. Java: autoCommit."""
    auto_commit_period_s: float = option(5.0, low=1.0)
    """How often. Java: autoCommitIntervalMillis."""
    poll_timeout_s: float = option(5.0, low=0)
    """How long `poll` waits unless it is told. Java: pollTimeoutMillis."""
    pull_batch_max: int = option(10, low=1, high=1024)
    """The most messages that one pull brings, and one `poll` returns. Java: pullBatchSize."""
    pull_all_count_max: int = option(10_000, low=1)
    """With more messages of all queues in memory none is pulled. Java: pullThresholdForAll."""
    pull_count_max: int = option(1000, low=1, high=65_535)
    """With more messages of a queue in memory it is not pulled. Java: pullThresholdForQueue."""
    pull_size_max_mib: int = option(100, low=1, high=1024)
    """The same for the size of their bodies. Java: pullThresholdSizeForQueue."""
    pull_span_max: int = option(2000, low=1, high=65_535)
    """The same for the distance of the first from the last. Java: consumeMaxSpan."""
    suspend_s: float = option(20.0, low=0)
    """How long a broker may hold a pull back at the end of a queue. Java: brokerSuspendMaxTimeMillis."""
    suspend_timeout_s: float = option(30.0, above=0)
    """How long such a pull may take. Java: consumerTimeoutMillisWhenSuspend."""
    topic_check_period_s: float = option(30.0, above=0)
    """How often topics that are watched are looked at. Java: topicMetadataCheckIntervalMillis."""
    queue_listener: QueueListener | None = None
    """Told when other queues are this consumer's: awaited or called on the loop, where it must not block; of a blocking
    consumer, called in a thread. The next rebalance waits until it has ended. Java: messageQueueListener."""
    consume_hooks: tuple[ConsumeHook, ...] = ()
    """See what `poll` returns. Java: ConsumeMessageHook."""
    filter_hooks: tuple[FilterHook, ...] = ()
    """See, and may take out, what pulls bring. Java: FilterMessageHook."""

    def problems(self) -> Iterator[str]:
        yield from ConsumerOptions.problems(self)
        if self.suspend_timeout_s < self.suspend_s:
            yield f"suspend_timeout_s={self.suspend_timeout_s}: must be at least suspend_s, which is {self.suspend_s}"
        if self.consume_from not in _STARTS:
            yield f"consume_from: {', '.join(start.name for start in _STARTS)} are wanted"

    def limits(self) -> CacheLimits:
        return CacheLimits(self.pull_all_count_max, self.pull_count_max, self.pull_size_max_mib, self.pull_span_max)


class LitePullKeywords(ConsumerKeywords, total=False):
    """`LitePullOptions` as keywords of a constructor."""

    auto_commit: bool
    auto_commit_period_s: float
    poll_timeout_s: float
    pull_batch_max: int
    pull_all_count_max: int
    pull_count_max: int
    pull_size_max_mib: int
    pull_span_max: int
    suspend_s: float
    suspend_timeout_s: float
    topic_check_period_s: float
    queue_listener: QueueListener | None
    consume_hooks: tuple[ConsumeHook, ...]
    filter_hooks: tuple[FilterHook, ...]
