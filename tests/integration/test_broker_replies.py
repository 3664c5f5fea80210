"""Replies at a broker: passed on to the client that asked, stored, and refused in Apache's codes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rocketline.model import property_names as names
from rocketline.model.sys_flags import CompressionType
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.message_codec import decode_record
from rocketline.wire.properties import format_properties, parse_properties
from support.brokers.connections import heartbeat
from support.brokers.running import BrokerPeer, broker

PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = {names.MSG_TYPE: "reply", names.CORRELATION_ID: "corr1", names.REPLY_TO_CLIENT: "cidX", names.TTL: "3000"}


def reply(body: bytes = b"reply!", /, **fields: str) -> Command:
    """SEND_REPLY_MESSAGE_V2 as Java's client sends it; `fields` are the wire's letters."""
    ext = {"a": "PG", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "7"}
    ext |= {"i": format_properties(PROPERTIES), "j": "0", "k": "false", "m": "false", **fields}
    return Command(RequestCode.SEND_REPLY_MESSAGE_V2, ext, body, language="JAVA")


def reply_v1(body: bytes = b"reply!") -> Command:
    """SEND_REPLY_MESSAGE, with names in full, as Go's client sends it."""
    ext = {
        "producerGroup": "PG",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": format_properties(PROPERTIES),
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    return Command(RequestCode.SEND_REPLY_MESSAGE, ext, body, language="GO")


async def requester(address: str, client_id: str = "cidX") -> BrokerPeer:
    """A producer that has told who it is, and takes replies."""
    peer = BrokerPeer(address)
    peer.answers[PUSH] = response(ResponseCode.SUCCESS)
    assert (await peer.request(heartbeat(client_id, producers=["askers"]), 5)).code == ResponseCode.SUCCESS
    return peer


@pytest.mark.parametrize("made", [reply, reply_v1])
async def test_a_reply_reaches_the_client_that_asked_and_is_stored(made: Callable[[], Command]) -> None:
    """S207."""
    async with broker() as running, await requester(running.address) as asker, BrokerPeer(running.address) as replier:
        answer = await replier.request(made(), 5)
        pushed = await asker.told()
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert (answer.ext["queueId"], answer.ext["queueOffset"], len(answer.ext["msgId"])) == ("0", "0", 32)
        assert (answer.ext["MSG_REGION"], answer.ext["TRACE_ON"]) == ("DefaultRegion", "true")
        assert (pushed.code, pushed.body, pushed.is_oneway) == (PUSH, b"reply!", False)
        assert pushed.ext["topic"] == TOPIC
        assert pushed.ext["storeHost"] == running.address
        properties = parse_properties(pushed.ext["properties"])
        assert properties.pop(names.PUSH_REPLY_TIME) == pushed.ext["storeTimestamp"]
        assert properties == PROPERTIES
        stored = await replier.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(int(answer.ext["msgId"][16:], 16))})
        record = decode_record(stored.body, 0)
        assert (record.topic, record.body, record.properties) == (TOPIC, b"reply!", PROPERTIES)


async def test_a_reply_is_only_passed_on_where_replies_are_not_stored() -> None:
    async with (
        broker(storeReplyMessageEnable="false") as running,
        await requester(running.address) as asker,
        BrokerPeer(running.address) as replier,
    ):
        answer = await replier.request(reply(), 5)
        assert (answer.code, answer.ext["msgId"], answer.ext["queueOffset"]) == (ResponseCode.SUCCESS, "0", "0")
        assert (await asker.told()).body == b"reply!"
        bounds = await replier.ask(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})
        assert bounds.ext["offset"] == "0"


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (PROPERTIES | {names.REPLY_TO_CLIENT: "nobody"}, "<nobody> is not connected"),
        ({names.MSG_TYPE: "reply"}, "no property REPLY_TO_CLIENT"),
    ],
)
async def test_a_reply_to_nobody_is_refused_and_stored(properties: dict[str, str], told: str) -> None:
    """S208."""
    async with broker() as running, BrokerPeer(running.address) as replier:
        answer = await replier.request(reply(i=format_properties(properties)), 5)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None
        assert told in answer.remark
        assert answer.ext["queueOffset"] == "0"
        assert len(answer.ext["msgId"]) == 32


async def test_a_full_disk_keeps_no_reply_from_its_requester() -> None:
    """S207, S208: it is not stored, and the replier learns only what became of the push."""
    async with broker() as running, await requester(running.address) as asker, BrokerPeer(running.address) as replier:
        running.storage.store.is_disk_full = True
        answer = await replier.request(reply(), 5)
        assert (answer.code, answer.ext["msgId"]) == (ResponseCode.SUCCESS, "0")
        assert (await asker.told()).body == b"reply!"
        await asker.close()
        answer = await replier.request(reply(), 5)
        assert (answer.code, "msgId" in answer.ext) == (ResponseCode.SYSTEM_ERROR, False)
        assert "cidX" in str(answer.remark)


async def test_a_requester_that_refuses_or_goes_is_told_of(clock: FakeClock) -> None:
    """S208: the replier learns of it."""
    async with (
        broker(clock=clock, files=MemoryFileSystem(clock, capacity=2**30)) as running,
        BrokerPeer(running.address) as replier,
    ):
        asker = await requester(running.address)
        asker.answers[PUSH] = response(ResponseCode.SYSTEM_ERROR, "not mine")
        refused = await replier.request(reply(), 5)
        assert (refused.code, "code 1: not mine" in str(refused.remark)) == (ResponseCode.SYSTEM_ERROR, True)
        assert (await asker.told()).code == PUSH
        del asker.answers[PUSH]
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(replier.request(reply(), 60))
            assert (await asker.told()).code == PUSH
            await asker.close()
        lost = waiting.result()
        assert (lost.code, "cidX" in str(lost.remark)) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_client_that_came_back_gets_replies_on_its_new_connection() -> None:
    """The old connection may be open still: nobody has noticed yet that it leads nowhere."""
    async with (
        broker() as running,
        await requester(running.address),
        await requester(running.address) as newer,
        BrokerPeer(running.address) as replier,
    ):
        assert (await replier.request(reply(), 5)).code == ResponseCode.SUCCESS
        assert (await newer.told()).body == b"reply!"


async def test_a_stored_reply_keeps_the_mark_of_its_compression() -> None:
    flag = CompressionType.ZLIB.sys_flag
    async with broker() as running, await requester(running.address) as asker, BrokerPeer(running.address) as replier:
        answer = await replier.request(reply(f=str(flag | 4)), 5)
        assert (await asker.told()).ext["sysFlag"] == str(flag | 4)
        stored = await replier.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(int(answer.ext["msgId"][16:], 16))})
        assert decode_record(stored.body, 0).sys_flag == flag


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"b": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
        ({"b": "no/topic"}, ResponseCode.INVALID_PARAMETER),
        ({"b": "unknown", "c": "none"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"e": "9"}, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_a_reply_is_checked_as_a_message_is(fields: dict[str, str], code: ResponseCode) -> None:
    """S207: the topic's checks come first, and then nothing is pushed or stored."""
    async with broker() as running, await requester(running.address) as asker, BrokerPeer(running.address) as replier:
        answer = await replier.request(reply(b"reply!", **fields), 5)
        assert (answer.code, answer.ext["MSG_REGION"]) == (code, "DefaultRegion")
        assert await asker.told_meanwhile() == []


async def test_odd_replies_are_passed_on_and_the_broker_goes_on() -> None:
    """An empty body, a delay that is no number, a queue that the broker may choose."""
    odd = format_properties(PROPERTIES | {names.DELAY: "soon"})
    async with broker() as running, await requester(running.address) as asker, BrokerPeer(running.address) as replier:
        assert (await replier.request(reply(b""), 5)).ext["msgId"] == "0"
        assert (await replier.request(reply(i=odd), 5)).code == ResponseCode.SUCCESS
        assert (await replier.request(reply(e="-1"), 5)).code == ResponseCode.SUCCESS
        assert [each.body for each in await asker.told_meanwhile()] == [b"", b"reply!", b"reply!"]


async def test_a_thousand_replies_at_once_each_reach_their_requester() -> None:
    """S207."""
    async with broker() as running, await requester(running.address) as asker, BrokerPeer(running.address) as replier:
        answers = await asyncio.gather(*(replier.request(reply(b"%d" % n), 30) for n in range(1000)))
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        assert {each.body for each in await asker.told_meanwhile()} == {b"%d" % n for n in range(1000)}
