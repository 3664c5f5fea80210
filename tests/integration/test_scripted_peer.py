from __future__ import annotations

import asyncio

import pytest

from rocketline.errors import ConnectError, ConnectionLostError, RequestTimeoutError
from rocketline.model.heartbeat import ConsumerData, HeartbeatData
from rocketline.model.route import TopicRouteData
from rocketline.net.remote import Remote
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import bodies, headers
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.headers import (
    GetConsumerListByGroupRequestHeader,
    GetRouteInfoRequestHeader,
    Header,
    PullMessageRequestHeader,
)
from rocketline.wire.message_codec import decode_messages

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def command(code: int, header: Header | None = None, body: bytes = b"") -> Command:
    return Command(code, headers.encode(header) if header else {}, body)


def route_of(topic: str) -> Command:
    return command(ROUTE, GetRouteInfoRequestHeader(topic=topic))


def pull(offset: int, *, count: int = 32) -> Command:
    header = PullMessageRequestHeader(
        consumer_group="g",
        topic="t",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=2,
        commit_offset=0,
        suspend_timeout_millis=15_000,
        sub_version=0,
    )
    return command(RequestCode.PULL_MESSAGE, header)


async def test_a_route_names_the_brokers_that_the_test_gave() -> None:
    async with ScriptedPeer() as peer, ScriptedPeer(broker_name="broker-b") as other, Remote(peer.address) as client:
        peer.route("t", {"broker-a": peer, "broker-b": {0: other, 1: "127.0.0.1:1"}}, queues=2, read_queues=3, perm=4)
        answer = await client.request(route_of("t"), 5)
        route = bodies.decode(TopicRouteData, answer.body)
        assert [(one.broker_name, one.broker_addrs) for one in route.broker_datas] == [
            ("broker-a", {0: peer.address}),
            ("broker-b", {0: other.address, 1: "127.0.0.1:1"}),
        ]
        assert {(one.write_queue_nums, one.read_queue_nums, one.perm) for one in route.queue_datas} == {(2, 3, 4)}
        assert (await client.request(route_of("unknown"), 5)).code == 17


async def test_a_script_is_played_step_by_step_and_its_last_step_stays() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client:
        peer.route("t")
        script = peer.on(ROUTE).reply(code=1, times=2).reply({"a": "1"}, b"x").default()
        codes = [(await client.request(route_of("t"), 5)).code for _ in range(3)]
        assert codes == [1, 1, 0]
        assert script.steps_left == 1
        for _ in range(2):
            assert b"broker-a" in (await client.request(route_of("t"), 5)).body


async def test_a_dropped_request_loses_its_connection_and_a_silent_one_its_time() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client:
        peer.on(ROUTE).drop().never()
        with pytest.raises(ConnectionLostError):
            await client.request(route_of("t"), 5)
        await client.connect(5)
        with pytest.raises(RequestTimeoutError):
            await client.request(route_of("t"), 0.05)
        assert peer.connections_opened == 2


async def test_a_held_answer_comes_when_released_and_a_delayed_one_by_itself() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client, asyncio.TaskGroup() as group:
        script = peer.on(ROUTE).hold().delay(0.01)
        asked = group.create_task(client.request(route_of("t"), 5))
        await peer.wait_for(ROUTE)
        assert not asked.done()
        script.release()
        assert (await asked).code == 17
        assert (await client.request(route_of("t"), 5)).code == 17


async def test_requests_are_kept_with_header_connection_and_time(clock: FakeClock) -> None:
    async with ScriptedPeer(clock=clock) as peer, Remote(peer.address) as client:
        await client.request(route_of("t"), 5)
        clock.advance(30)
        await client.request(route_of("t"), 5)
        first, second = peer.requests(ROUTE)
        assert (first.header.topic, second.time_s - first.time_s) == ("t", 30)
        assert first.channel is second.channel is peer.connections[0]


async def test_waiting_for_a_request_that_does_not_come_says_what_came() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client:
        await client.request(route_of("t"), 5)
        with pytest.raises(AssertionError, match="1 requests of code 34 expected, 0 came; heard: 105"):
            await peer.wait_for(RequestCode.HEART_BEAT, timeout_s=0.01)


async def test_a_stopped_peer_refuses_connections_and_listens_at_the_same_address_again() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client:
        address = peer.address
        await peer.stop()
        with pytest.raises(ConnectError):
            await client.request(route_of("t"), 5)
        await peer.start()
        assert peer.address == address
        assert (await client.request(route_of("t"), 5)).code == 17


async def test_members_are_those_that_sent_heartbeats() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client:
        beat = HeartbeatData("me", [], [ConsumerData("g")])
        await client.request(command(RequestCode.HEART_BEAT, None, bodies.encode(beat)), 5)
        asked = command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequestHeader(consumer_group="g"))
        answer = await client.request(asked, 5)
        assert bodies.decode(ConsumerList, answer.body).consumer_id_list == ["me"]


async def test_a_pull_finds_what_was_put_and_waits_at_the_end() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client, asyncio.TaskGroup() as group:
        peer.broker.put("t", b"one", b"two", b"three", properties={"TAGS": "a"})
        answer = await client.request(pull(0, count=2), 5)
        assert [(m.body, m.queue_offset, m.tag) for m in decode_messages(answer.body)] == [
            (b"one", 0, "a"),
            (b"two", 1, "a"),
        ]
        assert answer.ext["nextBeginOffset"] == "2"
        waiting = group.create_task(client.request(pull(3), 5))
        await peer.wait_for(RequestCode.PULL_MESSAGE, 2)
        assert len(peer.broker.pulls_waiting) == 1
        peer.broker.put("t", b"four")
        assert [m.body for m in decode_messages((await waiting).body)] == [b"four"]
        assert (await client.request(pull(9), 5)).code == 21
        waiting = group.create_task(client.request(pull(4), 5))
        await peer.wait_for(RequestCode.PULL_MESSAGE, 4)
        peer.broker.release_pulls()
        assert (await waiting).code == 19


async def test_the_peer_asks_the_client_that_spoke_last() -> None:
    async with ScriptedPeer() as peer, Remote(peer.address) as client:
        await client.request(route_of("t"), 5)
        assert (await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO)).code == 3
        peer.close_connections()
        with pytest.raises(ConnectionLostError):
            await peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO)
