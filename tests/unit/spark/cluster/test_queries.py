from __future__ import annotations

import pytest

from rocketline.model.queue import MessageQueue
from rocketline.model.route import BrokerData
from rocketline.spark.cluster.queries import is_meant, matches, users_topics
from rocketline.spark.options.source_and_sink import source_options
from rocketline.wire.bodies.routes import ClusterInfo

INFO = ClusterInfo(
    {"broker-a": BrokerData("DefaultCluster", "broker-a", {0: "127.0.0.1:1"})}, {"DefaultCluster": ["broker-a"]}
)


def test_topics_of_the_product_are_no_users_topics() -> None:
    names = [
        "TBW102", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_wheel_timer", "SELF_TEST_TOPIC",
        "%DLQ%billing", "orders",
    ]  # fmt: skip
    assert users_topics(names, INFO) == ["%DLQ%billing", "orders"]


def test_in_a_namespace_there_are_its_topics_only() -> None:
    names = ["orders", "team%orders", "other%orders", "%RETRY%team%billing"]
    assert users_topics(names, INFO, "team") == ["%RETRY%billing", "orders"]


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("order.*", "orders", True),
        ("order", "orders", False),
        (".*", "%RETRY%billing", False),
        ("%(RETRY|DLQ)%.*", "%RETRY%billing", True),
    ],
)
def test_patterns_match_whole_names(pattern: str, topic: str, expected: bool) -> None:
    assert matches(pattern, topic) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": "orders,bills"}, True),
        ({"subscribe": "bills"}, False),
        ({"subscribePattern": "o.*"}, True),
        ({"assign": '{"orders": {"broker-a": [1]}}'}, True),
        ({"assign": '{"orders": {"broker-a": [0]}}'}, False),
    ],
)
def test_a_queue_is_meant_or_not(given: dict[str, str], expected: bool) -> None:
    options = source_options({"nameServer": "a:1", **given}, is_stream=True)
    assert is_meant(options, MessageQueue("orders", "broker-a", 1)) == expected
