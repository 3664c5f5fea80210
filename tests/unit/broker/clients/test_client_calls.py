"""Calls to clients: what the administrator is answered, whatever the client does."""

from __future__ import annotations

import asyncio
import itertools
from unittest.mock import Mock, patch

import pytest

from rocketline.broker.clients import client_calls
from rocketline.broker.clients.client_calls import ClientCalls, offset_list
from rocketline.broker.clients.memberships import Client
from rocketline.broker.request_body import read_body
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.net.channel import LATER, Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame, headers
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody, ResetOffsetList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from support.brokers.connections import channel, client_on
from support.net.doubles import MemoryTransport, feed, turn

Q0, Q1 = MessageQueue("T", "B", 0), MessageQueue("T", "B", 1)


class Scene:
    """An administrator on one connection, clients on others."""

    def __init__(self, clock: FakeClock, *, calls_max: int = 9) -> None:
        self.clock = clock
        self.calls = ClientCalls(calls_max=calls_max, log=Throttle(clock))
        self.admin, self.admin_line = channel(clock)
        self.request = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=77)

    def client(self, client_id: str = "c") -> tuple[Client, MemoryTransport]:
        line = channel(self.clock)
        return client_on(line[0], self.clock, client_id), line[1]

    def relay(self, client: Client) -> object:
        call = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, {"clientId": client.client_id})
        # A handler that answers LATER is counted by its channel, which `reply` takes back.
        return self.calls.relay(self.admin, self.request, client, call)

    def ask_status(self, *clients: Client) -> object:
        return self.calls.ask_status(self.admin, self.request, clients, "T", "g")

    async def answered(self) -> Command:
        while not self.admin_line.written:
            await turn()
        (answer,) = self.admin_line.commands()
        assert answer.opaque == 77
        return answer


def answer(member: Channel, line: MemoryTransport, reply: Command) -> Command:
    """The client answers what it was last asked."""
    asked = line.commands()[-1]
    reply.opaque = asked.opaque
    feed(member, frame.encode(reply))
    return asked


async def asked(*lines: MemoryTransport) -> None:
    while not all(line.written for line in lines):
        await turn()


@pytest.fixture
def scene(clock: FakeClock) -> Scene:
    return Scene(clock)


async def test_relay_passes_the_call_on_and_the_answer_back(scene: Scene) -> None:
    client, line = scene.client()
    async with scene.calls:
        assert scene.relay(client) is LATER
        await asked(line)
        reply = response(ResponseCode.SYSTEM_ERROR, "my words", ext={"k": "v"}, body=b"state")
        call = answer(client.channel, line, reply)
        got = await scene.answered()
    assert (call.code, call.ext) == (RequestCode.GET_CONSUMER_RUNNING_INFO, {"clientId": "c"})
    assert (got.code, got.remark, got.ext, got.body) == (ResponseCode.SYSTEM_ERROR, "my words", {"k": "v"}, b"state")


async def test_relay_to_a_silent_client_ends_as_a_timeout(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """S218."""
    monkeypatch.setattr(client_calls, "RELAY_TIMEOUT_S", 0.01)
    client, line = scene.client("c9")
    async with scene.calls:
        scene.relay(client)
        await asked(line)
        scene.clock.advance(1)
        got = await scene.answered()
    assert got.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert "c9" in (got.remark or "")


async def test_relay_to_a_client_that_leaves_is_an_error(scene: Scene) -> None:
    client, line = scene.client()
    async with scene.calls:
        scene.relay(client)
        await asked(line)
        line.close()
        assert (await scene.answered()).code == ResponseCode.SYSTEM_ERROR


async def test_relay_that_fails_by_our_own_fault_is_answered_and_ends_nothing(scene: Scene) -> None:
    client, line = scene.client()
    broken = Mock(channel=Mock(is_congested=False, request=Mock(side_effect=KeyError("a fault of ours"))))
    async with scene.calls:
        scene.calls.relay(scene.admin, scene.request, broken, Command(1))
        got = await scene.answered()
        assert (got.code, got.remark) == (ResponseCode.SYSTEM_ERROR, "KeyError: 'a fault of ours'")
        scene.relay(client)
        await asked(line)


async def test_one_call_too_many_is_refused_at_once(clock: FakeClock) -> None:
    scene = Scene(clock, calls_max=1)
    client, line = scene.client()
    async with scene.calls:
        scene.relay(client)
        refused = scene.relay(client)
        assert isinstance(refused, Command)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        await asked(line)
        answer(client.channel, line, response(0))
        await scene.answered()
        assert scene.relay(client) is LATER


async def test_status_is_asked_of_all_at_once_and_merged_by_client_id(scene: Scene) -> None:
    (a, a_line), (b, b_line) = scene.client("a"), scene.client("b")
    async with scene.calls:
        assert scene.ask_status(a, b) is LATER
        await asked(a_line, b_line)
        call = answer(b.channel, b_line, response(0, body=encode(ConsumerStatus({Q0: 5, Q1: 6}))))
        answer(a.channel, a_line, response(0, body=encode(ConsumerStatus({}))))
        got = await scene.answered()
    assert (call.code, call.ext) == (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "g"})
    assert decode(ConsumerStatus, got.body).consumer_table == {"a": {}, "b": {Q0: 5, Q1: 6}}
    assert b'"messageQueueTable":{}' in got.body


async def test_clients_that_do_not_tell_their_status_are_left_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_calls, "STATUS_TIMEOUT_S", 0.05)
    clients = [scene.client(name) for name in ("failing", "babbling", "empty", "leaving", "silent", "good")]
    replies = [response(1), response(0, body=b"{not json"), response(0), None, None]
    async with scene.calls:
        scene.ask_status(*(client for client, _ in clients))
        await asked(*(line for _, line in clients))
        for (client, line), reply in zip(clients, replies, strict=False):
            if reply is not None:
                answer(client.channel, line, reply)
        clients[3][1].close()
        answer(clients[5][0].channel, clients[5][1], response(0, body=encode(ConsumerStatus({Q0: 1}))))
        await turn()
        scene.clock.advance(1)
        got = await scene.answered()
    assert got.code == ResponseCode.SUCCESS
    assert decode(ConsumerStatus, got.body).consumer_table == {"good": {Q0: 1}}


@pytest.mark.parametrize("is_for_cpp", [False, True])
async def test_reset_is_told_to_all_in_the_form_that_was_asked_for(scene: Scene, is_for_cpp: bool) -> None:
    (a, a_line), (b, b_line) = scene.client("a"), scene.client("b")
    header = headers.ResetOffsetRequestHeader(group="g", topic="T", timestamp=9, is_force=True)
    offsets = {Q0: 7, Q1: 8}
    body = offset_list(offsets) if is_for_cpp else ResetOffsetBody(offsets)
    async with scene.calls:
        assert scene.calls.reset_offsets([a, b], header, encode(body))
        await asked(a_line, b_line)
    for line in (a_line, b_line):
        (told,) = line.commands()
        assert (told.code, told.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
        assert headers.decode(headers.ResetOffsetRequestHeader, told.ext) == header
        if is_for_cpp:
            items = decode(ResetOffsetList, told.body).offset_table
            offsets = {MessageQueue(item.topic, item.broker_name, item.queue_id): item.offset for item in items}
        else:
            offsets = decode(ResetOffsetBody, told.body).offset_table
        assert offsets == {Q0: 7, Q1: 8}


async def test_reset_goes_on_when_a_client_is_gone(scene: Scene) -> None:
    (a, a_line), (b, b_line) = scene.client("a"), scene.client("b")
    a_line.close()
    header = headers.ResetOffsetRequestHeader(group="g", topic="T", timestamp=9, is_force=True)
    async with scene.calls:
        assert scene.calls.reset_offsets([a, b], header, encode(ResetOffsetBody({Q0: 7})))
        await asked(b_line)


async def test_answers_of_clients_are_read_one_in_a_turn_and_long_ones_are_left_out(scene: Scene) -> None:
    lines = [scene.client(f"c{number}") for number in range(4)]
    long_one = b'{"messageQueueTable":{' + b'{"topic":"T"}:1,' * 5_000 + b'{"topic":"T"}:1}}'
    bodies = [encode(ConsumerStatus({Q0: number})) for number in range(3)]
    read = Mock(side_effect=read_body)
    with patch.object(client_calls, "read_body", read):
        async with scene.calls:
            scene.ask_status(*(client for client, _ in lines))
            await asked(*(line for _, line in lines))
            for (client, line), body in zip(lines, [*bodies, long_one], strict=True):
                answer(client.channel, line, response(0, body=body))
            counts = []
            while not scene.admin_line.written:
                await asyncio.sleep(0)
                counts.append(read.call_count)
            got = await scene.answered()
    assert max(after - before for before, after in itertools.pairwise([0, *counts])) == 1
    assert decode(ConsumerStatus, got.body).consumer_table == {f"c{number}": {Q0: number} for number in range(3)}
    assert scene.calls.bytes == 0


async def test_what_calls_keep_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_calls, "CALLS_BYTES_MAX", 1_000)
    client, line = scene.client()
    async with scene.calls:
        first = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, body=bytes(900))
        assert scene.calls.relay(scene.admin, scene.request, client, first) is LATER
        await asked(line)
        assert scene.calls.bytes == 900
        second = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, {"field": "x" * 96})
        refused = scene.calls.relay(scene.admin, scene.request, client, second)
        assert isinstance(refused, Command)
        assert (refused.code, scene.calls.bytes) == (ResponseCode.SYSTEM_BUSY, 900)
        answer(client.channel, line, response(0))
        await scene.answered()
        await turn()
        assert scene.calls.bytes == 0
        assert scene.ask_status(client) is LATER
        await turn()
        answer(client.channel, line, response(0, body=bytes(300)))
        await turn()
    assert scene.calls.bytes == 0


async def test_client_that_takes_nothing_is_asked_nothing(scene: Scene) -> None:
    client, line = scene.client()
    client.channel.pause_writing()
    async with scene.calls:
        refused = scene.relay(client)
        assert isinstance(refused, Command)
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_BUSY, "client c takes nothing now: try again")
    assert line.written == []


async def test_administrator_that_takes_nothing_gets_a_short_answer(scene: Scene) -> None:
    client, line = scene.client()
    async with scene.calls:
        scene.relay(client)
        await asked(line)
        scene.admin.pause_writing()
        answer(client.channel, line, response(0, body=bytes(10_000)))
        got = await scene.answered()
    assert (got.code, got.body) == (ResponseCode.SYSTEM_BUSY, b"")


async def test_end_gives_up_what_runs(scene: Scene) -> None:
    client, line = scene.client()
    async with scene.calls:
        scene.relay(client)
        scene.ask_status(client)
        await asked(line)
        scene.relay(client)
    await asyncio.sleep(0)
    assert scene.admin_line.written == []
