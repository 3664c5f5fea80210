"""What a producer can be told beyond `ClientOptions`. Java: DefaultMQProducer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketline.client.options import ClientKeywords, ClientOptions, option
from rocketline.client.producer.hooks import ForbiddenHook, MessageHook, SendHook
from rocketline.client.producer.queue_choice import LATENCY_LEVELS
from rocketline.errors import LocalProtocolError
from rocketline.model.names import AUTO_CREATE_TOPIC, TRACE_TOPIC, topic_problem
from rocketline.model.sys_flags import CompressionType
from rocketline.wire.codes import ResponseCode
from rocketline.wire.compression import LEVEL_DEFAULT, compress

_MIB: Final = 1024 * 1024

RETRY_CODES: Final = frozenset(
    code.value
    for code in (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """The options of a producer, with Java's defaults."""

    topics: tuple[str, ...] = ()
    """Routes that are asked for at the start already; one that is missing is only logged. Java: topics."""
    create_topic_key: str = AUTO_CREATE_TOPIC
    """The topic after whose pattern brokers make new ones. Java: createTopicKey."""
    default_topic_queue_nums: int = option(4, low=1)
    """The most queues that a new topic gets on each broker. Java: defaultTopicQueueNums."""
    send_timeout_s: float = option(3.0, above=0)
    """For the whole call: all attempts, and what it waits before the first. Java: sendMsgTimeout."""
    attempt_timeout_s: float | None = option(None, above=0)
    """For one attempt of `send` while another may follow. Without it a broker that never answers takes all the time.
    Java: sendMsgMaxTimeoutPerRequest."""
    retries: int = option(2, low=0)
    """Further attempts of `send`, on other brokers if there are any. Java: retryTimesWhenSendFailed."""
    async_retries: int = option(2, low=0)
    """The same for messages sent without waiting. Java: retryTimesWhenSendAsyncFailed."""
    retries_unsafe: bool = False
    """Try another broker when a message is not as safe as it should be. Java: retryAnotherBrokerWhenNotStoreOK."""
    retry_codes: frozenset[int] = RETRY_CODES
    """The refusals after which `send` tries another broker. Java: retryResponseCodes."""
    message_bytes_max: int = option(4 * _MIB, low=1, high=15 * _MIB)
    """The longest body, or batch; a frame has 16 MiB at most. Java: maxMessageSize."""
    compress_over_bytes: int = option(4096, low=0)
    """Bodies of at least this length are compressed. Java: compressMsgBodyOverHowmuch."""
    compression: CompressionType = CompressionType.ZLIB
    """LZ4 and ZSTD need the extra `compression`. Java: compressType."""
    compression_level: int = LEVEL_DEFAULT
    """How hard zlib and ZSTD try; LZ4 knows no levels. Java: compressLevel."""
    avoids_slow_brokers: bool = False
    """Leave brokers alone for a while that failed or were slow. Not for ordered messages. Java: sendLatencyEnable."""
    latency_levels: tuple[tuple[float, float], ...] = LATENCY_LEVELS
    """(latency, seconds left alone) pairs. Java: latencyMax, notAvailableDuration."""
    probes_brokers: bool = False
    """Ask brokers that failed whether they are back. Java: startDetectorEnable."""
    probe_timeout_s: float = option(0.2, above=0)
    """How long such a question may take. Java: detectTimeout."""
    probe_period_s: float = option(2.0, above=0)
    """The pause between two such questions to one broker. Java: detectInterval."""
    async_in_flight_max: int = option(50_000, low=1)
    """Messages sent without waiting that have no receipt yet; one more is refused. Java: the executor's queue."""
    back_pressure: bool = False
    """Messages sent without waiting wait for room, within their time. Java: enableBackpressureForAsyncMode."""
    back_pressure_count: int = option(1024, low=10)
    """The room in messages. Java: backPressureForAsyncSendNum."""
    back_pressure_bytes: int = option(100 * _MIB, low=_MIB)
    """The room in bytes of bodies. Java: backPressureForAsyncSendSize."""
    auto_batch: bool = False
    """Let single messages wait for others to go out together, each with its own receipt: for many callers with small
    messages. Not for calls with a `timeout_s` of their own, nor for delayed, long or transactional messages and
    requests. Java: autoBatch."""
    batch_delay_s: float = option(0.01, above=0, high=30)
    """How long a message waits for others. Java: batchMaxDelayMs."""
    batch_bytes_max: int = option(32 * 1024, low=1024, high=2 * _MIB)
    """So many bytes leave at once. Java: batchMaxBytes."""
    batch_total_bytes_max: int = option(32 * _MIB, low=1024)
    """So many bytes may wait in all; more is sent by itself. Java: totalBatchMaxBytes."""
    busy_wait_s: float = option(0.0004, low=0, high=0.01)
    """How long a blocking `send` looks for its answer before its thread goes to sleep, if no other thread sends; 0: not
    at all. A call to a broker nearby takes two thirds of the time for it, and half again as much of a processor's.
    Where answers take longer than this, it stops looking. Java: none."""
    trace: bool = False
    """Write down what became of each message, in `trace_topic`: see the guide. Java: enableTrace."""
    trace_topic: str = TRACE_TOPIC
    """Where that is written. Brokers make it with the first record, if they make topics at all. Java: traceTopic."""
    trace_recalls: bool = False
    """With `trace`: write down recalls, too. Java: com.rocketmq.recall.default.trace.enable."""
    message_hooks: tuple[MessageHook, ...] = ()
    """See each message once before it is sent, and may send another in its place. Java: none."""
    send_hooks: tuple[SendHook, ...] = ()
    """See every attempt before and after. Java: SendMessageHook."""
    forbidden_hooks: tuple[ForbiddenHook, ...] = ()
    """See every attempt before, and may refuse it. Java: CheckForbiddenHook."""

    def problems(self) -> Iterator[str]:
        yield from ClientOptions.problems(self)
        for topic in (*self.topics, self.create_topic_key, self.trace_topic):
            if problem := topic_problem(topic):
                yield f"topic {topic!r}: {problem}"
        if self.auto_batch and self.batch_bytes_max > self.message_bytes_max:
            yield f"batch_bytes_max={self.batch_bytes_max}: a batch has {self.message_bytes_max} bytes at most"
        if self.auto_batch and self.batch_delay_s >= self.send_timeout_s:
            yield f"batch_delay_s={self.batch_delay_s:g}: a call ends after {self.send_timeout_s:g} s (send_timeout_s)"
        try:
            compress(b"", self.compression, self.compression_level)
        except LocalProtocolError as error:
            yield f"compression_level: {error}"


class ProducerKeywords(ClientKeywords, total=False):
    """`ProducerOptions` as keywords of a constructor."""

    topics: tuple[str, ...]
    create_topic_key: str
    default_topic_queue_nums: int
    send_timeout_s: float
    attempt_timeout_s: float | None
    retries: int
    async_retries: int
    retries_unsafe: bool
    retry_codes: frozenset[int]
    message_bytes_max: int
    compress_over_bytes: int
    compression: CompressionType
    compression_level: int
    avoids_slow_brokers: bool
    latency_levels: tuple[tuple[float, float], ...]
    probes_brokers: bool
    probe_timeout_s: float
    probe_period_s: float
    async_in_flight_max: int
    back_pressure: bool
    back_pressure_count: int
    back_pressure_bytes: int
    auto_batch: bool
    batch_delay_s: float
    batch_bytes_max: int
    batch_total_bytes_max: int
    busy_wait_s: float
    trace: bool
    trace_topic: str
    trace_recalls: bool
    message_hooks: tuple[MessageHook, ...]
    send_hooks: tuple[SendHook, ...]
    forbidden_hooks: tuple[ForbiddenHook, ...]
