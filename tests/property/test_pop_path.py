"""The fast twin of the pop's handler: the same bytes and the same records, or nothing at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.hot.pure import pop_request
from rocketline.hot.pure.pop_records import ack_body, checkpoint_body
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Outcome
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.pop import AckMsg, PopCheckPoint
from rocketline.wire.command import ONEWAY_FLAG, Command
from rocketline.wire.connection import Connection
from rocketline.wire.message_codec import decode_records
from support.brokers.pop_twins import PopTwins
from support.brokers.pops import pop
from support.brokers.tables import tables

NOW_MS = FakeClock().wall_ms()
ODD = st.sampled_from(["", "-1", "-7", "+1", "07", "1_0", " 1", "٣", "x", "1" * 30, "2147483648"])
FIELDS = {
    "consumerGroup": st.sampled_from(["g", "h", "new", "bad name!", ""]),
    "topic": st.sampled_from(["T", "wide", "unknown", "%RETRY%g_T"]),
    "queueId": st.sampled_from(["-1", "0", "1", "2"]) | ODD,
    "maxMsgNums": st.sampled_from(["1", "2", "32", "33", "0"]) | ODD,
    "invisibleTime": st.sampled_from(["60000", "10000", "0", "999999999999"]) | ODD,
    "pollTime": st.sampled_from(["0", "15000"]) | ODD,
    "bornTime": st.sampled_from([str(NOW_MS), str(NOW_MS - 600), "0"]) | ODD,
    "initMode": st.sampled_from(["0", "1", "2"]) | ODD,
    "expType": st.sampled_from(["TAG", "SQL92", ""]),
    "exp": st.sampled_from(["*", "A", "B || C", "none", "", "||", "a > 1"]),
    "order": st.sampled_from(["true", "false", "x"]),
    "attemptId": st.sampled_from(["a", "", "x" * 200]),
}


@st.composite
def pops(draw: st.DrawFn) -> Command:
    """A usual pop with something changed, and now and then a field missing."""
    request = pop(messages=draw(st.sampled_from([1, 2, 32])))
    for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2)):
        request.ext[name] = draw(FIELDS[name])
    if draw(st.integers(0, 9)) == 9:
        request.ext.pop(draw(st.sampled_from(sorted(request.ext))))
    request.flag = draw(st.sampled_from([0, 0, 0, ONEWAY_FLAG]))
    return request


def change(twin: PopTwins, what: str) -> None:
    """Something that pops depend on."""
    made = twin.tables
    match what:
        case "append":
            made.append(b"more", queue_id=1, TAGS="B")
        case "topic":
            made.topics.update(TopicConfig("T", 1, 1))
        case "retry":
            made.topics.update(TopicConfig("%RETRY%g_T", 1, 1))
            made.append(b"again", topic="%RETRY%g_T", TAGS="A")
        case "merge":
            made.settings.update({"enablePopBufferMerge": "true"})
        case "queues":
            made.settings.update({"reviveQueueNum": "2"})
        case "reset":
            made.offsets.assign_reset("g", "T", 0, 1)
        case "disable":
            made.groups.update(SubscriptionGroupConfig("h", consume_enable=False))
        case "later":
            made.clock.advance(0.4)


CHANGES = ("append", "topic", "retry", "merge", "queues", "reset", "disable", "later")


@pytest.mark.parametrize("merge", ["false", "true"])
@given(steps=st.lists(pops() | pops() | pops() | st.sampled_from(CHANGES), min_size=3, max_size=20))
def test_any_history_of_pops_and_changes_gives_the_handlers_own_bytes_and_records(
    steps: list[Command | str], merge: str
) -> None:
    """Two brokers live through the same history; one has the fast path in front, as a server has."""
    with (
        tables(FakeClock(), brokerName="broker-a", enablePopBufferMerge=merge) as plain,
        tables(FakeClock(), brokerName="broker-a", enablePopBufferMerge=merge) as fast,
    ):
        twins = PopTwins(plain), PopTwins(fast)
        for twin in twins:
            twin.tables.topics.update(TopicConfig("wide", 200, 200))
            for number, tag in enumerate("ABBACAAB"):
                twin.tables.append(b"%d" % number, queue_id=number % 2, TAGS=tag)
        for opaque, step in enumerate(steps):
            if isinstance(step, str):
                for twin in twins:
                    change(twin, step)
                continue
            step.opaque = opaque
            whole = frame.encode(step)
            expected = _handled(twins[0], whole)
            end, replies = twins[1].take(twins[1].pops, whole)
            assert end in (0, len(whole))
            assert (replies if end else _handled(twins[1], whole)) == expected
            assert _seen(twins[0]) == _seen(twins[1])


def _handled(twin: PopTwins, whole: bytes) -> bytes | str:
    """The reply frame of the ordinary way, or what happened instead."""
    request = frame.decode(whole)
    try:
        outcome: Outcome = twin.handle(CHANNEL, request)
    except ValueError as error:
        return str(error)
    return Connection[None]("").reply(request, outcome) if isinstance(outcome, Command) else str(outcome)


def _seen(twin: PopTwins) -> tuple[Any, ...]:
    """Every record, where groups are, and what is counted and in memory."""
    made = twin.tables
    log = made.store.log
    places = [made.offsets.query(group, "T", queue_id) for group in "gh" for queue_id in (0, 1)]
    counted = made.stats.data("GROUP_GET_NUMS", "T@g")
    return decode_records(log.read(0, log.end) or b""), places, counted, len(twin.merge), len(twin.held)


class _Connection:
    """One of which nothing is asked, and nothing told."""

    is_closed = is_congested = False
    peer = "127.0.0.1:50000"
    read_s = FakeClock().monotonic() + 1e9

    def reply(self, request: Command, answer: Command) -> None: ...


CHANNEL: Any = _Connection()


@given(st.binary() | pops().map(lambda request: frame.encode(request)[8:]))
def test_both_ways_to_read_a_header_agree(header: bytes) -> None:
    assert _fields(pop_request.read(header)) == _fields(pop_request.read_plain(header))


def _fields(header: Any) -> tuple[Any, ...] | None:
    if header is None:
        return None
    names = pop_request.PopFields.__annotations__
    return header.opaque, header.flag, *(getattr(header.extFields, name) for name in names)


def test_usual_run_of_pops_is_taken_in_one_call() -> None:
    """Or everything above would prove nothing. A group that is new is begun by the handler."""
    with tables(FakeClock(), brokerName="broker-a") as made:
        twin = PopTwins(made)
        for number in range(12):
            made.append(queue_id=number % 2)
        for queue_id in ("0", "1"):
            twin.handle(CHANNEL, pop(messages=1, queueId=queue_id))
        run = frame.encode(pop(messages=2)) * 6
        end, replies = twin.take(twin.pops, run + run[:100])
        assert (end, replies.count(b'"code":0,')) == (len(run) // 6 * 5, 5)


TEXTS = st.none() | st.sampled_from(["T", "", 'a"\\', "ü", "\x01", "\ud800"])
NUMBERS = st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.none() | st.lists(NUMBERS, max_size=4)
POINTS = st.builds(
    PopCheckPoint, TEXTS, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, OFFSETS, NUMBERS, TEXTS, NUMBERS, NUMBERS,
    TEXTS, st.booleans()
)  # fmt: skip


@given(POINTS, st.builds(AckMsg, TEXTS, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, TEXTS, OFFSETS))
def test_what_is_noted_is_written_as_any_body_is(point: PopCheckPoint, ack: AckMsg) -> None:
    assert checkpoint_body(point) == encode(point)
    assert ack_body(ack) == encode(ack)
