"""Whom a runtime sends heartbeats to, and when."""

from __future__ import annotations

import asyncio

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import CURRENT_VERSION, RequestCode
from rocketline.wire.command import Command
from support.clients.members import ConsumerDouble, ProducerDouble, settled, until

HEART_BEAT = RequestCode.HEART_BEAT


def runtime_at(peer: ScriptedPeer, clock: FakeClock) -> ClientRuntime:
    return ClientRuntime(ClientOptions(name_servers=(peer.address,), instance_name="A"), clock=clock)


async def test_heartbeats_come_after_1_s_and_every_30_s(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C40 and C41: the first within 1 s, then every 30 s at each address, slaves too once there is a consumer."""
    async with ScriptedPeer(clock=clock) as slave, runtime_at(peer, clock) as runtime:
        peer.route("T", {"broker-a": {0: peer, 1: slave}})
        runtime.register_consumer("C", ConsumerDouble("C", "T"))
        await runtime.update_route("T")
        assert not peer.requests(HEART_BEAT)
        clock.advance(1)
        for count in range(1, 4):
            for broker in (peer, slave):
                assert len(await broker.wait_for(HEART_BEAT, count)) == count
            clock.advance(29.9)
            await settled()
            assert len(peer.requests(HEART_BEAT)) == count
            clock.advance(0.1)


async def test_heartbeat_says_what_the_members_are(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with runtime_at(peer, clock) as runtime:
        runtime.register_consumer("C", ConsumerDouble("C", "T"))
        await runtime.update_route("T")
        assert await runtime.heartbeat_all()
        (consumer,) = peer.requests(HEART_BEAT)[0].decoded(HeartbeatData).consumer_data_set
        assert consumer.group_name == "C"
        assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
        assert consumer.message_model is MessageModel.CLUSTERING
        assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        assert [subscription.topic for subscription in consumer.subscription_data_set] == ["T"]
        assert runtime.routes.broker_version(peer.address) == CURRENT_VERSION
        # C49: a tag subscription is not checked beforehand.
        assert not peer.requests(RequestCode.CHECK_CLIENT_CONFIG)


async def test_slaves_hear_nothing_of_producers(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C42: only producers, so slaves receive no heartbeat."""
    async with ScriptedPeer(clock=clock) as slave, runtime_at(peer, clock) as runtime:
        peer.route("T", {"broker-a": {0: peer, 1: slave}})
        runtime.register_producer("P", ProducerDouble("P", "T"))
        await runtime.update_route("T")
        assert await runtime.heartbeat_all()
        assert peer.requests(HEART_BEAT)
        assert not slave.received


async def test_broker_that_fails_holds_up_none_of_the_others(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C43: one refuses connections, one never answers, and the third hears of us in the same round."""
    async with ScriptedPeer(clock=clock) as gone, ScriptedPeer(clock=clock) as mute, runtime_at(peer, clock) as runtime:
        peer.route("T", {"a": gone, "b": mute, "c": peer})
        mute.on(HEART_BEAT).never()
        await gone.stop()
        runtime.register_producer("P", ProducerDouble("P", "T"))
        await runtime.update_route("T")
        async with asyncio.TaskGroup() as group:
            round_under_way = group.create_task(runtime.heartbeat_all())
            await peer.wait_for(HEART_BEAT)
            await mute.wait_for(HEART_BEAT)
            assert not await runtime.heartbeat_all(), "a round is under way"
            clock.advance(3)
            assert await round_under_way


async def test_connection_that_is_made_again_begins_with_a_heartbeat(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C44: without waiting for the next round; and then the queues are shared out anew."""
    async with ScriptedPeer(clock=clock) as broker, runtime_at(peer, clock) as runtime:
        peer.route("T", {"broker-a": broker})
        consumer = ConsumerDouble("C", "T")
        runtime.register_consumer("C", consumer)
        await runtime.update_route("T")
        await runtime.heartbeat_all()
        broker.forget()
        broker.close_connections()
        await until(lambda: len(runtime.connections) == 1)
        await runtime.ask(broker.address, Command(RequestCode.GET_BROKER_RUNTIME_INFO), timeout_s=3)
        await broker.wait_for(HEART_BEAT)
        await until(lambda: consumer.rebalances == 1)


async def test_nobody_hears_of_a_runtime_without_members(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with runtime_at(peer, clock) as runtime:
        await runtime.update_route("T")
        assert not await runtime.heartbeat_all()
        assert not await runtime.heartbeat(peer.address)
        assert not peer.requests(HEART_BEAT)
