"""What a broker or an administrator asks of a running consumer."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rocketline.model.integers import Int32
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.record import record


@record
class ProcessQueueInfo:
    """A queue that the consumer pulls from. Java: ProcessQueueInfo."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mib: Int32 = field(default=0, metadata={"java": "cachedMsgSizeInMiB"})
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    dropped: bool = field(default=False, metadata={"java": "droped", "also": ("dropped",)})
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@record
class PopProcessQueueInfo:
    """A queue that the consumer pops from. Java: PopProcessQueueInfo."""

    wait_ack_count: Int32 = 0
    dropped: bool = field(default=False, metadata={"java": "droped", "also": ("dropped",)})
    last_pop_timestamp: int = 0


@record
class ConsumeStatus:
    """Rates and times of one topic. Java: ConsumeStatus."""

    pull_rt: float = field(default=0.0, metadata={"java": "pullRT"})
    pull_tps: float = field(default=0.0, metadata={"java": "pullTPS"})
    consume_rt: float = field(default=0.0, metadata={"java": "consumeRT"})
    consume_ok_tps: float = field(default=0.0, metadata={"java": "consumeOKTPS"})
    consume_failed_tps: float = field(default=0.0, metadata={"java": "consumeFailedTPS"})
    consume_failed_msgs: int = 0


@record
class ConsumerRunningInfo:
    """The state of a consumer, as `mqadmin consumerStatus` shows it. Java: ConsumerRunningInfo."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] = field(default_factory=dict)
    jstack: str | None = None


class CMResult(Enum):
    """What became of a message that was consumed on demand, in Java's order. Java: CMResult."""

    CR_SUCCESS = 0
    CR_LATER = 1
    CR_ROLLBACK = 2
    CR_COMMIT = 3
    CR_THROW_EXCEPTION = 4
    CR_RETURN_NULL = 5


@record
class ConsumeMessageDirectlyResult:
    """The answer to CONSUME_MESSAGE_DIRECTLY. Java: ConsumeMessageDirectlyResult."""

    order: bool = False
    auto_commit: bool = True
    consume_result: CMResult | None = None
    remark: str | None = None
    spent_time_mills: int = 0
