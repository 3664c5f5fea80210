"""Must hold 3 of the broker: `mqadmin` shows the same of our broker as of Apache's.

Each test runs one sequence of commands against both. Beside the comparison it looks at one fact of ours, so that two
brokers which fail alike do not pass.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketline.testing.apache import ClientJvm, Release
from rocketline.testing.clients import ClientProgram, java_client
from support.brokers.questions import BrokerQuestions
from support.brokers.twins import ONLINE, QUEUES, TOPIC, Twin, Twins, numbered, twins

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120, func_only=True)]

COUNTED = "Counted"
"""A topic with one message of the last minute."""


@pytest.fixture(scope="module")
def pair(release: Release, clients: ClientJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with twins(release, clients, tmp_path_factory.mktemp("twins")) as pair:
        yield pair


def test_nobody_is_online(pair: Twins) -> None:
    shown = pair.alike(
        "consumerConnection -g readers",
        "consumerConnection -g readers -b {broker}",
        "consumerStatus -g readers",
        "producerConnection -g nobody -t Orders",
        "producer -b {broker}",
    )
    assert shown[0].thrown[-1] == "MQBrokerException 206"


def test_cluster_and_topic_lists(pair: Twins) -> None:
    shown = pair.alike(
        "clusterList",
        "clusterList -m",
        "topicList",
        "topicList -c",
        "topicClusterList -t Orders",
        "allocateMQ -t Orders -i a,b",
    )
    assert {"SCHEDULE_TOPIC_XXXX", "TBW102", TOPIC} < set(shown[2].printed)


def test_topics_are_created_changed_and_deleted(pair: Twins) -> None:
    shown = pair.alike(
        "updateTopic -b {broker} -t New -r 3 -w 2 -p 6",
        "updateTopic -c DefaultCluster -t Other -r 8 -w 8 -p 6 -o true",
        "updateTopic -b {broker} -t Typed -a +message.type=FIFO",
        "topicRoute -t New",
        "topicStatus -t New",
        "updateTopicPerm -b {broker} -t New -p 4",
        "updateTopicPerm -b {broker} -t New -p 4",
        "topicRoute -t New",
        "updateOrderConf -t Other -m get",
        "deleteTopic -c DefaultCluster -t New",
        "deleteTopic -c DefaultCluster -t New",
        "topicRoute -t New",
    )
    assert '"readQueueNums":3,' in shown[3].printed
    assert shown[-1].thrown[-1] == "MQClientException 17"


def test_topics_with_bad_names_or_attributes_are_refused(pair: Twins) -> None:
    shown = pair.alike(
        "updateTopic -b {broker} -t Bad -a +nothing=1",
        "updateTopic -b {broker} -t TBW102",
        "updateTopic -b {broker} -t 'bad topic'",
    )
    assert [one.thrown[-1] for one in shown] == ["MQClientException 1"] + ["MQClientException 29"] * 2


def test_groups_are_created_shown_and_deleted(pair: Twins) -> None:
    shown = pair.alike(
        "updateSubGroup -b {broker} -g first",
        "updateSubGroup -c DefaultCluster -g second -s false -m true -d true -q 2 -r 5 -i 0 -w 1 -a false",
        "updateSubGroup -b {broker} -g 'bad group'",
        "getConsumerConfig -g first",
        "getConsumerConfig -g second",
        "getConsumerConfig -g nobody",
        "setConsumeMode -b {broker} -t Orders -g readers -m POP -q -1",
        "setConsumeMode -c DefaultCluster -t Orders -g readers -m POP",
        "setConsumeMode -b {broker} -t Orders -g readers -m PULL",
        "setConsumeMode -b {broker} -t Never -g readers -m PULL",
        "deleteSubGroup -b {broker} -g second",
        "deleteSubGroup -c DefaultCluster -g second -r true",
        "getConsumerConfig -g second",
    )
    assert shown[2].thrown[-1] == "MQClientException 29"
    assert "retryMaxTimes = 5" in shown[4].printed


def test_offsets_are_shown_reset_and_cloned(pair: Twins) -> None:
    shown = pair.alike(
        "topicStatus -t Orders",
        "consumerProgress",
        "consumerProgress -g readers",
        "brokerConsumeStats -b {broker}",
        "resetOffsetByTime -g readers -t Orders -s 0",
        "consumerProgress -g readers -t Orders",
        "resetOffsetByTime -g readers -t Orders -s now",
        "consumerProgress -g readers",
        "resetOffsetByTime -g readers -t Orders -s -1 -b {broker} -q 1 -o 2",
        "consumerProgress -g readers",
        "skipAccumulatedMessage -g readers -t Orders",
        "updateSubGroup -b {broker} -g copy",
        "cloneGroupOffset -s readers -d copy -t Orders",
        "brokerConsumeStats -b {broker}",
        "consumerProgress -g nobody",
    )
    assert "Consume Diff Total: 10" in "\n".join(shown[2].printed)
    assert shown[-1].thrown[-1] == "MQClientException 17"


def test_messages_are_found_by_id_key_offset_and_queue(pair: Twins) -> None:
    shown = pair.alike(
        "queryMsgById -t Orders -i {host}0000000000000000",
        "queryMsgById -t Orders -i {host}0000000000000001",
        "queryMsgByKey -t Orders -k k3",
        "queryMsgByKey -t Orders -k all",
        "queryMsgByKey -t Orders -k nothing",
        "queryMsgByUniqueKey -t Orders -i 00000000000000000000000000000003",
        "queryMsgByUniqueKey -t Orders -i 000000000000000000000000000000FF",
        "queryMsgByOffset -t Orders -b broker-a -i 1 -o 2",
        "queryMsgByOffset -t Orders -b broker-a -i 1 -o 99",
        "queryCq -t Orders -q 1 -i 0 -c 3",
        "queryCq -t Orders -q 1 -i 0 -c 3 -g readers",
        "queryCq -t Orders -q 9 -i 0 -c 3",
        "queryCq -t Orders -q 1 -i 77 -c 3",
    )
    assert len(shown[3].printed) == 21  # a line of names, then every message
    assert [shown[i].thrown[-1] for i in (1, 4, 6)] == ["MQClientException 208"] * 3


def test_messages_are_printed_and_consumed(pair: Twins) -> None:
    shown = pair.alike(
        "printMsg -t Orders",
        "printMsg -t Orders -s odd -d true",
        "printMsgByQueue -t Orders -a broker-a -i 2 -p true -f true",
        "consumeMessage -t Orders -g others -b broker-a -i 0 -o 0 -c 3",
        "consumeMessage -t Orders -c 2",
    )
    assert sum("body" in line.lower() for line in shown[1].printed) == 10


def test_broker_config_is_shown_updated_and_protected(pair: Twins) -> None:
    shown = pair.alike(
        "getBrokerConfig -b {broker}",
        "updateBrokerConfig -b {broker} -k maxMessageSize -v 65536",
        "updateBrokerConfig -b {broker} -k brokerConfigPath -v elsewhere",
        "updateBrokerConfig -b {broker} -k noSuchKey -v 1",
        "getBrokerConfig -b {broker}",
        "updateBrokerConfig -c DefaultCluster -k maxMessageSize -v 4194304",
    )
    assert "maxMessageSize = 65536" in shown[4].printed
    assert shown[2].thrown[-1] == "MQBrokerException 16"


def _have_one_counted(twin: Twin) -> None:
    """Return once the message is in a sample: a broker takes one every 10 s."""
    with BrokerQuestions(twin.broker.address) as broker:
        broker.create_topic(COUNTED)
        broker.send(numbered(COUNTED, 0), 0)
        twin.broker.wait_until(lambda: broker.counted("TOPIC_PUT_NUMS", COUNTED) > 0, "counting")


def test_runtime_values_have_the_same_names(pair: Twins) -> None:
    for twin in (pair.ours, pair.apache):
        _have_one_counted(twin)
    # `-a` leaves out what brought nothing in the last minute. Of most topics that changes at any time, and not on both
    # brokers at once; what has just been counted stays for a minute, and nobody ever sends to TBW102.
    shown = pair.alike(
        "statsAll -a -t Counted",
        "statsAll -a -t TBW102",
        "brokerStatus -b {broker}",
        "statsAll",
        "statsAll -t Orders",
    )
    assert "Counted 0 RATE SUM NO_CONSUMER" in shown[0].printed
    assert not any(line.startswith("TBW102") for line in shown[1].printed)
    assert "brokerVersionDesc : V5_5_0" in shown[2].printed


def test_clean_ups_are_done(pair: Twins) -> None:
    shown = pair.alike(
        "cleanExpiredCQ -b {broker}", "cleanUnusedTopic -b {broker}", "deleteExpiredCommitLog -b {broker}"
    )
    assert shown[0].printed == ["success"]


class Online:
    """A Java consumer at one of the two, which ends when it got the messages, one of them by itself, and all again."""

    MESSAGES = 4

    def __init__(self, twin: Twin, client: ClientProgram, threads: ThreadPoolExecutor) -> None:
        self._broker = twin.broker.address
        with BrokerQuestions(self._broker) as broker:
            broker.create_topic(ONLINE)
            broker.create_group(ONLINE, retry_max_times=1)
            for number in range(self.MESSAGES):
                broker.send(numbered(ONLINE, number), number)
        count = 2 * self.MESSAGES + 1
        self.deliveries = threads.submit(client.consume, twin.name_server.address, ONLINE, ONLINE, count, timeout_s=150)

    def client_id(self) -> str:
        """Its id, once it has consumed everything and said so."""
        with BrokerQuestions(self._broker) as broker:
            while sum(broker.committed(ONLINE, ONLINE, queue_id) for queue_id in range(QUEUES)) < self.MESSAGES:
                time.sleep(0.1)
            (found,) = broker.client_ids(ONLINE)
        return found


@pytest.mark.timeout(240, func_only=True)  # longer than its consumers, which end by themselves and tell what they got
def test_online_consumer_is_shown_called_and_reset(pair: Twins, release: Release, tmp_path: Path) -> None:
    client = java_client(release, tmp_path)
    with ThreadPoolExecutor() as threads:
        consumers = [Online(twin, client, threads) for twin in (pair.ours, pair.apache)]
        shown = pair.alike(
            "consumerConnection -g Online",
            "consumerConnection -g Online -b {broker}",
            "consumerStatus -g Online",
            "consumerStatus -g Online -i {client}",
            "consumerStatus -g Online -i nobody",
            "producer -b {broker}",
            "queryMsgByUniqueKey -t Online -i 00000000000000000000000000000002 -g Online -d {client}",
            "resetOffsetByTime -g Online -t Online -s 0",
            clients=(consumers[0].client_id(), consumers[1].client_id()),
        )
        ours, apache = (Counter(delivery.number for delivery in consumer.deliveries.result()) for consumer in consumers)
    assert ours == apache == Counter({0: 2, 1: 2, 2: 3, 3: 2})
    assert "%RETRY%Online *" in shown[0].printed
