"""Who a runtime says it is, and how long it lives."""

from __future__ import annotations

import asyncio
import os
import re

import pytest

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.errors import ClosedError, GroupInUseError, NotStartedError
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.names import INNER_PRODUCER_GROUP
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from support.clients.members import ConsumerDouble, ProducerDouble

HEART_BEAT, UNREGISTER, ROUTE = (
    RequestCode.HEART_BEAT,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
)


def options(
    *peers: ScriptedPeer, instance_name: str = "DEFAULT", unit_name: str = "", stream: bool = False
) -> ClientOptions:
    return ClientOptions(
        name_servers=tuple(peer.address for peer in peers),
        instance_name=instance_name,
        unit_name=unit_name,
        stream_requests=stream,
        client_ip="10.1.2.3",
    )


async def told_id(runtime: ClientRuntime, peer: ScriptedPeer) -> str:
    """The client id in a heartbeat."""
    async with runtime:
        runtime.register_producer("P", ProducerDouble("P", "T"))
        await runtime.update_route("T")
        assert await runtime.heartbeat_all()
        return peer.requests(HEART_BEAT)[-1].decoded(HeartbeatData).client_id


async def test_default_instance_name_becomes_one_of_its_own(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C1: the heartbeat's client id is `<ip>@<pid>#<digits>`."""
    told = await told_id(ClientRuntime(options(peer), clock=clock), peer)
    assert re.fullmatch(rf"10\.1\.2\.3@{os.getpid()}#\d+", told)


async def test_explicit_instance_name_is_kept(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C2: the client id is exactly `<ip>@A`."""
    assert await told_id(ClientRuntime(options(peer, instance_name="A"), clock=clock), peer) == "10.1.2.3@A"


async def test_unit_name_ends_the_id(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C3: the client id ends with `@U`."""
    told = await told_id(ClientRuntime(options(peer, instance_name="A", unit_name="U"), clock=clock), peer)
    assert told == "10.1.2.3@A@U"


async def test_stream_client_marks_its_id_and_every_request(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C4: the id ends with `@STREAM` and every request carries `ReqT`=`0`."""
    told = await told_id(ClientRuntime(options(peer, instance_name="A", stream=True), clock=clock), peer)
    assert told == "10.1.2.3@A@STREAM"
    assert {received.code for received in peer.received} == {ROUTE, HEART_BEAT, UNREGISTER}
    assert all(received.ext["ReqT"] == "0" for received in peer.received)


async def test_stable_name_keeps_the_default(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C5: a broadcasting consumer's id is `<ip>@DEFAULT`."""
    told = await told_id(ClientRuntime(options(peer), clock=clock, is_name_stable=True), peer)
    assert told == "10.1.2.3@DEFAULT"


async def test_two_groups_on_one_runtime_share_connection_and_heartbeat(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C6: one connection per address, one heartbeat naming both groups."""
    async with ClientRuntime(options(peer), clock=clock) as runtime:
        runtime.register_producer("P1", ProducerDouble("P1", "T"))
        runtime.register_producer("P2", ProducerDouble("P2", "T"))
        await runtime.update_route("T")
        await runtime.heartbeat_all()
        (beat,) = peer.requests(HEART_BEAT)
        named = {producer.group_name for producer in beat.decoded(HeartbeatData).producer_data_set}
        assert named == {"P1", "P2", INNER_PRODUCER_GROUP}
        assert peer.connections_opened == 1


async def test_second_member_of_a_group_is_refused_and_the_first_stays(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C7 (runtime's part): the second registration fails, the first keeps working."""
    async with ClientRuntime(options(peer, instance_name="A"), clock=clock) as runtime:
        runtime.register_producer("P", ProducerDouble("P", "T"))
        with pytest.raises(GroupInUseError, match=r"group 'P' is in use on client 10\.1\.2\.3@A already"):
            runtime.register_producer("P", ProducerDouble("P", "T"))
        runtime.register_consumer("P", ConsumerDouble("P"))  # a consumer's group is something else
        await runtime.update_route("T")
        assert await runtime.heartbeat_all()


async def test_closing_again_does_nothing(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C10 (runtime's part)."""
    runtime = ClientRuntime(options(peer), clock=clock)
    await runtime.lease()
    await runtime.close()
    await runtime.close()
    assert runtime.is_closed


async def test_unregister_reaches_every_known_address_before_the_connections_close(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C11: UNREGISTER_CLIENT arrives at master and slave, while connected."""
    async with ScriptedPeer(clock=clock) as slave:
        peer.route("T", {"broker-a": {0: peer, 1: slave}})
        async with ClientRuntime(options(peer, instance_name="A"), clock=clock) as runtime:
            runtime.register_producer("P", ProducerDouble("P", "T"))
            await runtime.update_route("T")
            await runtime.unregister_producer("P")
            for broker in (peer, slave):
                (farewell,) = broker.requests(UNREGISTER)
                assert (farewell.header.client_id, farewell.header.producer_group) == ("10.1.2.3@A", "P")
                assert farewell.header.consumer_group is None
                assert broker.connections


async def test_one_of_two_that_share_leaves_and_the_other_goes_on(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C12: after one release the runtime still beats and sends."""
    runtime = ClientRuntime(options(peer), clock=clock)
    await runtime.lease()
    await runtime.lease()
    runtime.register_producer("P1", ProducerDouble("P1", "T"))
    runtime.register_producer("P2", ProducerDouble("P2", "T"))
    await runtime.update_route("T")
    await runtime.unregister_producer("P1")
    await runtime.release()
    peer.forget()
    clock.advance(31)
    beat = (await peer.wait_for(HEART_BEAT))[-1].decoded(HeartbeatData)
    assert {producer.group_name for producer in beat.producer_data_set} == {"P2", INNER_PRODUCER_GROUP}
    await runtime.release()
    assert runtime.is_closed


async def test_last_release_leaves_nothing_running(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C13: connections are closed and no task remains."""
    before = asyncio.all_tasks()
    runtime = ClientRuntime(options(peer), clock=clock)
    await runtime.lease()
    runtime.register_consumer("G", ConsumerDouble("G", "T"))
    await runtime.update_route("T")
    await runtime.heartbeat_all()
    await runtime.unregister_consumer("G")
    await runtime.release()
    assert len(runtime.connections) == 0
    assert asyncio.all_tasks() == before


async def test_closed_runtime_asks_nobody(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C14 (runtime's part): a typed error, and no network traffic."""
    runtime = ClientRuntime(options(peer), clock=clock)
    with pytest.raises(NotStartedError):
        await runtime.update_route("T")
    await runtime.lease()
    await runtime.close()
    peer.forget()
    with pytest.raises(ClosedError, match="is closed: make a new one"):
        await runtime.update_route("T")
    with pytest.raises(ClosedError):
        await runtime.lease()
    assert not peer.received
