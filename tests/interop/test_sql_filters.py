"""Filters in SQL with Apache's clients and stores: consumers in Java and Go with our broker, Java's beside ours in one
group as well; and the file in which either broker keeps its filters, read by the other.

Our consumers with Apache's broker are in the scenarios.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rocketline import Message, Producer, PushConsumer, by_sql
from rocketline.admin.sync import Admin
from rocketline.testing.apache import ApacheBroker, ApacheNameServer, Release
from rocketline.testing.broker import BrokerProcess as Broker
from rocketline.testing.clients import ClientFailedError, ClientProgram, Portion, go_client, java_client, own_client
from rocketline.testing.server_process import ServerProcess
from support.clients import clusters as client_clusters
from support.clients.clusters import ClientCluster, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

EACH = 200
WANTED = "sql:TAGS = 'even' AND KEYS NOT ENDSWITH '4' AND KEYS IS NOT NULL"
EXPRESSION = "price > 5 AND region = 'north'"
EXPECTED = sorted(number for number in range(EACH) if number % 2 == 0 and number % 10 != 4)


@pytest.fixture(scope="module")
def servers() -> Iterator[ClientCluster]:
    with client_clusters.our_cluster() as cluster:
        yield cluster


@pytest.fixture
def java(release: Release, tmp_path: Path) -> ClientProgram:
    return java_client(release, tmp_path / "java")


@pytest.mark.parametrize("mode", ["concurrent", pytest.param("pull", marks=pytest.mark.thorough)])
def test_java_consumer_by_sql_gets_what_it_wants_from_our_broker(
    servers: ClientCluster, java: ClientProgram, mode: str
) -> None:
    """S228, S240, S242: it asks CHECK_CLIENT_CONFIG first, then pulls by what its heartbeat said, or by itself."""
    topic, group = servers.topic(), servers.group()
    assert java.send(servers.name_server, topic, Portion("sync", 0, EACH)).sent == EACH
    found = java.consume(servers.name_server, topic, group, len(EXPECTED), mode=mode, expression=WANTED, timeout_s=60)
    assert sorted(delivered.number for delivered in found) == EXPECTED


def test_go_consumer_by_sql_gets_what_it_wants_from_our_broker(servers: ClientCluster, tmp_path: Path) -> None:
    """S240, S242: it asks nothing before, says SQL in its heartbeats, and TAG in its pulls, whose version is 0."""
    topic, group, ours = servers.topic(), servers.group(), own_client(tmp_path / "own")
    assert ours.send(servers.name_server, topic, Portion("sync", 0, EACH)).sent == EACH
    go = go_client(tmp_path / "go")
    found = go.consume(servers.name_server, topic, group, len(EXPECTED), expression=WANTED, timeout_s=60)
    assert sorted(delivered.number for delivered in found) == EXPECTED


def test_java_and_ours_share_a_group_that_chooses_by_sql(
    servers: ClientCluster, java: ClientProgram, tmp_path: Path
) -> None:
    _share_a_group(servers, java, own_client(tmp_path / "own"))


@pytest.mark.thorough
def test_java_and_ours_share_a_group_that_chooses_by_sql_with_apaches_broker(
    release: Release, java: ClientProgram, tmp_path: Path
) -> None:
    with client_clusters.apache_cluster(release, tmp_path / "servers") as servers:
        _share_a_group(servers, java, own_client(tmp_path / "own"))


def _share_a_group(servers: ClientCluster, java: ClientProgram, ours: ClientProgram) -> None:
    topic, group = servers.topic(queues=8), servers.group()
    count = len(EXPECTED) // 4
    with ThreadPoolExecutor(2) as both:
        consuming = [
            both.submit(one.consume, servers.name_server, topic, group, count, expression=WANTED, timeout_s=90)
            for one in (java, ours)
        ]
        with Producer(servers.name_server, group="senders") as producer:
            wait_until(lambda: _members(servers, group) == 2, 60)
            sent = _send_until(producer, topic, lambda: all(one.done() for one in consuming))
        found = [delivered.number for one in consuming for delivered in one.result()]
    assert set(found) <= {number for number in range(sent) if number % 2 == 0 and number % 10 != 4}
    assert len(set(found)) >= 2 * count, "each of them has had a share"


def _send_until(producer: Producer, topic: str, is_over: Callable[[], bool]) -> int:
    """How many were sent. Members take a while to share out the queues anew: what came before may all be one's."""
    for number in itertools.count():
        if is_over():
            return number
        producer.send(Message(topic, b"%d/0" % number, tags="odd" if number % 2 else "even", keys=f"k{number}"))
        time.sleep(0.005)
    raise AssertionError


def _members(servers: ClientCluster, group: str) -> int:
    with Admin(servers.name_server) as admin:
        return len({member.client_id for member in admin.clients.consumers(group).members})


@pytest.mark.thorough
def test_java_is_refused_an_expression_that_cannot_be_read(servers: ClientCluster, java: ClientProgram) -> None:
    """C48, S237: the start fails with 23, and Java shows our remark."""
    topic, group = servers.topic(), servers.group()
    with pytest.raises(ClientFailedError, match="unequal is written <>"):
        java.consume(servers.name_server, topic, group, 1, expression="sql:a != 5", timeout_s=20)


@pytest.mark.thorough
def test_filters_that_one_broker_has_kept_are_taken_over_by_the_other(release: Release, tmp_path: Path) -> None:
    """Apache's, then ours, then Apache's in one folder: the same filter all the time, since it was born."""
    home = tmp_path / "broker"
    settings = {"enablePropertyFilter": "true"}
    with ApacheNameServer(release, tmp_path / "name-server") as name_server:
        names = (name_server.address,)

        def kept_by(broker: ServerProcess, expression: str) -> Any:
            with broker:
                consume(name_server.address, expression)
                broker.close()
            tables = json.loads((home / "store" / "config" / "consumerFilter.json").read_text())
            return tables["filterDataByTopic"]["orders"]["groupFilterData"]["billing"]

        first = kept_by(ApacheBroker(release, home, name_servers=names, settings=settings), EXPRESSION)
        second = kept_by(Broker(home, name_servers=names, settings=settings), EXPRESSION)
        third = kept_by(ApacheBroker(release, home, name_servers=names, settings=settings), EXPRESSION)
    assert first["expression"] == EXPRESSION
    for later in (second, third):
        assert set(later) == set(first)
        for name in ("bloomFilterData", "bornTime", "expression", "expressionType", "consumerGroup", "topic"):
            assert later[name] == first[name], name
    assert first["clientVersion"] < second["clientVersion"] < third["clientVersion"]


def consume(name_server: str, expression: str) -> None:
    """A message that fulfils it, and a consumer that gets it."""
    received: list[bytes] = []
    with Producer(name_server, group="senders", send_timeout_s=30) as producer:
        for price in ("1", "7"):
            producer.send(Message("orders", price.encode(), properties={"price": price, "region": "north"}))
    with PushConsumer(name_server, group="billing") as consumer:
        consumer.subscribe("orders", by_sql(expression), lambda message: received.append(message.body))
        wait_until(lambda: received, 60)
    assert received == [b"7"]
