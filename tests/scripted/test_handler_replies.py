"""Replies that handlers returned: to which broker they go, how often, and what becomes of the message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.replies import Reply, reply
from rocketline.model import property_names as names
from rocketline.model.subscription import ConsumeFromWhere, MessageModel
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import response
from rocketline.wire.properties import parse_properties
from support.clients.members import settled, until

PULL, REPLY, BACK = RequestCode.PULL_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2, RequestCode.CONSUMER_SEND_MSG_BACK
STORED = {"msgId": "0", "queueId": "0", "queueOffset": "0"}


async def answer(message: ReceivedMessage) -> Reply:
    return reply(message, b"re:" + message.body)


@asynccontextmanager
async def replying(
    peer: ScriptedPeer,
    clock: FakeClock,
    *,
    ttl: str = "60000",
    is_orderly: bool = False,
    model: MessageModel = MessageModel.CLUSTERING,
    handler: Callable[[ReceivedMessage], Awaitable[Reply]] = answer,
) -> AsyncIterator[PushConsumer]:
    """A consumer that replies to two requests, which were made just now."""
    peer.route("T", queues=1)
    peer.route("C_REPLY_TOPIC", queues=1)
    for number in range(2):
        asks = {names.CLUSTER: "C", names.CORRELATION_ID: f"c{number}", names.REPLY_TO_CLIENT: "asker", names.TTL: ttl}
        peer.broker.put("T", b"%d" % number, properties=asks)
    consumer = PushConsumer(
        peer.address,
        group="g",
        clock=clock,
        orderly=is_orderly,
        message_model=model,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe("T", "*", handler)
    async with consumer:
        await until(lambda: any(queue.topic == "T" for queue in consumer.queues))
        clock.advance(0.5)
        yield consumer


def replied(peer: ScriptedPeer) -> list[tuple[str, bytes]]:
    """Which requests were replied to so far, and how."""
    return [(parse_properties(each.ext["i"])[names.CORRELATION_ID], each.body) for each in peer.requests(REPLY)]


async def let_pass(clock: FakeClock, seconds: float) -> None:
    for _ in range(round(seconds * 10)):
        clock.advance(0.1)
        await settled()


@pytest.mark.parametrize("model", [MessageModel.CLUSTERING, MessageModel.BROADCASTING])
async def test_each_request_is_replied_to_once_and_consumed(
    peer: ScriptedPeer, clock: FakeClock, model: MessageModel, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C117: by every member, if the group broadcasts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    peer.on(REPLY).reply(STORED)
    async with replying(peer, clock, model=model) as consumer:
        await until(lambda: len(replied(peer)) == 2)
        assert sorted(replied(peer)) == [("c0", b"re:0"), ("c1", b"re:1")]
        assert {each.ext["b"] for each in peer.requests(REPLY)} == {"C_REPLY_TOPIC"}
        await consumer.close()
    assert not peer.requests(BACK)


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_requester_that_comes_back_gets_its_reply(
    peer: ScriptedPeer, clock: FakeClock, is_orderly: bool
) -> None:
    peer.on(REPLY).reply(code=1, remark="not connected", times=2).reply(STORED)
    async with replying(peer, clock, is_orderly=is_orderly):
        await until(lambda: len(replied(peer)) > 0)
        await let_pass(clock, 2)
        assert {each for each, _ in replied(peer)} == {"c0", "c1"}
        assert 3 <= len(replied(peer)) <= 4
    assert not peer.requests(BACK)


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_requester_is_waited_for_behind_a_lost_connection_too(
    peer: ScriptedPeer, clock: FakeClock, is_orderly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The reply went to whichever broker could be reached, and the requester was not back there either."""
    peer.on(REPLY).drop(times=2).reply(code=1, remark="not connected", times=4).reply(STORED)
    async with replying(peer, clock, is_orderly=is_orderly) as consumer:
        await until(lambda: len(replied(peer)) > 0)
        await let_pass(clock, 5)
        assert {each for each, _ in replied(peer)} == {"c0", "c1"}
        assert len(replied(peer)) == 8
        assert "reply not delivered" not in caplog.text
        await consumer.close()
    assert peer.broker.offsets["g", "T", 0] == 2
    assert not peer.requests(BACK)


@pytest.mark.parametrize("is_orderly", [False, True])
@pytest.mark.parametrize(("ttl", "count"), [("100", 1), ("1000", 1), ("60000", 4), ("", 4), ("9" * 30, 4), ("x", 4)])
async def test_who_has_given_up_is_not_waited_for(
    peer: ScriptedPeer, clock: FakeClock, is_orderly: bool, ttl: str, count: int
) -> None:
    """A requester that is gone holds nothing up once the time of its request is over; it is asked for again before."""
    peer.on(REPLY).reply(code=1, remark="not connected")
    async with replying(peer, clock, ttl=ttl, is_orderly=is_orderly):
        clock.advance(2 if len(ttl) != 3 else 100)
        await until(lambda: len(replied(peer)) > 0)
        await let_pass(clock, 7)
        assert [each for each, _ in sorted(replied(peer))] == ["c0"] * count + ["c1"] * count
    assert not peer.requests(BACK)


@pytest.mark.parametrize("attribute", ["body", "properties"])
@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_reply_that_nobody_could_send_holds_up_no_queue(
    peer: ScriptedPeer, clock: FakeClock, is_orderly: bool, attribute: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The application has put text into it, say. To handle the message again would not mend that."""

    async def answer_text(message: ReceivedMessage) -> Reply:
        made = await answer(message)
        if message.body == b"0":
            setattr(made, attribute, "text")
        return made

    peer.on(REPLY).reply(STORED)
    async with replying(peer, clock, is_orderly=is_orderly, handler=answer_text) as consumer:
        await until(lambda: ("c1", b"re:1") in replied(peer))
        await until(lambda: "reply not delivered" in caplog.text)
        await consumer.close()
    assert peer.broker.offsets["g", "T", 0] == 2
    assert not peer.requests(BACK)


async def test_while_a_reply_is_on_its_way_its_message_is_not_consumed(peer: ScriptedPeer, clock: FakeClock) -> None:
    """Should this process die before, another member replies."""
    script = peer.on(REPLY).hold(lambda _: response(0, ext=STORED))
    async with replying(peer, clock) as consumer:
        await until(lambda: len(replied(peer)) == 2)
        await let_pass(clock, 6)
        assert peer.broker.offsets.get(("g", "T", 0), 0) == 0
        script.release()
        await settled()
        await consumer.close()
    assert peer.broker.offsets["g", "T", 0] == 2
