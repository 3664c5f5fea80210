"""How the sink reaches a cluster and who it is there: namespaces, keys, TLS, time limits, second tries."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rocketline import Admin, Tls
from rocketline.testing import Server
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.wire.codes import RequestCode
from support.clients.clusters import ClientCluster
from support.clients.topic_contents import topic_contents

_BATCH = RequestCode.SEND_BATCH_MESSAGE


def _rows(spark: SparkSession, count: int = 10) -> DataFrame:
    return spark.range(0, count, 1, 1).selectExpr("string(id) AS body")


def _write(frame: DataFrame, address: str, topic: str, options: dict[str, str]) -> None:
    writer = frame.write.format("rocketmq").option("nameServer", address).option("topic", topic)
    writer.options(**options).mode("append").save()


def _bodies(address: str, topic: str, *, expected: int = 0) -> list[bytes]:
    return sorted(message.body for message in topic_contents(address, topic, expected=expected))


@pytest.mark.journey
def test_rows_go_to_the_topic_of_the_namespace(spark: SparkSession, cluster: ClientCluster) -> None:
    name = cluster.topic("name")
    cluster.make_topic(f"team%{name}")
    _write(_rows(spark), cluster.name_server, name, {"rocketmq.namespace": "team"})
    stored = topic_contents(cluster.name_server, f"team%{name}", expected=10)
    assert topic_contents(cluster.name_server, name) == []
    assert len(stored) == 10
    assert {message.properties["INSTANCE_ID"] for message in stored} == {"team"}


@pytest.mark.parametrize(
    "options",
    [
        {"rocketmq.namespaceV2": "team"},
        {"rocketmq.unitName": "unit"},
        {"rocketmq.vipChannelEnabled": "true"},
        {"rocketmq.accessKey": "somebody", "rocketmq.secretKey": "secret", "rocketmq.securityToken": "token"},
        {"rocketmq.connectTimeoutMillis": "5000", "rocketmq.mqClientApiTimeout": "5000"},
    ],
)
def test_settings_that_a_plain_broker_does_not_mind_change_nothing(
    spark: SparkSession, cluster: ClientCluster, options: dict[str, str]
) -> None:
    topic = cluster.topic()
    _write(_rows(spark), cluster.name_server, topic, options)
    assert _bodies(cluster.name_server, topic, expected=10) == [b"%d" % number for number in range(10)]


def test_broker_that_wants_certificates_is_written_to_with_one(spark: SparkSession, tmp_path: Path) -> None:
    authority = trustme.CA()
    trust, server, client = (str(tmp_path / f"{name}.pem") for name in ("trust", "server", "client"))
    authority.cert_pem.write_to_path(trust)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(server)
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(client)
    served = {"tls.server.certPath": server, "tls.server.keyPath": server, "tls.server.trustCertPath": trust}
    strict = served | {"tls.server.mode": "enforcing", "tls.server.need.client.auth": "require"}
    own = Tls(trust_path=trust, cert_path=client, key_path=client)
    options = {
        "rocketmq.useTLS": "true",
        "rocketmq.tls.client.trustCertPath": trust,
        "rocketmq.tls.client.certPath": client,
        "rocketmq.tls.client.keyPath": client,
    }
    with (
        NameServerProcess(tmp_path / "name-server", settings=served) as name_server,
        BrokerProcess(tmp_path / "broker", name_servers=(name_server.address,), settings=strict),
        Admin(name_server.address, tls=own) as admin,
    ):
        admin.topics.create("sealed", queue_count=1)
        _write(_rows(spark), name_server.address, "sealed", options)
        (queue,) = admin.topics.readable_queues("sealed")
        assert admin.offsets.max(queue) == 10
        with pytest.raises(PySparkException, match="sealed"):
            _write(_rows(spark), name_server.address, "sealed", {"retryTimesWhenSendFailed": "0"})


# --- time and second tries, on a broker of ours that fails on demand


def test_send_without_an_answer_is_made_again_after_its_time(spark: SparkSession, server: Server, topic: str) -> None:
    fault = server.faults.ignore(_BATCH)
    _write(_rows(spark), server.address, topic, {"sendTimeoutMs": "200"})
    assert fault.happened == 1
    assert set(_bodies(server.address, topic)) == {b"%d" % number for number in range(10)}


def test_send_is_tried_again_as_often_as_allowed(spark: SparkSession, server: Server, topic: str) -> None:
    server.faults.refuse(_BATCH, 2, "too busy", times=1)
    _write(_rows(spark), server.address, topic, {"retryTimesWhenSendFailed": "1"})
    assert len(_bodies(server.address, topic)) == 10
    fault = server.faults.refuse(_BATCH, 2, "too busy", times=99)
    with pytest.raises(PySparkException, match=r"not sent, 1 attempts .*too busy"):
        _write(_rows(spark), server.address, topic, {"retryTimesWhenSendFailed": "0"})
    server.faults.clear()
    assert fault.happened == 4, "one in each of the four attempts of the task"


def test_no_more_sends_are_on_their_way_than_allowed(spark: SparkSession, server: Server, topic: str) -> None:
    options = {"sendBatchSize": "1", "sendTimeoutMs": "300", "retryTimesWhenSendFailed": "5"}
    server.faults.ignore(_BATCH, nth=1, times=1)
    counted = server.faults.delay(_BATCH, 0.0, nth=2, times=1000)
    _write(_rows(spark, 20), server.address, topic, options | {"maxInFlight": "4"})
    server.faults.clear()
    stored = _bodies(server.address, topic)
    # The first is never answered: up to three others go with it, and with it once more when its time is over.
    assert len(set(stored)) == 20
    assert 20 <= len(stored) <= 23
    assert counted.happened == len(stored)
