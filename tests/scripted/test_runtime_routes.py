"""How a runtime keeps routes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.model.names import AUTO_CREATE_TOPIC
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode, ResponseCode
from support.clients.members import ConsumerDouble, ProducerDouble, settled, until

ROUTE, HEART_BEAT = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT


def runtime_at(peer: ScriptedPeer, clock: FakeClock) -> ClientRuntime:
    return ClientRuntime(ClientOptions(name_servers=(peer.address,)), clock=clock)


def asked(peer: ScriptedPeer) -> list[str]:
    return [received.header.topic for received in peer.requests(ROUTE)]


def written(runtime: ClientRuntime, topic: str) -> Sequence[MessageQueue]:
    info = runtime.routes.publish_info(topic)
    return info.queues if info else ()


async def test_routes_of_used_topics_are_asked_for_every_30_s(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C26: at once, then every 30 s, those of producers and of consumers."""
    peer.route("S")
    async with runtime_at(peer, clock) as runtime:
        runtime.register_producer("P", ProducerDouble("P", "T"))
        runtime.register_consumer("C", ConsumerDouble("C", "S"))
        clock.advance(0.01)
        await peer.wait_for(ROUTE, 2)
        for round_number in (2, 3):
            clock.advance(29.9)
            await settled()
            assert len(asked(peer)) == 2 * (round_number - 1)
            clock.advance(0.1)
            await peer.wait_for(ROUTE, 2 * round_number)
        assert sorted(asked(peer)) == ["S", "S", "S", "T", "T", "T"]


async def test_topic_without_a_route_is_asked_for_again(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C27 (runtime's part): it is polled though its route was missing, and found once it is there."""
    async with runtime_at(peer, clock) as runtime:
        runtime.register_producer("P", ProducerDouble("P", "new"))
        assert not await runtime.update_route("new")
        peer.route("new", queues=1)
        clock.advance(0.01)
        await peer.wait_for(ROUTE, 2)
        await until(lambda: runtime.routes.publish_info("new") is not None)


async def test_new_broker_is_used_after_the_next_poll(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C28: its queues are there within 30 s."""
    async with ScriptedPeer(clock=clock, broker_name="broker-b") as second, runtime_at(peer, clock) as runtime:
        runtime.register_producer("P", ProducerDouble("P", "T"))
        await runtime.update_route("T")
        peer.route("T", {"broker-a": peer, "broker-b": second}, queues=1)
        clock.advance(30.01)
        await until(lambda: {queue.broker_name for queue in written(runtime, "T")} == {"broker-a", "broker-b"})


async def test_broker_that_may_not_be_written_to_is_left_out(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C29: after the next poll its queues are only read."""
    async with runtime_at(peer, clock) as runtime:
        await runtime.update_route("T")
        peer.route("T", perm=4)
        assert await runtime.update_route("T")
        info = runtime.routes.publish_info("T")
        assert info is not None
        assert (info.queues, info.has_route) == ((), True)
        assert len(runtime.routes.queues_to_read("T")) == 4


async def test_broker_without_a_master_is_read_and_not_written(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C30: with only id 1 it gives no queue to write to, and an address to pull from."""
    async with runtime_at(peer, clock) as runtime:
        peer.route("T", {"broker-a": {1: peer}})
        await runtime.update_route("T")
        info = runtime.routes.publish_info("T")
        assert info is not None
        assert not info.queues
        assert runtime.routes.master("broker-a") is None
        assert runtime.routes.address_for_pull("broker-a", 0) == (peer.address, True)


async def test_order_configuration_gives_the_queues_and_their_order(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C31: `b1:2;b0:1` is exactly b1-0, b1-1, b0-0."""
    async with runtime_at(peer, clock) as runtime:
        peer.route("T", {"b0": peer, "b1": peer}, order="b1:2;b0:1")
        await runtime.update_route("T")
        info = runtime.routes.publish_info("T")
        assert info is not None
        assert info.queues == (MessageQueue("T", "b1", 0), MessageQueue("T", "b1", 1), MessageQueue("T", "b0", 0))
        assert info.is_order_topic


async def test_more_queues_to_read_than_to_write(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C32: with 8 to read and 4 to write, 0–3 are written and 0–7 read."""
    async with runtime_at(peer, clock) as runtime:
        peer.route("T", queues=4, read_queues=8)
        await runtime.update_route("T")
        info = runtime.routes.publish_info("T")
        assert info is not None
        assert [queue.queue_id for queue in info.queues] == [0, 1, 2, 3]
        assert [queue.queue_id for queue in runtime.routes.queues_to_read("T")] == list(range(8))


async def test_same_route_in_another_order_changes_nothing(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C33."""
    async with runtime_at(peer, clock) as runtime:
        peer.route("T", {"b0": peer, "b1": peer})
        assert await runtime.update_route("T")
        peer.route("T", {"b1": peer, "b0": peer})
        assert not await runtime.update_route("T")


async def test_broker_that_left_all_routes_gets_no_more_heartbeats(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C34: they stop within 60 s, and its connection is closed."""
    async with ScriptedPeer(clock=clock, broker_name="broker-b") as second, runtime_at(peer, clock) as runtime:
        runtime.register_producer("P", ProducerDouble("P", "T"))
        peer.route("T", {"broker-a": peer, "broker-b": second})
        await runtime.update_route("T")
        clock.advance(1)
        await second.wait_for(HEART_BEAT)
        peer.route("T", {"broker-a": peer})
        peer.forget()
        clock.advance(30)
        await peer.wait_for(ROUTE)
        clock.advance(30)
        await peer.wait_for(HEART_BEAT, 2)
        second.forget()
        clock.advance(30)
        await peer.wait_for(HEART_BEAT, 3)
        assert not second.received
        assert not second.connections


async def test_broker_at_another_address_is_asked_there(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C38: the same name, a new address, after the next poll."""
    async with ScriptedPeer(clock=clock) as moved, runtime_at(peer, clock) as runtime:
        await runtime.update_route("T")
        assert runtime.routes.master("broker-a") == peer.address
        peer.route("T", {"broker-a": moved})
        await runtime.update_route("T")
        assert runtime.routes.master("broker-a") == moved.address


async def test_default_topic_gives_the_route_of_a_topic_to_be_made(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C35 (runtime's part): TBW102 has 8 queues, the new topic at most 4."""
    peer.route(AUTO_CREATE_TOPIC, queues=8)
    async with runtime_at(peer, clock) as runtime:
        assert await runtime.update_route("new", default_topic_queue_nums=4)
        info = runtime.routes.publish_info("new")
        assert info is not None
        assert [queue.queue_id for queue in info.queues] == [0, 1, 2, 3]
        assert asked(peer) == [AUTO_CREATE_TOPIC]


async def test_many_who_want_one_route_share_one_question(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with runtime_at(peer, clock) as runtime:
        outcomes = await asyncio.gather(*(runtime.update_route("T") for _ in range(100)))
        assert all(outcomes)
        assert asked(peer) == ["T"]


async def test_caller_that_gives_up_leaves_the_question_to_the_others(peer: ScriptedPeer, clock: FakeClock) -> None:
    async with runtime_at(peer, clock) as runtime, asyncio.TaskGroup() as group:
        held = peer.on(ROUTE).hold()
        impatient, patient = (group.create_task(runtime.update_route("T")) for _ in range(2))
        await peer.wait_for(ROUTE)
        impatient.cancel()
        held.release()
        assert await patient
        with pytest.raises(asyncio.CancelledError):
            await impatient


async def test_one_topic_that_fails_does_not_keep_the_others(peer: ScriptedPeer, clock: FakeClock) -> None:
    """C229 (routes): a hundred topics, one whose route cannot be read."""
    topics = [f"T{number}" for number in range(100)]
    for topic in topics:
        peer.route(topic, queues=1)
    peer.on(ROUTE).reply(body=b"{not json", times=1).reply(code=ResponseCode.SYSTEM_ERROR).default()
    async with runtime_at(peer, clock) as runtime:
        runtime.register_consumer("C", ConsumerDouble("C", *topics))
        clock.advance(0.01)
        await peer.wait_for(ROUTE, 100)
        await until(lambda: sum(runtime.routes.route(topic) is not None for topic in topics) == 98)
