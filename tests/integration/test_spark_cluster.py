"""What the driver learns of a real cluster before it plans."""

from __future__ import annotations

from typing import Any

import pytest

from rocketline.errors import BrokerNotFoundError, ConfigError
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.cluster import RocketMQCluster
from rocketline.spark.cluster.view import QueueExtent
from rocketline.spark.options.source_and_sink import SourceOptions, source_options
from rocketline.testing.pytest_plugin import RocketMQ
from rocketline.wire.codes import RequestCode, ResponseCode


def options(address: str, **given: Any) -> SourceOptions:
    return source_options({"nameServer": address, "fetchOffset.numRetries": "0", **given}, is_stream=True)


def test_a_broker_that_is_not_registered_is_waited_for_or_left_out(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    here, away = MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-z", 0)
    with (
        RocketMQCluster(options(rocketmq.address, subscribe=topic)) as cluster,
        pytest.raises(BrokerNotFoundError, match=r"is it down\? .*failOnDataLoss=false"),
    ):
        cluster.look({here, away})
    with RocketMQCluster(options(rocketmq.address, subscribe=topic, failOnDataLoss="false")) as cluster:
        look = cluster.look({here, away})
        assert (look.bounds, look.gone) == ({here: QueueExtent(0, 0)}, frozenset({away}))


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern", "assign"])
def test_a_broker_that_came_back_between_two_questions_has_its_queues(rocketmq: RocketMQ, option: str) -> None:
    topic = rocketmq.topic(queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    wanted = f'{{"{topic}": {{"broker-a": [0]}}}}' if option == "assign" else topic
    fault = rocketmq.faults.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST)
    with RocketMQCluster(options(rocketmq.address, **{option: wanted})) as cluster:
        look = cluster.look({queue})
    assert fault.happened == 1
    assert (look.bounds, look.gone) == ({queue: QueueExtent(0, 0)}, frozenset())


def test_a_queue_to_begin_with_must_be_there_whatever_is_asked_for(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    for broker, error in (("broker-a", ConfigError), ("broker-z", BrokerNotFoundError)):
        assigned = f'{{"{topic}": {{"{broker}": [5]}}}}'
        with (
            RocketMQCluster(options(rocketmq.address, assign=assigned, failOnDataLoss="false")) as cluster,
            pytest.raises(error, match="queue 5"),
        ):
            cluster.look()
