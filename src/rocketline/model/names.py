"""Names of topics and groups: those that RocketMQ keeps for itself, those derived from others, and what is allowed."""

from __future__ import annotations

import re

from rocketline.errors import LocalProtocolError

AUTO_CREATE_TOPIC = "TBW102"
"""New topics take after this one, if it exists with the inherit permission."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT_TOPIC = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
WHEEL_TIMER_TOPIC = "rmq_sys_wheel_timer"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"

_UNSENDABLE_TOPICS = frozenset({
    SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT_TOPIC,
    # Apache takes a plain message here and its timer never moves again: it waits for a time the message lacks.
    WHEEL_TIMER_TOPIC,
})  # fmt: skip
SYSTEM_TOPICS = _UNSENDABLE_TOPICS - {WHEEL_TIMER_TOPIC} | {
    AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC,
}  # fmt: skip
"""Java: TopicValidator.SYSTEM_TOPIC_SET. A broker adds its own name and its cluster's."""

SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
"""The group of the producer that every consumer has, to send messages back."""
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""Its offsets say how far the revive topic was worked through."""
_PREDEFINED_GROUPS = frozenset({
    "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER",
    "__MONITOR_CONSUMER", INNER_PRODUCER_GROUP, "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL", TRANSACTION_GROUP,
})  # fmt: skip

TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120
_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_sendable_topic(topic: str) -> bool:
    """Clients may send here; to the others only a broker writes."""
    return topic not in _UNSENDABLE_TOPICS


def is_system_group(group: str) -> bool:
    """The group is one of the product's own. Java: MixAll.isPredefinedGroup or isSysConsumerGroup."""
    return group in _PREDEFINED_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def retry_topic(group: str) -> str:
    """Where messages that `group` could not consume wait for the next attempt."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where messages end that `group` failed to consume too often."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    return cluster + REPLY_TOPIC_SUFFIX


def revive_topic(cluster: str) -> str:
    """Where brokers note which messages were popped, and which of them acknowledged."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


def topic_problem(topic: str) -> str | None:
    """Why brokers refuse `topic` as a name; None if they accept it."""
    derived = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return _name_problem(topic, RETRY_TOPIC_LENGTH_MAX if derived else TOPIC_LENGTH_MAX)


def group_problem(group: str) -> str | None:
    """Why brokers refuse `group` as a name; None if they accept it."""
    return _name_problem(group, GROUP_LENGTH_MAX)


def check_topic(topic: str) -> None:
    """Raise `LocalProtocolError` unless brokers accept `topic` as a name. Java: TopicValidator.validateTopic."""
    if problem := topic_problem(topic):
        raise LocalProtocolError(f"topic {topic[:40]!r}: {problem}")


def check_group(group: str) -> None:
    """Raise `LocalProtocolError` unless brokers accept `group` as a name. Java: TopicValidator.validateGroup."""
    if problem := group_problem(group):
        raise LocalProtocolError(f"group {group[:40]!r}: {problem}")


def _name_problem(name: str, length_max: int) -> str | None:
    if len(name) > length_max:
        return f"the name has {len(name)} characters: at most {length_max} are allowed"
    if not _ALLOWED.fullmatch(name):
        return "a name is made of letters, digits and % | _ - only"
    return None
