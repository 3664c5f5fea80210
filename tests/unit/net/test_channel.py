from __future__ import annotations

import asyncio

import pytest

from rocketline.clock import SystemClock
from rocketline.errors import ConnectionLostError, OverloadedError, RemoteProtocolError, RequestTimeoutError
from rocketline.hot import HotPeer
from rocketline.net.channel import LATER, Channel, ChannelLimits, Outcome
from rocketline.net.turns import PAUSE_S, LongTurns
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.codes import ResponseCode, SerializeType
from rocketline.wire.command import ONEWAY_FLAG, Command, response
from support.net.doubles import MemoryTransport, RecordingOwner, connected, feed, turn

LONG = 999


def request(opaque: int, *, code: int = 105, body: bytes = b"", flag: int = 0) -> bytes:
    return frame.encode(Command(code, body=body, opaque=opaque, flag=flag))


async def test_request_when_answered_keeps_its_opaque_and_has_the_response_flag(clock: FakeClock) -> None:
    """S3."""
    channel, transport = connected(RecordingOwner(clock))
    feed(channel, request(77, body=b"x"))
    (answer,) = transport.commands()
    assert (answer.opaque, answer.is_response, answer.body) == (77, True, b"x")


async def test_frames_of_one_read_are_answered_in_one_write(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    feed(channel, b"".join(request(n) for n in range(50)))
    assert len(transport.written) == 1
    assert [c.opaque for c in transport.commands()] == list(range(50))


async def test_oneway_request_gets_no_answer_even_if_it_fails(clock: FakeClock) -> None:
    """S2."""

    def refuse(channel: Channel, request: Command) -> Outcome:
        return response(ResponseCode.SYSTEM_ERROR, "no")

    channel, transport = connected(RecordingOwner(clock, refuse))
    feed(channel, request(1, flag=ONEWAY_FLAG))
    await turn()
    assert transport.written == []


async def test_binary_request_is_answered_in_the_servers_own_encoding(clock: FakeClock) -> None:
    """S8."""
    channel, transport = connected(RecordingOwner(clock))
    feed(channel, frame.encode(Command(105, opaque=3, serialize_type=SerializeType.ROCKETMQ)))
    (answer,) = transport.commands()
    assert (answer.serialize_type, answer.opaque) == (SerializeType.JSON, 3)


async def test_hot_path_answers_what_it_knows_and_leaves_the_rest(clock: FakeClock) -> None:
    known, asked = request(1), []

    def hot_path(peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        asked.append(data[start:])
        count = 0
        while data.startswith(known, start):
            start, count = start + len(known), count + 1
        return start, b"HOT!" * count, 0

    owner = RecordingOwner(clock, hot_path=hot_path)
    channel, transport = connected(owner)
    feed(channel, known + known + request(2) + known + request(3)[:20])
    (written,) = transport.written
    assert written.startswith(b"HOT!HOT!")
    assert written.endswith(b"HOT!")
    assert [r.opaque for r in owner.requests] == [2]
    assert len(asked) == 2, "one call for a run of known frames"
    feed(channel, request(3)[20:])
    assert [r.opaque for r in owner.requests] == [2, 3]


async def test_hot_path_is_told_how_many_bytes_this_turn_may_still_make(clock: FakeClock) -> None:
    known, budgets = request(1), []

    def hot_path(peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        budgets.append(reply_bytes_max)
        is_known = data.startswith(known, start)
        return (start + len(known), bytes(100_000), 0) if is_known else (start, b"", 0)

    channel, transport = connected(RecordingOwner(clock, hot_path=hot_path))
    feed(channel, (known + request(2)) * 3)
    assert budgets[0] == 256 * 1024
    assert budgets[1] < budgets[0] - 100_000
    assert not transport.is_reading()
    await turn()
    assert transport.is_reading()


async def test_frame_over_the_limit_closes_without_an_answer(clock: FakeClock) -> None:
    """S7."""
    owner = RecordingOwner(clock)
    channel, transport = connected(owner)
    feed(channel, (16 * 1024 * 1024).to_bytes(4, "big"))
    await turn()
    assert transport.closed
    assert transport.written == []
    ((_, reason),) = owner.closed
    assert isinstance(reason, RemoteProtocolError)


async def test_requests_before_a_broken_frame_are_still_answered(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    feed(channel, request(1) + b"\x00\x00\x00\x08\x07\x00\x00\x04abcd" + request(2))
    assert [c.opaque for c in transport.commands()] == [1]
    assert transport.closed
    await turn()


async def test_peer_that_reads_nothing_stops_the_handling_of_its_requests(clock: FakeClock) -> None:
    owner = RecordingOwner(clock, limits=ChannelLimits(write_high_bytes=1000, write_low_bytes=500))
    channel, transport = connected(owner)
    transport.takes_bytes = False
    feed(channel, b"".join(request(n, body=b"x" * 100_000) for n in range(2)))
    feed(channel, request(9) * 100)
    assert not transport.is_reading()
    handled = len(owner.requests)
    assert handled < 102
    transport.drain()
    await turn()
    assert len(owner.requests) == 102
    assert transport.is_reading()
    assert len(transport.commands()) == 102


async def test_one_turn_makes_a_bounded_amount_of_answers(clock: FakeClock) -> None:
    """A loop that reports a full transport only after the turn (uvloop) must not be given everything at once."""

    def big(channel: Channel, request: Command) -> Outcome:
        return response(0, body=b"x" * 50_000)

    channel, transport = connected(RecordingOwner(clock, big))
    feed(channel, request(1) * 100)
    first = sum(map(len, transport.written))
    assert 256 * 1024 <= first < 256 * 1024 + 60_000
    assert not transport.is_reading()
    while not transport.is_reading():
        await turn()
    assert len(transport.commands()) == 100


async def test_unanswered_requests_stop_reading_at_the_bound_and_an_answer_resumes_it(clock: FakeClock) -> None:
    parked: list[tuple[Channel, Command]] = []

    def park(channel: Channel, request: Command) -> Outcome:
        parked.append((channel, request))
        return LATER

    channel, transport = connected(RecordingOwner(clock, park, limits=ChannelLimits(unanswered_max=3)))
    feed(channel, b"".join(request(n) for n in range(5)))
    assert len(parked) == 3
    assert not transport.is_reading()
    channel.reply(parked[1][1], response(0))
    assert len(parked) == 3, "nothing is handled in the midst of an answer"
    await turn()
    assert len(parked) == 4  # one answer makes room for one request
    channel.reply(parked[0][1], response(0))
    channel.reply(parked[2][1], response(0))
    await turn()
    assert len(parked) == 5
    assert transport.is_reading()
    assert [c.opaque for c in transport.commands()] == [1, 0, 2]


@pytest.mark.parametrize("is_write_paused", [False, True])
async def test_request_that_was_held_back_counts_as_read_when_it_is_let_in(
    clock: FakeClock, is_write_paused: bool
) -> None:
    """It was we who would not take it: the time until then must not make it too old."""
    seen: list[tuple[Command, float]] = []

    def park(channel: Channel, request: Command) -> Outcome:
        seen.append((request, channel.read_s))
        return LATER

    channel, _ = connected(RecordingOwner(clock, park, limits=ChannelLimits(unanswered_max=1)))
    read_s = clock.monotonic()
    if is_write_paused:
        channel.pause_writing()
    feed(channel, b"".join(request(n) for n in range(2)))
    clock.advance(60)
    if is_write_paused:
        channel.resume_writing()
        await turn()
    channel.reply(seen[0][0], response(0))
    await turn()
    assert [at_s for _, at_s in seen] == [read_s + 60 if is_write_paused else read_s, read_s + 60]


async def test_requests_that_wait_for_the_next_turn_grow_older(clock: FakeClock) -> None:
    seen: list[float] = []

    def slow(channel: Channel, request: Command) -> Outcome:
        seen.append(channel.read_s)
        clock.advance(1)
        return response(0)

    channel, transport = connected(RecordingOwner(clock, slow))
    read_s = clock.monotonic()
    feed(channel, request(1) * 3)
    while not transport.is_reading():
        await turn()
    assert seen == [read_s] * 3


async def test_reply_after_close_does_nothing(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock, lambda *_: LATER))
    feed(channel, request(1))
    channel.close()
    await turn()
    channel.reply(Command(105, opaque=1), response(0))
    await turn()
    assert transport.written == []


async def test_answer_too_big_for_a_frame_becomes_an_error_answer(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock, lambda *_: response(0, body=bytes(17 * 1024 * 1024))))
    feed(channel, request(4))
    (answer,) = transport.commands()
    assert (answer.code, answer.opaque) == (ResponseCode.SYSTEM_ERROR, 4)
    assert not transport.closed


async def test_own_requests_are_matched_by_opaque_in_any_order(clock: FakeClock) -> None:
    """S4."""
    channel, transport = connected(RecordingOwner(clock))
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(channel.request(Command(105, {"n": str(n)}), 5)) for n in range(3)]
        await turn()
        await turn()
        sent = transport.commands()
        assert len(transport.written) == 1, "requests of one turn share a write"
        for command in reversed(sent):
            answer = response(0, ext=command.ext)
            answer.opaque = command.opaque
            feed(channel, frame.encode(answer))
    assert [task.result().ext["n"] for task in asked] == ["0", "1", "2"]


async def test_inbound_request_with_the_opaque_of_ours_is_a_request(clock: FakeClock) -> None:
    owner = RecordingOwner(clock)
    channel, transport = connected(owner)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(channel.request(Command(105), 5))
        await turn()
        await turn()
        (mine,) = transport.commands()
        feed(channel, request(mine.opaque, code=40))
        answer = response(0, "mine")
        answer.opaque = mine.opaque
        feed(channel, frame.encode(answer))
    assert asked.result().remark == "mine"
    assert [r.code for r in owner.requests] == [40]


async def test_request_without_an_answer_times_out_and_a_late_answer_is_dropped(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    answer = channel.begin(Command(105), 3.0)
    await turn()
    clock.advance(2.9)
    channel.expire()
    assert not answer.done()
    clock.advance(0.2)
    channel.expire()
    with pytest.raises(RequestTimeoutError, match=r"127\.0\.0\.1:50000: no answer to request 105 in 3 s"):
        await answer
    late = response(0)
    late.opaque = transport.commands()[0].opaque
    feed(channel, frame.encode(late))
    assert not transport.closed


async def test_connection_lost_fails_everyone_who_waits(clock: FakeClock) -> None:
    channel, _ = connected(RecordingOwner(clock))
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_lost(channel)) for _ in range(3)]
        await turn()
        await turn()
        channel.connection_lost(ConnectionResetError("reset"))
    assert all("reset" in task.result() for task in asked)


async def _lost(channel: Channel) -> str:
    with pytest.raises(ConnectionLostError) as caught:
        await channel.request(Command(105), 5)
    return str(caught.value)


async def test_too_many_requests_in_flight_are_refused(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock, limits=ChannelLimits(in_flight_max=1)))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(channel.request(Command(105), 5))
        await turn()
        await turn()
        with pytest.raises(OverloadedError, match="1 requests are in flight"):
            await channel.request(Command(105), 5)
        answer = response(0)
        answer.opaque = transport.commands()[0].opaque
        feed(channel, frame.encode(answer))
    assert first.result().code == 0


async def test_sender_waits_while_the_peer_reads_nothing(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    transport.takes_bytes = False
    channel.pause_writing()
    with pytest.raises(RequestTimeoutError, match="took no bytes"):
        await channel.send_oneway(Command(905), 0.01)
    async with asyncio.TaskGroup() as group:
        group.create_task(channel.send_oneway(Command(905), 5))
        await turn()
        assert transport.written == []
        transport.drain()
    await turn()
    assert [c.is_oneway for c in transport.commands()] == [True]


async def test_waiting_sender_is_woken_when_the_connection_is_lost(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    channel.pause_writing()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_lost(channel))
        await turn()
        transport.close()
    assert "closed" in task.result()


async def test_answers_are_read_while_the_peer_takes_nothing_and_a_request_stops_the_reading(clock: FakeClock) -> None:
    """Two ends that both wait for the other to read would wait for ever."""
    owner = RecordingOwner(clock)
    channel, transport = connected(owner)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(channel.request(Command(105), 5))
        await turn()
        await turn()
        channel.pause_writing()
        answer = response(0, "mine")
        answer.opaque = transport.commands()[0].opaque
        feed(channel, frame.encode(answer))
    assert asked.result().remark == "mine"
    assert transport.is_reading()
    feed(channel, request(8) + request(9))
    assert owner.requests == []
    assert not transport.is_reading()
    channel.resume_writing()
    await turn()
    assert [r.opaque for r in owner.requests] == [8, 9]
    assert transport.is_reading()


async def test_hot_path_answers_nothing_while_the_peer_takes_nothing(clock: FakeClock) -> None:
    known = request(1)

    def hot_path(peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        return (start + len(known), b"HOT!", 0) if data.startswith(known, start) else (start, b"", 0)

    channel, transport = connected(RecordingOwner(clock, hot_path=hot_path))
    channel.pause_writing()
    feed(channel, known)
    assert transport.written == []
    channel.resume_writing()
    await turn()
    assert transport.written == [b"HOT!"]


async def test_answers_that_the_hot_path_promised_count_towards_the_bound_until_they_are_sent(clock: FakeClock) -> None:
    known = request(1)

    def hot_path(peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        return (start + len(known), b"", 1) if data.startswith(known, start) else (start, b"", 0)

    owner = RecordingOwner(clock, limits=ChannelLimits(unanswered_max=1), hot_path=hot_path)
    channel, transport = connected(owner)
    feed(channel, known + request(2))
    assert (transport.written, owner.requests) == ([], [])
    assert not transport.is_reading()
    channel.reply_bytes(b"HOT!", 1)
    await turn()
    assert [r.opaque for r in owner.requests] == [2]
    assert b"".join(transport.written).startswith(b"HOT!")


async def test_connection_that_closes_while_a_held_request_waits_for_its_turn_handles_it_no_more(
    clock: FakeClock,
) -> None:
    parked: list[Command] = []

    def park(channel: Channel, request: Command) -> Outcome:
        parked.append(request)
        return LATER

    channel, _ = connected(RecordingOwner(clock, park, limits=ChannelLimits(unanswered_max=1)))
    feed(channel, request(1) + request(2))
    channel.reply(parked[0], response(0))
    channel.close()
    await turn()
    assert len(parked) == 1


async def test_oneway_requests_that_are_answered_later_count_towards_the_bound(clock: FakeClock) -> None:
    parked: list[Command] = []

    def park(channel: Channel, request: Command) -> Outcome:
        parked.append(request)
        return LATER

    channel, transport = connected(RecordingOwner(clock, park, limits=ChannelLimits(unanswered_max=2)))
    feed(channel, b"".join(request(n, flag=ONEWAY_FLAG) for n in range(3)))
    assert len(parked) == 2
    for command in parked[:2]:
        channel.reply(command, response(0))
    await turn()
    assert len(parked) == 3
    channel.reply(parked[2], response(0))
    feed(channel, b"".join(request(n) for n in range(3)))
    assert len(parked) == 3 + 2
    await turn()
    assert transport.written == []


async def test_turn_ends_when_its_time_is_over_and_goes_on_after_the_others(clock: FakeClock) -> None:
    def slow(channel: Channel, request: Command) -> Outcome:
        clock.advance(0.004)
        return response(0)

    channel, transport = connected(RecordingOwner(clock, slow))
    feed(channel, b"".join(request(n) for n in range(7)))
    assert [c.opaque for c in transport.commands()] == [0, 1, 2]
    assert not transport.is_reading()
    while not transport.is_reading():
        await turn()
    assert [c.opaque for c in transport.commands()] == list(range(7))


async def test_one_command_to_two_peers_leaves_nothing_waiting_on_either() -> None:
    channels = [connected(RecordingOwner(SystemClock()))[0] for _ in range(2)]
    with pytest.raises(RequestTimeoutError):
        await channels[0].request(Command(105), 0.01)
    asked = Command(105)
    outcomes = await asyncio.gather(*(channel.request(asked, 0.01) for channel in channels), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RequestTimeoutError] * 2
    assert [channel._connection.in_flight for channel in channels] == [0, 0]


async def test_senders_of_one_turn_wait_once_the_connection_is_full(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    transport.takes_bytes = False
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(channel.send_oneway(Command(905, body=bytes(100_000)), 5))
        await turn()
        await turn()
        assert sum(map(len, transport.written)) < 400_000
        while len(transport.commands()) < 50:
            transport.drain()
            await turn()


async def test_answers_are_read_in_the_next_turn_too_while_the_peer_takes_nothing(clock: FakeClock) -> None:
    def slow(channel: Channel, request: Command) -> Outcome:
        clock.advance(1)
        return response(0, body=bytes(100_000))

    channel, transport = connected(RecordingOwner(clock, slow))
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(channel.request(Command(105), 5))
        await turn()
        await turn()
        answer = response(0, "mine")
        answer.opaque = transport.commands()[0].opaque
        transport.takes_bytes = False
        feed(channel, request(8) + frame.encode(answer) + request(9))
        assert not asked.done()
    assert asked.result().remark == "mine"
    assert not transport.is_reading()
    transport.drain()
    await turn()
    assert [c.opaque for c in transport.commands() if c.is_response] == [8, 9]
    await turn()
    assert transport.is_reading()


async def test_requests_of_one_turn_leave_in_one_write(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    waiting = [channel.begin(Command(10), 3.0) for _ in range(100)]
    await turn()
    assert len(transport.written) == 1
    asked = transport.commands()
    assert len({command.opaque for command in asked}) == 100
    feed(channel, b"".join(_answer(command.opaque) for command in reversed(asked)))
    assert [future.result().opaque for future in waiting] == [command.opaque for command in asked]
    assert channel.in_flight == 0


async def test_begin_refuses_on_a_closed_connection_and_beyond_the_bound(clock: FakeClock) -> None:
    channel, _ = connected(RecordingOwner(clock, limits=ChannelLimits(in_flight_max=2)))
    waiting = [channel.begin(Command(10), 3.0) for _ in range(2)]
    with pytest.raises(OverloadedError, match="2 requests are in flight already"):
        channel.begin(Command(10), 3.0)
    channel.abort()
    await turn()
    errors = [future.exception() for future in waiting]
    assert {type(error) for error in errors} == {ConnectionLostError}
    assert len({id(error) for error in errors}) == len(errors), "each is raised elsewhere, and has a traceback"
    with pytest.raises(ConnectionLostError):
        channel.begin(Command(10), 3.0)


async def test_each_request_has_its_own_deadline(clock: FakeClock) -> None:
    channel, _ = connected(RecordingOwner(clock))
    long, short = channel.begin(Command(11), 30.0), channel.begin(Command(10), 3.0)
    clock.advance(3.0)
    channel.expire()
    assert (long.done(), type(short.exception())) == (False, RequestTimeoutError)
    clock.advance(27.0)
    channel.expire()
    assert isinstance(long.exception(), RequestTimeoutError)


async def test_deadlines_pass_without_anybody_looking() -> None:
    """On the machine's own clock; the shorter deadline comes after the longer one and is kept all the same."""
    channel, _ = connected(RecordingOwner(SystemClock()))
    long, short = channel.begin(Command(11), 3600.0), channel.begin(Command(10), 0.01)
    with pytest.raises(RequestTimeoutError):
        await short
    assert not long.done()
    channel.abort()
    await turn()


async def test_cancelled_request_is_forgotten(clock: FakeClock) -> None:
    channel, _ = connected(RecordingOwner(clock))
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(channel.request(Command(10), 3.0))
        await turn()
        asking.cancel()
    assert channel.in_flight == 0


@pytest.mark.parametrize(
    ("closes_when_silent", "timeout_s", "is_spoken_to", "is_closed"),
    [
        (True, 3.0, False, True),
        (True, 3.0, True, False),  # something came since: the way is open
        (True, 0.05, False, False),  # too short a time to judge by
        (False, 3.0, False, False),  # a server keeps clients that do not answer
    ],
)
async def test_silent_connection_is_given_up_when_a_request_times_out(
    clock: FakeClock, closes_when_silent: bool, timeout_s: float, is_spoken_to: bool, is_closed: bool
) -> None:
    owner = RecordingOwner(clock, limits=ChannelLimits(closes_when_silent=closes_when_silent))
    channel, transport = connected(owner)
    answer = channel.begin(Command(10), timeout_s)
    clock.advance(timeout_s / 2)
    if is_spoken_to:
        feed(channel, request(7))
    clock.advance(timeout_s)
    channel.expire()
    await turn()
    assert isinstance(answer.exception(), RequestTimeoutError)
    assert transport.closed == is_closed


async def test_channel_that_was_sent_away_closes_with_its_last_answer(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    first, second, third = (channel.begin(Command(10), timeout_s) for timeout_s in (3.0, 3.0, 1.0))
    await turn()
    asked = [command.opaque for command in transport.commands()]
    feed(channel, _answer(asked[0], ResponseCode.GO_AWAY))
    assert first.result().code == ResponseCode.GO_AWAY
    assert (channel.is_leaving, transport.closed) == (True, False)
    feed(channel, _answer(asked[1]))
    assert second.done()
    assert not transport.closed
    clock.advance(1.0)
    channel.expire()
    assert isinstance(third.exception(), RequestTimeoutError)
    assert transport.closed


def _answer(opaque: int, code: int = 0) -> bytes:
    answer = response(code)
    answer.opaque = opaque
    return frame.encode(answer)


async def test_connections_with_long_work_take_turns_and_others_go_between(clock: FakeClock) -> None:
    handled: list[str] = []

    def work(channel: Channel, request: Command) -> Outcome:
        clock.advance(0.02 if request.code == LONG else 0)
        handled.append(f"{channel.peer} {request.opaque}")
        return response(0)

    owner = RecordingOwner(clock, work)
    owner.long_turns = LongTurns()
    slow, other, quick = (connected(owner)[0] for _ in range(3))
    for number, channel in enumerate((slow, other, quick)):
        channel.peer = ("slow", "other", "quick")[number]
    for channel in (slow, other):
        feed(channel, request(1, code=LONG))
    assert handled == ["slow 1", "other 1"]  # what nobody could know
    for channel in (slow, other):
        feed(channel, request(2, code=LONG))
    feed(quick, request(2))
    assert handled[2:] == ["quick 2"]
    while len(handled) < 4:
        await turn()
    feed(quick, request(3))
    while len(handled) < 6:
        await turn()
    assert handled[3:] == ["slow 2", "quick 3", "other 2"]


async def test_connection_that_is_quick_again_leaves_the_line(clock: FakeClock) -> None:
    def work(channel: Channel, request: Command) -> Outcome:
        clock.advance(0.02 if request.code == LONG else 0)
        return response(0)

    owner = RecordingOwner(clock, work)
    owner.long_turns = LongTurns()
    channel, transport = connected(owner)
    feed(channel, request(1, code=LONG))
    feed(channel, request(2))
    while len(transport.commands()) < 2:
        await turn()
    await turn()
    feed(channel, request(3))
    await turn()
    assert [answer.opaque for answer in transport.commands()] == [1, 2, 3]
    assert not len(owner.long_turns)


async def test_long_frame_waits_for_a_turn_in_which_it_is_the_only_one(clock: FakeClock) -> None:
    loop, handled_s = asyncio.get_running_loop(), list[float]()

    def work(channel: Channel, request: Command) -> Outcome:
        handled_s.append(loop.time())
        return response(0)

    owner = RecordingOwner(clock, work)
    owner.long_turns = LongTurns()
    first, second = connected(owner)[0], connected(owner)[0]
    for channel in (first, second):
        feed(channel, request(1, body=bytes(70_000)))
    assert not handled_s
    while len(handled_s) < 2:
        await turn()
    assert handled_s[1] - handled_s[0] >= PAUSE_S / 2, "others have time between the two"


async def test_turn_that_ended_for_its_bytes_is_no_long_turn(clock: FakeClock) -> None:
    """Else many connections could have theirs at the same time, by asking for much before."""
    turns: list[int] = []
    number = 0

    def work(channel: Channel, request: Command) -> Outcome:
        if request.code == LONG:
            turns.append(number)
            return response(0)
        return response(0, body=bytes(300_000))

    owner = RecordingOwner(clock, work)
    owner.long_turns = LongTurns()
    for _ in range(6):
        feed(connected(owner)[0], request(1) + request(2, code=LONG, body=bytes(70_000)))
    while len(turns) < 6:
        number += 1
        await turn()
    assert len(set(turns)) == 6


async def test_connection_that_is_gone_is_not_congested(clock: FakeClock) -> None:
    channel, transport = connected(RecordingOwner(clock))
    channel.pause_writing()
    assert channel.is_congested
    transport.close()
    assert not channel.is_congested, "whoever waits until it takes bytes would wait for ever"


async def test_connection_that_was_given_up_before_it_was_made_is_none(clock: FakeClock) -> None:
    owner = RecordingOwner(clock)
    channel = Channel(owner)
    channel.abort()
    transport = MemoryTransport(channel)
    channel.connection_made(transport)
    await turn()
    assert (transport.closed, channel.is_closed, owner.opened, owner.closed) == (True, True, [], [])
