from __future__ import annotations

from rocketline.model import property_names

_NAMES = {
    value for name, value in vars(property_names).items() if name.isupper() and isinstance(value, str)
} - {property_names.TRANSIENT_PREFIX}  # fmt: skip

_OPEN_TO_USERS = {
    "__SHARDINGKEY", "__transactionId__", "TRANSACTION_CHECK_TIMES", "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "INNER_NUM", "INNER_BASE", "INNER_MULTI_DISPATCH", "PROPERTY_FORWARD_QUEUE_ID", "REDIRECT", "TRACE_CONTEXT",
    "TRANS_OFFSET", "TIMER_ROLL_LABEL", "__RMQ.TRANSIENT.TOPIC_SYS_FLAG", "__RMQ.TRANSIENT.GROUP_SYS_FLAG",
}  # fmt: skip


def test_every_reserved_name_is_either_refused_or_open() -> None:
    """The two sets are those of Java 5.5.0, read from its class."""
    assert _NAMES - property_names.REFUSED_FOR_USERS == _OPEN_TO_USERS
    assert len(property_names.REFUSED_FOR_USERS) == 54
    assert property_names.REFUSED_FOR_USERS < _NAMES
