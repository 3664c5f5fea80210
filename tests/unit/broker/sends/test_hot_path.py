from __future__ import annotations

import pytest

from rocketline.errors import StoreFullError
from rocketline.net.channel import ChannelLimits
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from support.brokers.sends import Peer, Sends, send_v2
from support.brokers.tables import Tables, message, tables
from support.net.doubles import RecordingOwner, connected, feed, turn


def sends(*opaques: int, body: bytes = b"x") -> bytes:
    return b"".join(frame.encode(send_v2(body, opaque=opaque)) for opaque in opaques)


def codes(peer: Peer) -> list[tuple[int, int]]:
    """Opaque and code of each answer."""
    reader, answers = frame.FrameReader(), []
    reader.feed(peer.replies)
    while (whole := reader.take()) is not None:
        answer = frame.decode(whole)
        answers.append((answer.opaque, answer.code))
    return answers


def peers(made: Tables, count: int) -> list[Peer]:
    return [Peer(made.clock.monotonic()) for _ in range(count)]


def test_what_several_connections_bring_in_one_turn_is_written_and_answered_at_its_end() -> None:
    with tables(FakeClock()) as made:
        taking, (first, second) = Sends(made), peers(made, 2)
        assert taking.path(first, sends(1, 2), 0, 1 << 20)[2] == 2
        assert taking.path(second, sends(7), 0, 1 << 20)[2] == 1
        assert (made.store.max_log_offset, first.replies, second.replies) == (0, b"", b"")
        assert len(taking.soon) == 1
        taking.end_turn()
        assert (codes(first), codes(second)) == ([(1, 0), (2, 0)], [(7, 0)])
        assert made.store.max_offset("T", 0) == 3


def test_message_that_comes_late_in_a_turn_is_not_stored_before_it_was_sent() -> None:
    clock = FakeClock()
    with tables(clock) as made:
        taking, (first, second) = Sends(made), peers(made, 2)
        taking.path(first, sends(1), 0, 1 << 20)
        clock.advance(0.005)
        taking.path(second, sends(2), 0, 1 << 20)
        taking.end_turn()
        early, late = (made.store.store_ms_at("T", 0, offset) for offset in (0, 1))
        assert late - early == 5


def test_whoever_else_writes_comes_after_what_the_turn_has_laid_out() -> None:
    with tables(FakeClock()) as made:
        taking, [peer] = Sends(made), peers(made, 1)
        taking.path(peer, sends(1), 0, 1 << 20)
        assert made.store.append(message("T")).queue_offset == 1
        assert codes(peer) == [(1, 0)]
        taking.end_turn()
        assert made.store.max_offset("T", 0) == 2


async def test_send_that_was_held_for_want_of_room_begins_no_turn_while_somebody_else_writes() -> None:
    with tables(FakeClock()) as made:
        taking, limits = Sends(made), ChannelLimits(unanswered_max=1)
        channel, transport = connected(RecordingOwner(made.clock, limits=limits, hot_path=taking.path))
        feed(channel, sends(1))
        feed(channel, sends(2))
        assert not transport.is_reading()
        assert made.store.append(message("T")).queue_offset == 1, "its answers make room for the second send"
        await turn()
        taking.end_turn()
        await turn()
        assert [(answer.opaque, answer.code) for answer in transport.commands()] == [(1, 0), (2, 0)]
        assert made.store.max_offset("T", 0) == 3


async def test_turn_that_is_full_answers_others_and_handles_none_of_what_they_have_held() -> None:
    with tables(FakeClock()) as made:
        taking, limits = Sends(made), ChannelLimits(unanswered_max=1)
        owner = RecordingOwner(made.clock, limits=limits, hot_path=taking.path)
        lines = [connected(owner) for _ in range(3)]
        for number, (channel, _) in enumerate(lines):
            feed(channel, sends(number))
            feed(channel, sends(10 + number))
        [peer] = peers(made, 1)
        taking.path(peer, sends(7, 8, 9, body=bytes(400_000)), 0, 1 << 20)
        assert codes(peer) == [(7, 0), (8, 0), (9, 0)]
        assert made.store.max_offset("T", 0) == 6, "one turn, and no other inside of it"
        assert not any(transport.is_reading() for _, transport in lines)
        await turn()
        taking.end_turn()
        assert made.store.max_offset("T", 0) == 9
        await turn()
        assert [len(transport.commands()) for _, transport in lines] == [2, 2, 2]


def test_store_that_closes_takes_what_the_turn_has_laid_out() -> None:
    with tables(FakeClock()) as made:
        taking, [peer] = Sends(made), peers(made, 1)
        taking.path(peer, sends(1), 0, 1 << 20)
    assert codes(peer) == [(1, 0)]


def test_messages_before_the_place_where_the_disk_ran_full_are_stored_and_the_others_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tables(FakeClock()) as made:
        taking, (first, second) = Sends(made), peers(made, 2)
        log, make_room = made.store.log, made.store.log.make_room
        monkeypatch.setattr(log, "make_room", lambda size: _full() if log.end else make_room(size))
        big = bytes(400_000)
        taking.path(first, sends(1, 2, body=big), 0, 1 << 20)
        taking.path(second, sends(3, 4, body=big), 0, 1 << 20)
        taking.end_turn()
        assert codes(first) == [(1, 0), (2, 0)]
        assert (codes(second), second.answered) == ([], 0), "the third did not fit, and is left to the handlers"
        assert made.store.max_offset("T", 0) == 2


def _full() -> None:
    raise StoreFullError("no space")


def test_failed_write_refuses_the_whole_turn_and_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with tables(FakeClock()) as made:
        taking, (first, second) = Sends(made), peers(made, 2)
        taking.path(first, sends(1), 0, 1 << 20)
        taking.path(second, sends(2), 0, 1 << 20)
        monkeypatch.setattr(made.store.log, "write", _torn)
        taking.end_turn()
        assert (codes(first), codes(second)) == ([(1, 14)], [(2, 14)])
        assert b"Input/output" in first.replies
        assert made.store.max_offset("T", 0) == 0
        assert taking.path(first, sends(3), 0, 1 << 20) == (0, b"", 0), "left to the handlers, who say why"


def _torn(data: bytes) -> None:
    raise OSError(5, "Input/output error")
