"""Batches of thousands: stored in pieces, one in a turn of the loop, and refused before any of it is stored."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import cast

import pytest

from rocketline.broker.sends.batch_members import MEMBERS_AT_ONCE
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import LATER, Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command
from support.brokers.sends import Sends, send_v2
from support.brokers.tables import Tables, tables

COUNT = 2 * MEMBERS_AT_ONCE + 500
BIG_LOG = str(16 * 1024 * 1024)


def member(body: bytes = b"x", properties: bytes = b"") -> bytes:
    size = struct.calcsize(">iiiiih") + len(body) + len(properties)
    return struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(properties)) + properties


def batch(body: bytes) -> Command:
    return send_v2(body, {"m": "true"}, properties="")


class Peer:
    """A connection that notes its answers."""

    is_closed = is_congested = False
    peer = "127.0.0.1:50000"
    read_s = FakeClock().monotonic()

    def __init__(self) -> None:
        self.answers: list[Command] = []

    def reply(self, request: Command, answer: Command) -> None:
        self.answers.append(answer)


@pytest.fixture
def made(clock: FakeClock) -> Iterator[Tables]:
    with tables(clock, mappedFileSizeCommitLog=BIG_LOG) as made:
        yield made


def stored(made: Tables) -> int:
    return made.store.queues.make("T", 0).max_offset


def test_a_piece_a_turn_is_stored_and_others_are_served_meanwhile(made: Tables) -> None:
    sends, peer = Sends(made), Peer()
    channel = cast("Channel", peer)
    assert sends.handle(channel, batch(member() * COUNT)) is LATER
    seen = []
    while sends.soon:
        before = stored(made)
        sends.soon.pop(0)()
        seen.append(stored(made) - before)
        if seen[-1] == MEMBERS_AT_ONCE and not peer.answers:
            made.append(b"of another producer")
    assert max(seen) == MEMBERS_AT_ONCE
    (answer,) = peer.answers
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext["queueOffset"], len(set(answer.ext["msgId"].split(",")))) == ("0", COUNT)
    assert stored(made) == COUNT + seen.count(MEMBERS_AT_ONCE)


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (member()[:-1], ResponseCode.SYSTEM_ERROR),
        (member(properties=b"DELAY\x013\x02"), ResponseCode.MESSAGE_ILLEGAL),
        (member(properties=b"TIMER_DELIVER_MS\x019000000000000\x02"), ResponseCode.MESSAGE_ILLEGAL),
        (member(properties=b"TIMER_DELAY_SEC\x013\x02"), ResponseCode.MESSAGE_ILLEGAL),
        (member(properties=b"a\x01" + bytes(1024) + b"\x02"), ResponseCode.MESSAGE_ILLEGAL),
    ],
    ids=["cut short", "delayed", "for a moment", "for a time from now", "would look torn"],
)
def test_one_bad_message_at_the_end_refuses_all_of_it(made: Tables, last: bytes, code: ResponseCode) -> None:
    sends, peer = Sends(made), Peer()
    assert sends.handle(cast("Channel", peer), batch(member() * COUNT + last)) is LATER
    while sends.soon:
        sends.soon.pop(0)()
    assert [answer.code for answer in peer.answers] == [code]
    assert stored(made) == 0


def test_messages_that_a_timer_let_go_may_be_sent_on_in_a_batch(made: Tables) -> None:
    """They still say when they were to be delivered."""
    sends, peer = Sends(made), Peer()
    released = b"TIMER_DELAY_SEC\x013\x02TIMER_OUT_MS\x011700000000000\x02"
    answer = sends.handle(cast("Channel", peer), batch(member(properties=released) * 2))
    assert isinstance(answer, Command)
    assert answer.code == ResponseCode.SUCCESS
    assert stored(made) == 2


def test_rest_of_it_is_refused_if_its_topic_goes_meanwhile(made: Tables) -> None:
    sends, peer = Sends(made), Peer()
    sends.handle(cast("Channel", peer), batch(member() * COUNT))
    while not stored(made):
        sends.soon.pop(0)()
    made.topics.update(TopicConfig("T", 1, 1))
    while sends.soon:
        sends.soon.pop(0)()
    assert [answer.code for answer in peer.answers] == [ResponseCode.SYSTEM_ERROR]
    assert stored(made) == MEMBERS_AT_ONCE


def test_hot_path_leaves_them_to_the_handler(made: Tables) -> None:
    sends = Sends(made)
    small, large = (frame.encode(batch(member() * count)) for count in (MEMBERS_AT_ONCE, MEMBERS_AT_ONCE + 1))
    assert sends.take(small, made.clock.monotonic())[0] == len(small)
    assert sends.take(large, made.clock.monotonic())[0] == 0
