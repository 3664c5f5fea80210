"""The fast twin of the acknowledgement's handler: the same bytes and the same records, or nothing at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.hot.pure import ack_request, batch_ack_request
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import ONEWAY_FLAG, Command
from rocketline.wire.connection import Connection
from rocketline.wire.message_codec import decode_records
from support.brokers.pop_twins import PopTwins
from support.brokers.pops import pop
from support.brokers.tables import Tables, tables

NOW_MS = FakeClock().wall_ms()
ODD = st.sampled_from(["", "-1", "+1", "07", "1_0", " 1", "٣", "x", "1" * 30, "2147483648", "9223372036854775807"])
NUMBER = st.integers(0, 6).map(str)
PARTS = {
    0: NUMBER | ODD,
    1: st.sampled_from([str(NOW_MS), str(NOW_MS - 70_000), str(NOW_MS + 1), "0"]) | ODD,
    2: st.sampled_from(["60000", "0", "999999999999"]) | ODD,
    3: st.sampled_from(["0", "7", "8", "999", "-1"]) | ODD,
    4: st.sampled_from(["0", "1", "2", "3", "x"]),
    5: st.sampled_from(["broker-a", "other", 'a"b', "ü", "a\x01b", ""]),
    6: NUMBER | ODD,
    7: NUMBER | ODD,
}
FIELDS = {
    "consumerGroup": st.sampled_from(["g", "h", 'a"%d\\', "ü", "-4611686018427387904", "\x01", ""]),
    "topic": st.sampled_from(["T", "U", "%RETRY%g_T", "unknown", ""]),
    "queueId": NUMBER | ODD,
    "offset": NUMBER | ODD,
    "liteTopic": st.sampled_from(["", "l"]),
    "bname": st.just("broker-a"),
    "extraInfo": st.sampled_from(["", "x", "1 2 3", f"0 {NOW_MS} 60000 0 0 broker-a 0 0 more 1", " " * 8]),
}


@st.composite
def acks(draw: st.DrawFn) -> Command:
    """A usual acknowledgement with something changed, and now and then a field missing."""
    handle = ["0", str(NOW_MS), "60000", "3", "0", "broker-a", "0", draw(NUMBER)]
    for at in draw(st.lists(st.sampled_from(sorted(PARTS)), max_size=1)):
        handle[at] = draw(PARTS[at])
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "extraInfo": " ".join(handle), "offset": draw(NUMBER)}
    for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=1)):
        ext[name] = draw(FIELDS[name])
    if draw(st.integers(0, 9)) == 9:
        ext.pop(draw(st.sampled_from(sorted(ext))))
    return Command(RequestCode.ACK_MESSAGE, ext, flag=draw(st.sampled_from([0, 0, 0, ONEWAY_FLAG])))


ENTRY: dict[str, st.SearchStrategy[Any]] = {
    "b": st.sampled_from(["", "AQ==", "/w==", "AAE=", "!!", "AQ=", "AR==", "/" * 8, "/" * 60 + "8="]) | st.just(1),
    "c": st.sampled_from(["g", "h", 'a"', "", None]),
    "it": st.sampled_from([60_000, 0, -1, 2**63, 1.0, "60000"]),
    "pt": st.sampled_from([NOW_MS, NOW_MS - 70_000, 0, 2**70]),
    "q": st.integers(-1, 3) | st.just(2**31),
    "r": st.sampled_from(["0", "1", "2", "3", "", None]),
    "rq": st.sampled_from([0, 7, 8, 999, -1, True]),
    "so": st.integers(-1, 5),
    "t": st.sampled_from(["T", "U", "unknown", "", None]),
}


@st.composite
def batches(draw: st.DrawFn) -> Command:
    """Usual acknowledgements in one go with something changed, added or missing."""
    entries = []
    for _ in range(draw(st.integers(0, 3))):
        entry = {"b": "Bw==", "c": "g", "it": 60_000, "pt": NOW_MS, "q": 0, "r": "0", "rq": 3, "so": 0, "t": "T"}
        for name in draw(st.lists(st.sampled_from(sorted(ENTRY)), max_size=1)):
            entry[name] = draw(ENTRY[name])
        if draw(st.integers(0, 9)) == 9:
            entry.pop(draw(st.sampled_from(sorted(entry))))
        entries.append(entry)
    body: dict[str, Any] = {"acks": entries, "brokerName": draw(st.sampled_from(["broker-a", "other", ""]))}
    if draw(st.integers(0, 9)) == 9:
        body = draw(st.sampled_from([{"acks": entries}, {"brokerName": "b"}, body | {"more": 1}, {"acks": None}]))
    whole = json.dumps(body).encode()
    cut = draw(st.sampled_from([0, 0, 0, 0, 1]))
    flag = draw(st.sampled_from([0, 0, 0, ONEWAY_FLAG]))
    return Command(RequestCode.BATCH_ACK_MESSAGE, {"bname": "broker-a"}, whole[cut:], flag=flag)


def change(twin: PopTwins, what: str) -> None:
    """Something that acknowledgements depend on."""
    made = twin.tables
    match what:
        case "append" if not made.store.is_disk_full:
            made.append(b"more")
        case "pop":
            twin.handle(CHANNEL, pop())
        case "topic":
            made.topics.update(TopicConfig("T", 1, 1))
        case "retry" if not made.store.is_disk_full:
            made.topics.update(TopicConfig("%RETRY%g_T", 1, 1))
            made.append(b"again", topic="%RETRY%g_T")
        case "merge":
            made.settings.update({"enablePopBufferMerge": "true"})
        case "queues":
            made.settings.update({"reviveQueueNum": "2"})
        case "later":
            made.clock.advance(50.0)
        case "full":
            made.store.is_disk_full = True


CHANGES = ("append", "pop", "topic", "retry", "merge", "queues", "later", "full")


@pytest.mark.parametrize("merge", ["false", "true"])
@given(steps=st.lists(acks() | acks() | batches() | batches() | st.sampled_from(CHANGES), min_size=3, max_size=20))
def test_any_history_of_acknowledgements_and_changes_gives_the_handlers_own_bytes_and_records(
    steps: list[Command | str], merge: str
) -> None:
    """Two brokers live through the same history; one has the fast path in front, as a server has."""
    with (
        tables(FakeClock(), brokerName="broker-a", enablePopBufferMerge=merge) as plain,
        tables(FakeClock(), brokerName="broker-a", enablePopBufferMerge=merge) as fast,
    ):
        twins = PopTwins(plain), PopTwins(fast)
        for twin in twins:
            for number in range(5):
                twin.tables.append(b"%d" % number)
            twin.handle(CHANNEL, pop())
        for opaque, step in enumerate(steps):
            if isinstance(step, str):
                for twin in twins:
                    change(twin, step)
                continue
            step.opaque = opaque
            whole = frame.encode(step)
            expected = _handled(twins[0], whole)
            path = twins[1].acks if step.code == RequestCode.ACK_MESSAGE else twins[1].batch_acks
            end, replies = twins[1].take(path, whole)
            assert end in (0, len(whole))
            assert (replies if end else _handled(twins[1], whole)) == expected
            assert _seen(twins[0]) == _seen(twins[1])


def _handled(twin: PopTwins, whole: bytes) -> bytes | str:
    """The reply frame of the ordinary way, or what happened instead."""
    request = frame.decode(whole)
    try:
        outcome = twin.handle(CHANNEL, request)
    except ValueError as error:
        return str(error)
    return Connection[None]("").reply(request, outcome) if isinstance(outcome, Command) else str(outcome)


def _seen(twin: PopTwins) -> tuple[Any, ...]:
    """Every record, where groups are, and what is in memory."""
    made: Tables = twin.tables
    log = made.store.log
    found = decode_records(log.read(0, log.end) or b"")
    keys = [made.store.query(record.topic, record.properties.get("UNIQ_KEY", ""), 9, 0, 2**62) for record in found]
    return found, keys, made.offsets.query("g", "T", 0), len(twin.merge)


class _Connection:
    """A connection of which nothing is asked."""

    is_closed = is_congested = False
    peer = "127.0.0.1:50000"
    read_s = FakeClock().monotonic() + 1e9

    def reply(self, request: Command, answer: Command) -> None:
        raise AssertionError("nothing waits here")


CHANNEL: Any = _Connection()


@given(st.binary() | acks().map(lambda request: frame.encode(request)[8:]))
def test_both_ways_to_read_a_header_agree(header: bytes) -> None:
    assert _fields(ack_request.read(header)) == _fields(ack_request.read_plain(header))


def _fields(header: Any) -> tuple[Any, ...] | None:
    if header is None:
        return None
    names = ack_request.AckFields.__annotations__
    return header.opaque, header.flag, *(getattr(header.extFields, name) for name in names)


BODY = st.dictionaries(st.sampled_from([*ENTRY, "x"]), st.one_of(*ENTRY.values()))


@given(
    st.binary()
    | batches().map(lambda request: request.body)
    | BODY.map(lambda said: json.dumps({"acks": [said], "brokerName": "b"}).encode())
)
def test_both_ways_to_read_a_batch_agree(body: bytes) -> None:
    assert _entries(batch_ack_request.read(body)) == _entries(batch_ack_request.read_plain(body))


def _entries(body: Any) -> tuple[Any, ...] | None:
    if body is None:
        return None
    return body.brokerName, [tuple(getattr(entry, name) for name in ENTRY) for entry in body.acks]


def test_usual_batch_of_acknowledgements_is_taken() -> None:
    with tables(FakeClock(), brokerName="broker-a") as made:
        twin = PopTwins(made)
        made.append()
        entry = {"b": "AQ==", "c": "g", "it": 60_000, "pt": NOW_MS, "q": 0, "r": "0", "rq": 3, "so": 0, "t": "T"}
        body = json.dumps({"acks": [entry], "brokerName": "broker-a"}).encode()
        whole = frame.encode(Command(RequestCode.BATCH_ACK_MESSAGE, {"bname": "broker-a"}, body))
        end, replies = twin.take(twin.batch_acks, whole + whole[:50])
        assert (end, replies.count(b'"code":0,')) == (len(whole), 1)
        assert made.store.max_offset("rmq_sys_wheel_timer", 0) == 1


@pytest.mark.parametrize(("merge", "stored"), [("false", 33), ("true", 0)])
def test_usual_run_of_acknowledgements_is_taken_in_one_call(merge: str, stored: int) -> None:
    """Or everything above would prove nothing."""
    with tables(FakeClock(), brokerName="broker-a", enablePopBufferMerge=merge) as made:
        twin = PopTwins(made)
        for _ in range(32):
            made.append()
        twin.handle(CHANNEL, pop())
        handle = f"0 {NOW_MS} 60000 0 0 broker-a 0"
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "bname": "broker-a"}
        run = b"".join(
            frame.encode(
                Command(RequestCode.ACK_MESSAGE, ext | {"offset": str(at), "extraInfo": f"{handle} {at}"}, opaque=at)
            )
            for at in range(32)
        )
        end, replies = twin.take(twin.acks, run + run[:100])
        assert (end, replies.count(b'"code":0,'), len(twin.merge)) == (len(run), 32, 0)
        assert made.store.max_offset("rmq_sys_wheel_timer", 0) == stored
