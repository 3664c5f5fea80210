"""Consumption without assigned queues. Java: BrokerConfig."""

from __future__ import annotations

from rocketline.model.subscription import MessageRequestMode
from rocketline.record import record
from rocketline.settings import setting


@record(kw_only=True, slots=False)
class PopConfig:
    """How messages are popped, and when those come again that nobody acknowledged."""

    default_message_request_mode: MessageRequestMode = setting(
        MessageRequestMode.PULL,
        key="defaultMessageRequestMode",
        live=True,
        help="Whether groups for which nobody said so are told to pull or to pop, if they ask for their assignment.",
    )
    default_pop_share_queue_num: int = setting(
        -1,
        key="defaultPopShareQueueNum",
        low=-1,
        live=True,
        help="Consumers that pop from a queue besides the one whose it is; -1: all.",
    )

    pop_from_retry_probability: int = setting(
        20,
        key="popFromRetryProbability",
        high=100,
        live=True,
        help="Percentage of pops that look for messages that come again first, and not last.",
    )
    enable_retry_topic_v2: bool = setting(
        False,
        key="enableRetryTopicV2",
        live=True,
        help="Whether popped messages come again in topics whose names join group and topic by + and not by _.",
    )
    retrieve_message_from_pop_retry_topic_v1: bool = setting(
        True,
        key="retrieveMessageFromPopRetryTopicV1",
        live=True,
        help="Whether those joined by _ are read as well then, by half of the pops.",
    )
    pop_response_return_actual_retry_topic: bool = setting(
        False,
        key="popResponseReturnActualRetryTopic",
        live=True,
        help="Whether a message that comes again names the retry topic and not its own.",
    )
    init_pop_offset_by_check_msg_in_mem: bool = setting(
        True,
        key="initPopOffsetByCheckMsgInMem",
        live=True,
        help="Whether a group that is to begin at the end begins at the first message of a queue that is still young.",
    )
    revive_interval: int = setting(
        1000,
        key="reviveInterval",
        low=1,
        live=True,
        help="Milliseconds between two looks for popped messages that were not acknowledged in time.",
    )
    wait_time_mills_in_ack_queue: int = setting(
        3000,
        key="waitTimeMillsInAckQueue",
        live=True,
        help="Milliseconds after which an acknowledgement that was not handled is refused.",
    )
    pop_polling_size: int = setting(
        1024,
        key="popPollingSize",
        live=True,
        help="Pops that may wait for the same topic, group and queue.",
    )
    max_pop_polling_size: int = setting(100_000, key="maxPopPollingSize", live=True, help="Pops that may wait in all.")
    pop_long_polling_force_notify_interval: int = setting(
        800,
        key="popLongPollingForceNotifyInterval",
        live=True,
        help="Messages of a queue after which pops look that wait for others, so that their group's offset moves on.",
    )
    skip_when_ck_re_put_reach_max_times: bool = setting(
        False,
        key="skipWhenCKRePutReachMaxTimes",
        live=True,
        help="Whether messages are left behind that could not come again 17 times, for want of a topic.",
    )
    enable_pop_buffer_merge: bool = setting(
        False,
        key="enablePopBufferMerge",
        live=True,
        help="Whether checkpoints of pops stay in memory for a while: what is acknowledged meanwhile is never stored.",
    )
    pop_ck_stay_buffer_time: int = setting(
        10_000, key="popCkStayBufferTime", live=True, help="Milliseconds that they stay there at most."
    )
    pop_ck_stay_buffer_time_out: int = setting(
        3000,
        key="popCkStayBufferTimeOut",
        live=True,
        help="Milliseconds before their messages come again, when they are stored at the latest.",
    )
    pop_ck_max_buffer_size: int = setting(
        200_000, key="popCkMaxBufferSize", live=True, help="So many stay there; others are stored at once."
    )
    pop_ck_offset_max_queue_size: int = setting(
        20_000, key="popCkOffsetMaxQueueSize", live=True, help="So many of one queue and group."
    )
    enable_pop_batch_ack: bool = setting(
        False,
        key="enablePopBatchAck",
        live=True,
        help="Whether what was acknowledged of one that is stored is noted in one message, and not in one for each.",
    )
