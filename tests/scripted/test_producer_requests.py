"""Requests of producers of both flavours: replies in time, late, wrong or never, and what ends the wait."""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
import zlib
from typing import Any, cast

import pytest

from rocketline.client.replies import ReceivedReply
from rocketline.errors import (
    CallTimeoutError,
    ClosedError,
    InvalidMessageError,
    NoReplyError,
    OverloadedError,
    SendFailedError,
    TopicNotFoundError,
)
from rocketline.model import property_names as names
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.message import Message
from rocketline.model.sys_flags import CompressionType
from rocketline.net.channel import Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import ReplyMessageRequestHeader
from rocketline.wire.properties import format_properties, parse_properties
from support.clients.members import settled, until
from support.clients.producers import FLAVOURS, MakeProducer, error_of, maker

SEND, PUSH = RequestCode.SEND_MESSAGE_V2, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
ASK = Message("T", b"2+2", tags="sum", keys=["k"], properties={"color": "red"}, flag=7)


@pytest.fixture(params=FLAVOURS)
def make(request: pytest.FixtureRequest, clock: FakeClock) -> MakeProducer:
    return functools.partial(maker(request.param), clock=clock)


def properties_of(sent: Received) -> dict[str, str]:
    return parse_properties(sent.ext["i"])


def push(correlation_id: str, *, sys_flag: int = 0) -> ReplyMessageRequestHeader:
    """What a broker says to a client for which it has a reply."""
    properties = {names.CORRELATION_ID: correlation_id, names.MSG_TYPE: "reply", "shape": "round", names.TAGS: "t"}
    return ReplyMessageRequestHeader(
        producer_group="repliers",
        topic="C_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=5,
        flag=3,
        properties=format_properties(properties),
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        store_timestamp=6,
    )


async def sent(peer: ScriptedPeer, count: int = 1) -> list[str]:
    """The correlation ids of the requests that have come, once there are so many."""
    await until(lambda: len(peer.requests(SEND)) >= count)
    return [properties_of(each)[names.CORRELATION_ID] for each in peer.requests(SEND)]


def client_channel(peer: ScriptedPeer) -> Channel:
    """The connection whose client said last who it is."""
    return peer.requests(RequestCode.HEART_BEAT)[-1].channel


async def tell(peer: ScriptedPeer, correlation_id: str, body: bytes = b"4", *, sys_flag: int = 0) -> Command:
    """Hand a reply over, and wait for what the client answers."""
    call = Command(PUSH, headers.encode(push(correlation_id, sys_flag=sys_flag)), body)
    return await client_channel(peer).request(call, 10)


async def test_a_request_says_who_waits_and_returns_the_reply(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C114, C118: sent like any message, and over when the reply has come, not when it is stored."""
    async with make(peer.address, client_ip="127.0.0.1") as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(producer.request(ASK, timeout_s=2.5))
        (correlation_id,) = await sent(peer)
        (request,) = peer.requests(SEND)
        told = properties_of(request)
        assert str(uuid.UUID(correlation_id)) == correlation_id
        heartbeat = peer.requests(RequestCode.HEART_BEAT)[0].decoded(HeartbeatData)
        assert told[names.REPLY_TO_CLIENT] == heartbeat.client_id
        assert (told[names.TTL], told[names.TAGS], told["color"], request.body) == ("2500", "sum", "red", b"2+2")
        assert ASK.properties.keys() == {"TAGS", "KEYS", "color"}, "the message stays as it was"
        await settled()
        assert not asking.done()
        answer = await tell(peer, correlation_id)
        assert answer.code == ResponseCode.SUCCESS
        reply = await asking
        assert isinstance(reply, ReceivedReply)
        assert (reply.body, reply.flag, reply.tags, reply.properties["shape"]) == (b"4", 3, "t", "round")
        assert (reply.correlation_id, reply.born_host, reply.store_ms) == (correlation_id, "127.0.0.1:1", 6)
        assert reply.properties[names.ARRIVE_TIME] == str(clock.wall_ms())
        assert producer.reply_counts == (0, 0, 0)


async def test_brokers_know_the_client_before_the_first_request(make: MakeProducer, peer: ScriptedPeer) -> None:
    """C114: a reply that comes at once finds its way back."""
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(producer.request(ASK))
        (correlation_id,) = await sent(peer)
        codes = [each.code for each in peer.received if each.code in (SEND, RequestCode.HEART_BEAT)]
        assert codes[0] == RequestCode.HEART_BEAT
        await tell(peer, correlation_id)
        await asking
        again = group.create_task(producer.request(ASK))
        before = len(peer.requests(RequestCode.HEART_BEAT))
        await tell(peer, (await sent(peer, 2))[1])
        await again
        assert len(peer.requests(RequestCode.HEART_BEAT)) == before, "later ones need no heartbeat"


async def test_without_a_reply_it_raises_when_its_time_is_over(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """C115; what comes later is counted as late, and answered 0."""
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(error_of(producer.request(ASK, timeout_s=2)))
        (correlation_id,) = await sent(peer)
        await settled()
        clock.advance(1.9)
        await settled()
        assert not asking.done()
        clock.advance(0.2)
        error = await asking
        assert isinstance(error, NoReplyError)
        assert (error.code, error.topic, error.timeout_s, error.correlation_id) == (10006, "T", 2, correlation_id)
        assert "stored at offset" in str(error)
        assert "return reply(message, body)" in str(error)
        assert (await tell(peer, correlation_id)).code == ResponseCode.SUCCESS
        assert producer.reply_counts == (0, 1, 0)


async def test_replies_that_nobody_waits_for_are_answered_counted_and_told_once_a_second(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """C116."""
    caplog.set_level(logging.WARNING)
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(producer.request(ASK))
        (correlation_id,) = await sent(peer)
        await tell(peer, correlation_id)
        await asking
        for _ in range(50):
            assert (await tell(peer, "nobody's")).code == ResponseCode.SUCCESS
        await tell(peer, correlation_id)  # a second reply to one request
        assert producer.reply_counts == (0, 0, 51)
    assert len([record for record in caplog.records if "unknown request" in record.getMessage()]) == 1


async def test_closing_ends_each_wait_with_an_error_of_its_own(make: MakeProducer, peer: ScriptedPeer) -> None:
    async with make(peer.address) as producer:
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(error_of(producer.request(ASK))) for _ in range(3)]
            await sent(peer, 3)
            await producer.close()
        errors = [task.result() for task in asking]
        assert {type(error) for error in errors} == {ClosedError}
        assert len({id(error) for error in errors}) == 3
        assert "waited for its reply" in str(errors[0])


async def test_a_request_that_cannot_be_sent_raises_why(make: MakeProducer, peer: ScriptedPeer) -> None:
    """C118: a failure to send ends it at once, though its time is not over."""
    peer.on(SEND).reply(code=ResponseCode.MESSAGE_ILLEGAL, remark="no")
    async with make(peer.address) as producer:
        error = await error_of(producer.request(ASK, timeout_s=60))
        assert error.code == ResponseCode.MESSAGE_ILLEGAL
        assert isinstance(await error_of(producer.request(Message("T", b""))), InvalidMessageError)
        assert isinstance(await error_of(producer.request(cast(Any, [ASK]))), TypeError)
        assert producer.reply_counts.waiting == 0
        assert isinstance(await error_of(producer.request(Message("unknown", b"x"))), TopicNotFoundError)


async def test_a_broker_that_never_answers_costs_the_time_of_the_call(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    peer.on(SEND).never()
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(error_of(producer.request(ASK, timeout_s=2)))
        await sent(peer)
        clock.advance(2.1)
        error = await asking
        assert isinstance(error, NoReplyError | CallTimeoutError | SendFailedError)
        assert "not known" in str(error) or "no answer" in str(error) or "took longer" in str(error)


async def test_finding_the_brokers_and_greeting_them_costs_the_time_of_the_call(
    make: MakeProducer, peer: ScriptedPeer, clock: FakeClock
) -> None:
    """Both together, not each."""
    script = peer.on(RequestCode.GET_ROUTEINFO_BY_TOPIC).hold().default()
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(error_of(producer.request(ASK, timeout_s=2)))
        await peer.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        clock.advance(1.5)
        peer.on(RequestCode.HEART_BEAT).never()
        script.release()
        await peer.wait_for(RequestCode.HEART_BEAT)
        await settled()
        clock.advance(0.6)
        assert isinstance(await asking, CallTimeoutError | NoReplyError)
        assert not peer.requests(SEND)


async def test_compressed_replies_are_expanded_and_falsely_marked_ones_taken_as_they_are(
    make: MakeProducer, peer: ScriptedPeer
) -> None:
    """Go's client marks replies of 4096 bytes and more as compressed, and sends them as they are."""
    flag = CompressionType.ZLIB.sys_flag
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = [group.create_task(producer.request(ASK)) for _ in range(2)]
        first, second = await sent(peer, 2)
        await tell(peer, first, zlib.compress(b"x" * 5000), sys_flag=flag)
        await tell(peer, second, b"y" * 5000, sys_flag=1)
        assert {(await task).body for task in asking} == {b"x" * 5000, b"y" * 5000}


async def test_too_many_that_wait_are_refused(make: MakeProducer, peer: ScriptedPeer) -> None:
    async with make(peer.address, async_in_flight_max=2) as producer:
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(error_of(producer.request(ASK))) for _ in range(2)]
            await sent(peer, 2)
            error = await error_of(producer.request(ASK))
            assert isinstance(error, OverloadedError)
            assert "async_in_flight_max" in str(error)
            await producer.close()
        assert all(isinstance(task.result(), ClosedError) for task in asking)


async def test_a_lost_connection_is_made_anew_while_a_reply_is_waited_for(
    make: MakeProducer, peer: ScriptedPeer
) -> None:
    """The request is stored: its reply comes over the new connection, on which the broker is told at once who it is."""
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(producer.request(ASK, timeout_s=60))
        (correlation_id,) = await sent(peer)
        await settled()
        before = len(peer.requests(RequestCode.HEART_BEAT))
        peer.close_connections()
        await until(lambda: len(peer.requests(RequestCode.HEART_BEAT)) > before)
        await until(lambda: not client_channel(peer).is_closed)
        await tell(peer, correlation_id)
        assert (await asking).body == b"4"


async def test_a_reply_that_cannot_be_read_is_refused_and_the_connection_stays(
    make: MakeProducer, peer: ScriptedPeer
) -> None:
    """C61."""
    async with make(peer.address) as producer, asyncio.TaskGroup() as group:
        asking = group.create_task(producer.request(ASK))
        (correlation_id,) = await sent(peer)
        answer = await client_channel(peer).request(Command(PUSH, {"topic": "x"}, b""), 10)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        await tell(peer, correlation_id)
        assert (await asking).body == b"4"
