"""Offsets and rates of topics, groups and brokers."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.model.queue import MessageQueue
from rocketline.model.topic_config import DataVersion
from rocketline.record import record


@record
class TopicOffset:
    """What a queue holds. Java: TopicOffset."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@record
class TopicStatsTable:
    """A topic's queues; 4.x has no rate. Java: TopicStatsTable."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0


@record
class OffsetWrapper:
    """How far a group is in a queue; 4.x has no pull offset. Java: OffsetWrapper."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


@record
class ConsumeStats:
    """How far a group is. Java: ConsumeStats."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@record
class ConsumeStatsList:
    """How far all groups of a broker are. Java: ConsumeStatsList."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int = 0


@record
class BrokerStatsItem:
    """A count, its rate and its average time. Java: BrokerStatsItem."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@record
class BrokerStatsData:
    """One statistic over three spans. Java: BrokerStatsData."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


@record
class QueueTimeSpan:
    """The oldest, the newest and the next message of a queue, in time. Java: QueueTimeSpan.

    The three texts repeat the times in the broker's time zone; Java writes them and does not read them.
    """

    message_queue: MessageQueue | None = None
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


@record
class ConsumeTimeSpans:
    """The spans of a topic's queues for a group. Java: QueryConsumeTimeSpanBody."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


@record
class TimerMetric:
    """How many messages of a topic wait for their time. Java: TimerMetrics.Metric."""

    count: int = 0
    time_stamp: int = 0


@record
class TimerMetrics:
    """Waiting messages by topic. Java: TimerMetricsSerializeWrapper."""

    data_version: DataVersion = field(default_factory=DataVersion)
    timing_count: dict[str, TimerMetric] = field(default_factory=dict)


@record
class ColdReads:
    """What a group has read of cold data. Java: AccAndTimeStamp."""

    cold_acc: int = 0
    create_time_mills: int | None = None
    last_cold_read_time_mills: int | None = None


@record
class ColdDataInfo:
    """Limits and use of cold reads. Java: the answer to GET_COLD_DATA_FLOW_CTR_INFO, which has no class."""

    runtime_table: dict[str, ColdReads] = field(default_factory=dict)
    config_table: dict[str, int] = field(default_factory=dict)
    cg_cold_read_threshold: int = 0
    global_cold_read_threshold: int = 0
    global_acc: int = 0


@record
class RocksdbQueueCheck:
    """Whether queues in RocksDB equal those in files. Java: CheckRocksdbCqWriteResult."""

    check_result: str | None = None
    check_status: Int32 = 0
