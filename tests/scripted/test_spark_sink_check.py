"""What a write looks at before every micro-batch, against a peer that plays from a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rocketline.errors import ConfigError, TransportError
from rocketline.model.route import BrokerData
from rocketline.spark.options.source_and_sink import SinkOptions, sink_options
from rocketline.spark.sink.client import shared_client
from rocketline.spark.sink.writers import check_sink
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.codes import RequestCode

ROUTE, SEND = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2
SCHEMA = StructType([StructField("body", StringType())])
TIMED = StructType([*SCHEMA.fields, StructField("topic", StringType()), StructField("deliverTimestamp", LongType())])
HAS_TIMERS, HAS_NONE = 13, 1
"""What a broker answers to a message for a time that is none."""


class Writing:
    """Writes to a peer, and who to close in the end."""

    options: SinkOptions | None = None

    async def check(self, peer: ScriptedPeer) -> None:
        self.options = sink_options({"nameServer": peer.address, "topic": "orders"})
        await asyncio.to_thread(check_sink, self.options, SCHEMA, False)

    async def check_timed(self, peer: ScriptedPeer) -> None:
        """Of rows that name their topics and times."""
        self.options = sink_options({"nameServer": peer.address, "rocketmq.namespace": "team"})
        await asyncio.to_thread(check_sink, self.options, TIMED, False)


@pytest.fixture
def writing() -> Iterator[Writing]:
    writing = Writing()
    yield writing
    assert writing.options is not None
    shared_client(writing.options).close()


async def test_a_name_server_that_fails_once_does_not_end_a_stream_that_knows_the_way(writing: Writing) -> None:
    async with ScriptedPeer() as peer:
        peer.route("orders")
        await writing.check(peer)
        peer.on(ROUTE).drop(times=1000)
        await writing.check(peer)
        peer.on(ROUTE)
        await writing.check(peer)


async def test_a_name_server_that_fails_from_the_beginning_is_an_error(writing: Writing) -> None:
    async with ScriptedPeer() as peer:
        peer.on(ROUTE).drop(times=1000)
        with pytest.raises(TransportError):
            await writing.check(peer)


# --- rows that name their topics, and the time when they are to be seen


@pytest.fixture
async def second() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer(broker_name="broker-b") as peer:
        yield peer


@pytest.fixture
async def first(second: ScriptedPeer) -> AsyncIterator[ScriptedPeer]:
    """A name server, one of two brokers that it knows, and a replica that nobody has to ask."""
    async with ScriptedPeer() as peer:
        brokers = [
            BrokerData("DefaultCluster", "broker-a", {0: peer.address}),
            BrokerData("DefaultCluster", "broker-b", {0: second.address, 1: "127.0.0.1:1"}),
            BrokerData("DefaultCluster", "broker-c", {1: "127.0.0.1:1"}),
        ]
        table = ClusterInfo({broker.broker_name: broker for broker in brokers})
        peer.on(RequestCode.GET_BROKER_CLUSTER_INFO).reply(body=table)
        yield peer


async def test_a_cluster_without_timers_is_an_error_before_any_task(
    writing: Writing, first: ScriptedPeer, second: ScriptedPeer
) -> None:
    for peer in (first, second):
        peer.on(SEND).reply(code=HAS_NONE)
    with pytest.raises(ConfigError, match="column deliverTimestamp: broker broker-a, broker-b keeps no messages until"):
        await writing.check_timed(first)
    # A topic that each broker has: one that is not there would be made.
    assert [received.ext["b"] for peer in (first, second) for received in peer.requests(SEND)] == [
        "broker-a",
        "broker-b",
    ]


@pytest.mark.parametrize("codes", [(HAS_TIMERS, HAS_TIMERS), (HAS_TIMERS, HAS_NONE), (16, 16)])
async def test_a_cluster_that_may_have_timers_is_none(
    writing: Writing,
    first: ScriptedPeer,
    second: ScriptedPeer,
    codes: tuple[int, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for peer, code in zip((first, second), codes, strict=True):
        peer.on(SEND).reply(code=code)
    await writing.check_timed(first)
    warnings = [str(record.msg) for record in caplog.records if "timers" in str(record.msg)]
    is_mixed = codes == (HAS_TIMERS, HAS_NONE)
    assert warnings == ["brokers without timers refuse rows with a deliverTimestamp brokers=broker-b"] * is_mixed


async def test_a_broker_that_is_down_tells_nothing_of_its_timers(
    writing: Writing, first: ScriptedPeer, second: ScriptedPeer
) -> None:
    await second.stop()
    first.on(SEND).reply(code=HAS_TIMERS)
    await writing.check_timed(first)
    first.on(SEND).reply(code=HAS_NONE)
    with pytest.raises(ConfigError, match="broker broker-a keeps no messages until"):
        await writing.check_timed(first)
