"""How the source reaches a cluster and who it is there: namespaces, keys, TLS, timeouts, second tries."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketline import Message, Producer, Tls
from rocketline.admin.sync import Admin
from rocketline.settings.properties import format_properties
from rocketline.testing import Server
from rocketline.testing.apache import ApacheBroker, fetch
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, running
from rocketline.wire.codes import RequestCode
from support.clients.clusters import ClientCluster
from support.spark.clusters import source_cluster
from support.spark.reading import available_now, fill, places, read, span, stream, told


@pytest.mark.journey
def test_names_in_a_namespace_are_those_of_its_users(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    name = cluster.topic("name")
    cluster.make_topic(f"readers%{name}", queues=1)
    fill(cluster, name, 2, namespace="readers")
    team = {"rocketmq.namespace": "readers"}
    frame = read(spark, cluster, team, subscribe=name)
    assert {row.topic for row in frame.select("topic").collect()} == {name}
    assert places(frame) == span(0, 0, 2)
    assert read(spark, cluster, team, subscribePattern=f"{name}.*").count() == 2
    assert read(spark, cluster, subscribe=name).count() == 0
    assert available_now(stream(spark, cluster, team, subscribe=name, startingOffsets="earliest"), tmp_path) == [
        span(0, 0, 2)
    ]
    (row,) = read(spark, cluster, team, table="offsets").collect()
    assert (row.topic, row.maxOffset) == (name, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"rocketmq.namespaceV2": "team"},
        {"rocketmq.unitName": "unit"},
        {"rocketmq.vipChannelEnabled": "true"},
        {"rocketmq.accessKey": "somebody", "rocketmq.secretKey": "secret", "rocketmq.securityToken": "token"},
    ],
)
def test_settings_that_a_plain_broker_does_not_mind_change_nothing(
    spark: SparkSession, cluster: ClientCluster, options: dict[str, str]
) -> None:
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 2)
    assert places(read(spark, cluster, options, subscribe=topic)) == span(0, 0, 2)


# --- access control, which only Apache's brokers have


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[ClientCluster]:
    provider = "org.apache.rocketmq.auth.authentication.provider"
    settings = {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{provider}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{provider}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": '{"username":"admin","password":"12345678"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"admin","secretKey":"12345678"}',
    }
    with source_cluster("apache", tmp_path, settings=settings) as cluster:
        yield cluster


@pytest.mark.interop
def test_keys_open_a_guarded_broker(spark: SparkSession, guarded: ClientCluster, tmp_path: Path) -> None:
    keys = {"rocketmq.accessKey": "admin", "rocketmq.secretKey": "12345678"}
    from rocketline.client.options import Credentials

    with Admin(guarded.name_server, credentials=Credentials("admin", "12345678")) as admin:
        admin.topics.create("guarded", queue_count=1)
    with Producer(guarded.name_server, group="keys", credentials=Credentials("admin", "12345678")) as producer:
        producer.send(Message("guarded", b"x"))
    assert places(read(spark, guarded, keys, subscribe="guarded")) == [(0, 0)]
    frame = stream(spark, guarded, keys, subscribe="guarded", startingOffsets="earliest")
    assert available_now(frame, tmp_path / "checkpoint") == [[(0, 0)]]
    for wrong in ({}, keys | {"rocketmq.secretKey": "87654321"}):
        with pytest.raises(PySparkException) as raised:
            read(spark, guarded, {"fetchOffset.numRetries": "0", **wrong}, subscribe="guarded").collect()
        assert "GET_MIN_OFFSET at " in told(raised.value)


# --- TLS


class Certificates:
    """The files of an authority, of servers at 127.0.0.1, and of a client whose key has a password."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.trust, self.chain, self.key = (str(folder / name) for name in ("trust.pem", "chain.pem", "key.pem"))
        self.client_chain, self.client_key = str(folder / "client.pem"), str(folder / "client.key")
        authority.cert_pem.write_to_path(self.trust)
        self._write(authority.issue_cert("127.0.0.1"), self.chain, self.key, None)
        self._write(authority.issue_cert("client"), self.client_chain, self.client_key, b"open")

    def _write(self, issued: trustme.LeafCert, chain: str, key: str, password: bytes | None) -> None:
        Path(chain).write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        loaded = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        pkcs8 = loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        Path(key).write_bytes(pkcs8)  # Netty reads keys in this form only

    @property
    def server(self) -> dict[str, str]:
        return {
            "tls.server.certPath": self.chain,
            "tls.server.keyPath": self.key,
            "tls.server.trustCertPath": self.trust,
        }


@pytest.fixture
def secured(cluster: ClientCluster, tmp_path: Path) -> Iterator[tuple[str, Certificates]]:
    """A name server, ours, that speaks TLS and plain text, and a broker that wants a certificate of its clients."""
    files = Certificates(tmp_path)
    strict = files.server | {
        "tls.server.mode": "enforcing", "tls.server.need.client.auth": "require", "tls.server.authClient": "true",
    }  # fmt: skip
    name_server = NameServerProcess(tmp_path / "name-server", settings=files.server)
    with name_server:
        name_server.wait_until_ready()
        broker: ServerProcess
        if cluster.whose == "ours":
            broker = BrokerProcess(tmp_path / "broker", name_servers=(name_server.address,), settings=strict)
        else:
            for_java = tmp_path / "tls.properties"
            for_java.write_text(format_properties(strict | {"tls.test.mode.enable": "false"}), "ascii")
            properties = {"tls.server.mode": "enforcing", "tls.config.file": str(for_java)}
            broker = ApacheBroker(
                fetch(), tmp_path / "broker", name_servers=(name_server.address,), properties=properties,
                jvm=("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            )  # fmt: skip
        with running(broker):
            yield name_server.address, files


@pytest.mark.journey
def test_a_broker_that_wants_certificates_is_read_with_one(
    spark: SparkSession, secured: tuple[str, Certificates], cluster: ClientCluster
) -> None:
    address, files = secured
    tls = Tls(trust_path=files.trust, cert_path=files.client_chain, key_path=files.client_key, key_password="open")
    with Admin(address, tls=tls) as admin:
        admin.topics.create("sealed", queue_count=1)
    with Producer(address, group="tls", tls=tls) as producer:
        producer.send(Message("sealed", b"x"))
    there = ClientCluster(cluster.whose, address, ())
    sealed = {
        "subscribe": "sealed",
        "fetchOffset.numRetries": "0",
        "rocketmq.useTLS": "true",
        "rocketmq.tls.client.trustCertPath": files.trust,
        "rocketmq.tls.client.certPath": files.client_chain,
        "rocketmq.tls.client.keyPath": files.client_key,
        "rocketmq.tls.client.keyPassword": "open",
    }
    assert places(read(spark, there, sealed)) == [(0, 0)]
    trusting = {key: value for key, value in sealed.items() if not key.endswith("trustCertPath")}
    assert places(read(spark, there, trusting | {"rocketmq.tls.client.authServer": "false"})) == [(0, 0)]
    for refused in (trusting, {"subscribe": "sealed", "fetchOffset.numRetries": "0"}):
        with pytest.raises(PySparkException):
            read(spark, there, refused).collect()


# --- time


def test_a_name_server_that_never_answers_costs_as_much_time_as_it_may(
    spark: SparkSession, cluster: ClientCluster
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        options = {"fetchOffset.numRetries": "0", "rocketmq.mqClientApiTimeout": "2000"}
        with pytest.raises(PySparkException) as raised:
            read(spark, ClientCluster("silent", address, ()), options, subscribe="orders").collect()
    # The connection is made in the same time.
    assert re.fullmatch(rf"{address}: no answer to request \d+ in ([01]\.\d+|2) s", told(raised.value))


def test_a_connection_that_is_never_made_costs_as_much_time_as_it_may(spark: SparkSession) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(3):  # what the kernel keeps for a listener that accepts nobody
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(full.getsockname())
            waiting.append(one)
        address = f"127.0.0.1:{full.getsockname()[1]}"
        options = {"fetchOffset.numRetries": "0", "rocketmq.connectTimeoutMillis": "150"}
        with pytest.raises(PySparkException) as raised:
            read(spark, ClientCluster("full", address, ()), options, subscribe="orders").collect()
        for one in waiting:
            one.close()
    assert address in told(raised.value)


# --- second tries, on a broker of ours that fails on demand


def test_what_fails_is_asked_again_as_often_as_allowed(spark: SparkSession, server: Server) -> None:
    topic = "asked-again"
    server.create_topic(topic, queues=1)
    there = ClientCluster("ours", server.address, server.broker_addresses)
    fill(there, topic, 3)
    patient = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "1"}
    fault = server.faults.drop_before(RequestCode.GET_MIN_OFFSET, times=2)
    assert places(read(spark, there, patient, subscribe=topic)) == span(0, 0, 3)
    assert fault.happened == 2
    server.faults.drop_before(RequestCode.GET_MIN_OFFSET)
    with pytest.raises(PySparkException) as raised:
        read(spark, there, {**patient, "fetchOffset.numRetries": "0"}, subscribe=topic).collect()
    assert told(raised.value) == f"{server.broker_addresses[0]}: the connection closed"


def test_a_pull_without_an_answer_is_made_again(spark: SparkSession, server: Server, topic: str) -> None:
    there = ClientCluster("ours", server.address, server.broker_addresses)
    fill(there, topic, 3)
    fault = server.faults.ignore(RequestCode.PULL_MESSAGE)
    assert places(read(spark, there, subscribe=topic, pullTimeoutMs="200")) == span(0, 0, 3)
    assert fault.happened == 1
