"""What a push consumer can be told beyond `ConsumerOptions`. Java: DefaultMQPushConsumer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocketline.client.consumer.hooks import ConsumeHook
from rocketline.client.consumer.pulls import FilterHook
from rocketline.client.options import option
from rocketline.client.rebalance.options import ConsumerKeywords, ConsumerOptions, QueueListener
from rocketline.model.names import TRACE_TOPIC, topic_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions(ConsumerOptions):
    """The options of a push consumer, with Java's defaults but for `close_wait_s`."""

    orderly: bool = False
    """Consume each queue in order, one call at a time; members lock the queues that they read.
    Java: MessageListenerOrderly."""
    consume_threads: int = option(20, low=1, high=1000)
    """How many handlers run at once, as threads or, if they are coroutines, as tasks.
    Java: consumeThreadMin, consumeThreadMax."""
    consume_batch_max: int = option(1, low=1, high=1024)
    """The most messages for one call; above 1, handlers get a sequence of them. Java: consumeMessageBatchMaxSize."""
    consume_timeout_s: float = option(900.0, above=0)
    """A message that a handler has had for longer, and that holds up its queue's offset, is sent back to be delivered
    again. Not for orderly consumers. Java: consumeTimeout."""
    reconsume_times_max: int = option(-1, low=-1)
    """How often a message is delivered again before it goes to the dead letters; -1: 16 times, and without end if
    orderly. Java: maxReconsumeTimes."""
    suspend_s: float = option(1.0, low=0)
    """Orderly: the pause before messages come again, from 0.01 to 30. Java: suspendCurrentQueueTimeMillis."""
    pull_batch_max: int = option(32, low=1, high=1024)
    """The most messages that one pull brings. Java: pullBatchSize."""
    pull_bytes_max: int = option(262_144, low=1)
    """The most bytes, which today's brokers ignore. Java: pullBatchSizeInBytes."""
    pull_interval_s: float = option(0.0, low=0, high=65.535)
    """The pause after a pull that brought messages. Java: pullInterval."""
    pull_count_max: int = option(1000, low=1, high=65_535)
    """With more messages of a queue in memory it is not pulled. Java: pullThresholdForQueue."""
    pull_size_max_mib: int = option(100, low=1, high=1024)
    """The same for the size of their bodies. Java: pullThresholdSizeForQueue."""
    pull_span_max: int = option(2000, low=1, high=65_535)
    """The same for the distance of the first from the last; not if orderly. Java: consumeConcurrentlyMaxSpan."""
    pull_topic_count_max: int = option(-1, low=-1, high=6_553_500)
    """A bound for all queues together, shared out among them; -1: none. Java: pullThresholdForTopic."""
    pull_topic_size_max_mib: int = option(-1, low=-1, high=102_400)
    """The same for the size of bodies. Java: pullThresholdSizeForTopic."""
    pulls_with_subscription: bool = False
    """Send the subscription with each pull. Java: postSubscriptionWhenPull."""
    close_wait_s: float = option(10.0, low=0)
    """How long `close` waits for handlers that run. What they have done by then counts; what they do later does not,
    and the messages are delivered again. Java: awaitTerminationMillisWhenShutdown, which is 0."""
    queue_listener: QueueListener | None = None
    """Told when other queues are this consumer's: awaited or called on the loop, where it must not block; of a blocking
    consumer, called in a thread. The next rebalance waits until it has ended. Java: messageQueueListener."""
    trace: bool = False
    """Write down each call of a handler, in `trace_topic`: see the guide. Java: enableTrace."""
    trace_topic: str = TRACE_TOPIC
    """Where that is written. Brokers make it with the first record, if they make topics at all. Java: traceTopic."""
    consume_hooks: tuple[ConsumeHook, ...] = ()
    """See every call of a handler before and after. Java: ConsumeMessageHook."""
    filter_hooks: tuple[FilterHook, ...] = ()
    """See, and may take out, what pulls bring. Java: FilterMessageHook."""

    def problems(self) -> Iterator[str]:
        yield from ConsumerOptions.problems(self)
        for name in ("pull_topic_count_max", "pull_topic_size_max_mib"):
            if getattr(self, name) == 0:
                yield f"{name}=0: must be at least 1, or -1 for no bound"
        if problem := topic_problem(self.trace_topic):
            yield f"trace_topic {self.trace_topic!r}: {problem}"


class PushKeywords(ConsumerKeywords, total=False):
    """`PushOptions` as keywords of a constructor."""

    orderly: bool
    consume_threads: int
    consume_batch_max: int
    consume_timeout_s: float
    reconsume_times_max: int
    suspend_s: float
    pull_batch_max: int
    pull_bytes_max: int
    pull_interval_s: float
    pull_count_max: int
    pull_size_max_mib: int
    pull_span_max: int
    pull_topic_count_max: int
    pull_topic_size_max_mib: int
    pulls_with_subscription: bool
    close_wait_s: float
    queue_listener: QueueListener | None
    trace: bool
    trace_topic: str
    consume_hooks: tuple[ConsumeHook, ...]
    filter_hooks: tuple[FilterHook, ...]
