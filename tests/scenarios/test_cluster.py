"""That the two clusters are alike: what every scenario takes for granted."""

from __future__ import annotations

from functools import partial

from rocketline.model.message import Message
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import DELAYS_S, ClientCluster, wait_until


def test_topics_of_two_masters_take_messages_and_keep_apart(cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=2, brokers=2)
    for address in cluster.brokers:
        with BrokerQuestions(address) as broker:
            broker.send(Message(topic, b"x"), 1)
            wait_until(partial(broker.queue, topic, 1), 20)  # Apache's puts it there a moment after its answer
            assert [message.body for message in broker.queue(topic, 1)] == [b"x"]
            assert topic in broker.topics()
    assert cluster.topic() != topic


def test_delay_levels_are_short(cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1)
    with BrokerQuestions(cluster.brokers[0]) as broker:
        broker.send(Message(topic, b"x", delay_level=3), 0)
        wait_until(partial(broker.queue, topic, 0), DELAYS_S[2] + 20)


def test_groups_have_the_retries_that_they_were_given(cluster: ClientCluster) -> None:
    group = cluster.group(retry_max_times=3)
    for address in cluster.brokers:
        with BrokerQuestions(address) as broker:
            assert broker.group(group).retry_max_times == 3
