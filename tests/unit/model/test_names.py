from __future__ import annotations

import pytest

from rocketline.errors import LocalProtocolError
from rocketline.model import names


@pytest.mark.parametrize("topic", ["TBW102", "BenchmarkTest", "CHECKPOINT_TOPIC", "rmq_sys_wheel_timer", "rmq_sys_x"])
def test_system_topic_is_known(topic: str) -> None:
    assert names.is_system_topic(topic)


@pytest.mark.parametrize("topic", ["TopicTest", "%RETRY%g", "RMQ_SYS_other", "tbw102"])
def test_topic_of_users_is_no_system_topic(topic: str) -> None:
    assert not names.is_system_topic(topic)


@pytest.mark.parametrize(
    ("topic", "is_sendable"),
    [
        ("SCHEDULE_TOPIC_XXXX", False),
        ("RMQ_SYS_TRANS_HALF_TOPIC", False),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", False),
        ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", False),
        ("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", False),
        ("TRANS_CHECK_MAX_TIME_TOPIC", False),
        ("SELF_TEST_TOPIC", False),
        ("OFFSET_MOVED_EVENT", False),
        ("rmq_sys_wheel_timer", False),
        ("rmq_sys_REVIVE_LOG_c", True),
        ("TBW102", True),
        ("BenchmarkTest", True),
        ("RMQ_SYS_TRACE_TOPIC", True),
        ("TopicTest", True),
    ],
)
def test_topic_is_sendable_unless_only_a_broker_writes_it(topic: str, is_sendable: bool) -> None:
    """The wheel timer's topic is ours: Apache 5.5.0 takes a plain message there, and its timer never moves again."""
    assert names.is_sendable_topic(topic) is is_sendable


def test_group_of_users_is_no_system_group() -> None:
    assert not names.is_system_group("DEFAULT_CONSUMER_2")
    assert not names.is_system_group("g")


def test_derived_names_have_their_prefixes() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert names.is_retry_topic("%RETRY%g")
    assert names.is_dlq_topic("%DLQ%g")


@pytest.mark.parametrize("group", ["CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_x", "DEFAULT_PRODUCER", "CID_ONS-HTTP-PROXY"])
def test_system_group_is_known(group: str) -> None:
    assert names.is_system_group(group)


@pytest.mark.parametrize("topic", ["T", "a|b%c-d_E9", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250])
def test_topic_that_brokers_accept_passes(topic: str) -> None:
    names.check_topic(topic)


@pytest.mark.parametrize(
    "topic",
    ["", " ", "a b", "a+b", "é", "T\n", "t" * 128, "%RETRY%" + "g" * 249, "%DLQ%" + "g" * 251, "%LMQ%" + "q" * 123],
)
def test_topic_that_brokers_refuse_is_named(topic: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"^topic "):
        names.check_topic(topic)


def test_group_has_its_own_length() -> None:
    names.check_group("g" * 120)
    with pytest.raises(LocalProtocolError, match="has 121 characters: at most 120"):
        names.check_group("g" * 121)
    with pytest.raises(LocalProtocolError, match="group 'a b'"):
        names.check_group("a b")
