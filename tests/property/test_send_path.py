"""The hot path of sends against the handlers: whatever it takes, it must do as they do."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketline.hot.pure import send_request
from rocketline.model.message import Message
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.batch import encode_batch
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import ONEWAY_FLAG, Command
from rocketline.wire.connection import Connection
from rocketline.wire.message_codec import decode_records
from support.brokers.sends import Sends, send_v2
from support.brokers.tables import Tables, tables

numbers = st.sampled_from(
    ["0", "1", "7", "-1", "", "00", "+1", "1.0", "2147483647", "2147483648", "x", "٣", " 1", "1_0"]
)
names = st.sampled_from(
    [
        "TAGS",
        "KEYS",
        "WAIT",
        "DELAY",
        "UNIQ_KEY",
        "MSG_REGION",
        "CLUSTER",
        "POP_CK",
        "TRAN_MSG",
        "TIMER_DELAY_SEC",
        "",
        "ü",
        "x",
    ]
)
values = st.sampled_from(
    ["A", "", "true", "false", "0", "3", "99", "k1 k2", "标签", "a\x01b", '"\\', "\ud800", "x" * 40]
)
property_lists = st.lists(st.tuples(names, values), max_size=4).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs)
)
FIELDS: dict[str, st.SearchStrategy[str]] = {
    "b": st.sampled_from(
        ["T", "ordered", "compacted", "batched", "%RETRY%g", "SELF_TEST_TOPIC", "new", "a.b", "T2", ""]
    ),
    "e": st.sampled_from(["0", "1", "2", "-1", "00", "1 ", "999999999999"]),
    "f": st.sampled_from(["0", "1", "769", "4", "8", "192", "16", "48", "-1", "2147483647"]),
    "g": numbers | st.sampled_from(["9223372036854775807", "9223372036854775808"]),
    "h": numbers,
    "i": property_lists | st.just("UNIQ_KEY\x01u") | property_lists.map(lambda text: text + "UNIQ_KEY\x01u\x02"),
    "j": numbers,
    "k": st.sampled_from(["true", "false", "", "no"]),
    "m": st.sampled_from(["true", "false", "", "TRUE"]),
    "c": st.sampled_from(["TBW102", "none"]),
}


_MADE_KEY = re.compile(rb'"transactionId":"7F000001[0-9A-F]{24}"')
"""A unique key that the broker made up."""


@st.composite
def sends(draw: st.DrawFn) -> Command:
    """A usual message with a few fields changed, and now and then one missing."""
    fields = {name: draw(FIELDS[name]) for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2))}
    flag = draw(st.sampled_from([0, 0, 0, ONEWAY_FLAG]))
    request = send_v2(draw(st.sampled_from([b"x", b"", b"y" * 300, b"z" * 5000])), fields, flag=flag)
    if draw(st.integers(0, 19)) == 19:
        request.ext.pop(draw(st.sampled_from(sorted(request.ext))))
    return request


MEMBERS = st.tuples(
    st.sampled_from([0, 1, -1]),
    st.sampled_from([b"", b"x", b"y" * 300]),
    property_lists.map(lambda text: text.encode("utf-8", "replace"))
    | st.sampled_from(
        [b"", b"UNIQ_KEY\x01u\x02KEYS\x01k1\x02TAGS\x01A\x02", b"INNER_NUM\x012\x02", b"x\x01\x02" * 300]
    ),
)


@st.composite
def batches(draw: st.DrawFn) -> Command:
    """A batch, now and then one that is cut or damaged."""
    members = draw(st.lists(MEMBERS, min_size=1, max_size=4))
    body = b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, flag, len(body))
        + body
        + struct.pack(">h", len(properties))
        + properties
        for flag, body, properties in members
    )
    if draw(st.integers(0, 9)) == 9:
        at = draw(st.integers(0, len(body) - 1))
        body = draw(st.sampled_from([body[:at], body[:at] + b"\xff" + body[at + 1 :]]))
    shared = ["", "WAIT\x01true\x02", "WAIT\x01false\x02", "UNIQ_KEY\x01u\x02WAIT\x01true\x02", "UNIQ_KEY\x01ü\x02"]
    fields = {"m": "true", "i": draw(st.sampled_from(shared) | property_lists)}
    names = draw(st.lists(st.sampled_from(["b", "e", "f", "h", "j"]), max_size=1))
    fields |= {name: draw(FIELDS[name]) for name in names}
    request = send_v2(body, fields, flag=draw(st.sampled_from([0, 0, 0, ONEWAY_FLAG])))
    request.code = draw(st.sampled_from([RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2]))
    return request


def change(made: Tables, what: str) -> None:
    """Something that sends depend on."""
    match what:
        case "topic":
            made.topics.update(TopicConfig("T", 1, 1))
        case "forbid":
            made.settings.update({"brokerPermission": "4"})
        case "size":
            made.settings.update({"maxMessageSize": "200"})
        case "region":
            made.settings.update({"regionId": 'a"b', "traceOn": "false"})
        case "later":
            made.settings.update({"startAcceptSendRequestTimeStamp": str(made.clock.wall_ms() + 1000)})
        case "full":
            made.store.is_disk_full = True


CHANGES = ("topic", "forbid", "size", "region", "later", "full")


@given(st.lists(sends() | sends() | batches() | batches() | st.sampled_from(CHANGES), min_size=3, max_size=20))
def test_any_history_of_sends_and_changes_gives_the_handlers_own_bytes_and_records(steps: list[Command | str]) -> None:
    """Two brokers live through the same history; one has the fast path in front, as a server has."""
    with tables(FakeClock()) as plain, tables(FakeClock()) as fast:
        twins = (plain, Sends(plain)), (fast, Sends(fast))
        for made, _ in twins:
            made.topics.update(TopicConfig("ordered", 2, 2, order=True))
            made.topics.update(TopicConfig("compacted", 2, 2, attributes={"+cleanup.policy": "COMPACTION"}))
            made.topics.update(TopicConfig("batched", 2, 2, attributes={"+queue.type": "BatchCQ"}))
        peer: Any = _Channel()
        for opaque, step in enumerate(steps):
            if isinstance(step, str):
                for made, _ in twins:
                    change(made, step)
                continue
            step.opaque = opaque
            try:
                whole = frame.encode(step)
            except ValueError:  # text that no frame can carry
                continue
            expected = _handled(twins[0][1], peer, whole)
            end, replies = twins[1][1].take(whole, peer.read_s)
            assert end in (0, len(whole))
            assert (replies if end else _handled(twins[1][1], peer, whole)) == expected
            assert _stored(plain) == _stored(fast)


def _handled(sends: Sends, channel: Any, whole: bytes) -> bytes | str:
    """The reply frame of the ordinary way, or what happened instead."""
    request = frame.decode(whole)
    try:
        outcome = sends.handle(channel, request)
    except ValueError as error:
        return str(error)
    if request.flag & ONEWAY_FLAG:
        return b""
    reply = Connection[None]("").reply(request, outcome) if isinstance(outcome, Command) else b"later"
    return _MADE_KEY.sub(b"made", reply)


def _stored(made: Tables) -> list[Any]:
    """Every record, but for a unique key that the broker made up; and what was counted."""
    log = made.store.log
    messages = decode_records(log.read(0, log.end) or b"")
    for message in messages:
        if message.properties.get("UNIQ_KEY", "").startswith("7F000001"):
            message.properties["UNIQ_KEY"] = "made"
    put = made.stats.data("TOPIC_PUT_SIZE", "T")
    return [*messages, put, made.stats.throughput.put_failures, made.store.query("T", "k1", 9, 0, 2**62)]


class _Channel:
    """A connection of which nothing is asked."""

    is_closed = is_congested = False
    peer = "127.0.0.1:50000"
    read_s = FakeClock().monotonic()


@given(st.binary() | sends().map(lambda request: frame.encode(request)[8:-1] if _is_text(request) else b""))
def test_both_ways_to_read_a_header_agree(header: bytes) -> None:
    assert _fields(send_request.read(header)) == _fields(send_request.read_plain(header))


def _fields(header: Any) -> tuple[Any, ...] | None:
    if header is None:
        return None
    return header.opaque, header.flag, *(getattr(header.extFields, name) for name in "abcdefghijklmn")


def _is_text(request: Command) -> bool:
    return all(value.isascii() for value in request.ext.values())


def test_usual_run_of_messages_is_taken_in_one_call() -> None:
    """Or everything above would prove nothing."""
    with tables(FakeClock()) as made:
        run = b"".join(frame.encode(send_v2(fields={"e": str(opaque % 2)}, opaque=opaque)) for opaque in range(50))
        cut = frame.encode(send_v2())[:-1]
        end, replies = Sends(made).take(run + cut, made.clock.monotonic())
        assert end == len(run)
        assert replies.count(b'"code":0,') == 50
        assert made.store.max_offset("T", 0) == made.store.max_offset("T", 1) == 25


def test_usual_run_of_batches_is_taken_in_one_call() -> None:
    with tables(FakeClock()) as made:
        body = encode_batch([Message.of("T", b"x", {"UNIQ_KEY": f"u{number}"}) for number in range(3)])
        fields = {"m": "true", "i": "UNIQ_KEY\x01whole\x02WAIT\x01true\x02"}
        run = b"".join(frame.encode(replace(send_v2(body, fields, opaque=opaque), code=320)) for opaque in range(8))
        end, replies = Sends(made).take(run, made.clock.monotonic())
        assert end == len(run)
        assert replies.count(b'"code":0,') == 8
        assert made.store.max_offset("T", 0) == 24


def test_batch_whose_properties_lack_their_last_end_is_taken_as_well() -> None:
    """Java's client writes them so."""
    with tables(FakeClock()) as made:
        properties = b"UNIQ_KEY\x01u\x02TAGS\x01x"
        member = struct.pack(">iiiii", 23 + len(properties), 0, 0, 0, 1) + b"y" + struct.pack(">h", len(properties))
        request = replace(send_v2((member + properties) * 2, {"m": "true", "i": ""}), code=320)
        run = frame.encode(request)
        end, replies = Sends(made).take(run, made.clock.monotonic())
        assert (end, replies.count(b'"code":0,')) == (len(run), 1)
        assert made.store.max_offset("T", 0) == 2
