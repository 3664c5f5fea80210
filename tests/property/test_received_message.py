"""The lazy decoder against the exact one: whatever the records, both say the same of every message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.errors import ProtocolError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP, CompressionType
from rocketline.wire import message_codec
from rocketline.wire.batch import encode_batch
from rocketline.wire.compression import compress
from rocketline.wire.message_codec import encode_record
from support.golden import read_lines

RECORDS = [
    bytes.fromhex(line["hex"])
    for line in read_lines("store-5.5.0.jsonl")
    if line["file"] == "commitlog" and "blank" not in line["what"]
]
FIELDS = [
    "topic",
    "body",
    "properties",
    "flag",
    "queue_offset",
    "log_offset",
    "sys_flag",
    "born_ms",
    "born_host",
    "store_ms",
    "store_host",
    "reconsume_times",
    "prepared_log_offset",
    "offset_message_id",
    "message_id",
]

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(
    HostAddress,
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)),
    st.integers(0, 65535),
)
properties = st.dictionaries(st.sampled_from(["UNIQ_KEY", "TAGS", "a"]), st.text("xyz", min_size=1, max_size=9))
offsets = st.integers(0, 2**62)


@st.composite
def stored_messages(draw: st.DrawFn) -> StoredMessage:
    body, sys_flag = draw(st.binary(max_size=60)), draw(st.sampled_from((0, 0x2, 0x8, 0xC)))
    match draw(st.sampled_from(("plain", "compressed", "inner batch"))):
        case "compressed":
            kind = draw(st.sampled_from(CompressionType))
            body, sys_flag = compress(body, kind), sys_flag | kind.sys_flag
        case "inner batch":
            inner = st.builds(Message.of, st.just("T"), st.binary(max_size=20), properties, int32)
            body = encode_batch(draw(st.lists(inner, min_size=1, max_size=4)))
            sys_flag |= NEED_UNWRAP | INNER_BATCH
    return StoredMessage(
        topic=draw(st.one_of(st.text(st.characters(codec="utf-8"), max_size=20), st.just("t" * 200))),
        body=body,
        properties=draw(properties),
        flag=draw(int32),
        queue_id=draw(int32),
        queue_offset=QueueOffset(draw(offsets)),
        log_offset=LogOffset(draw(int64)),
        sys_flag=sys_flag,
        born_ms=draw(int64),
        born_host=draw(hosts),
        store_ms=draw(int64),
        store_host=draw(hosts),
        reconsume_times=draw(int32),
        prepared_log_offset=LogOffset(draw(int64)),
        version=draw(st.sampled_from((1, 2))),
    )


@st.composite
def changed(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """Some bytes with a few of them replaced, removed or doubled."""
    data = bytearray(draw(originals))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data)


records = st.one_of(stored_messages().map(encode_record), st.sampled_from(RECORDS))
pulls = st.lists(records, max_size=5).map(b"".join)


def exactly(data: bytes) -> list[list[object]] | ProtocolError:
    """What the exact decoder says of each message, or why it says nothing."""
    try:
        messages = message_codec.decode_messages(data, check_crc=True)
    except ProtocolError as error:
        return error
    return [[getattr(message, name) for name in FIELDS] for message in messages]


def lazily(data: bytes, names: list[str]) -> list[dict[str, Any]] | ProtocolError:
    """The same of the lazy one, each field touched in the order of `names`."""
    try:
        return [{name: getattr(message, name) for name in names} for message in decode_messages(data)]
    except ProtocolError as error:
        return error


@given(pulls, st.permutations(FIELDS))
def test_messages_have_the_same_fields_in_whatever_order_they_are_touched(data: bytes, names: list[str]) -> None:
    expected, found = exactly(data), lazily(data, names)
    assert isinstance(found, list)
    assert [[fields[name] for name in FIELDS] for fields in found] == expected


@given(changed(pulls), st.permutations(FIELDS))
def test_what_is_broken_for_one_decoder_is_broken_for_the_other(data: bytes, names: list[str]) -> None:
    expected, found = exactly(data), lazily(data, names)
    if isinstance(expected, ProtocolError):
        assert isinstance(found, ProtocolError)
    else:
        assert isinstance(found, list)
        assert [[fields[name] for name in FIELDS] for fields in found] == expected


@given(changed(pulls))
def test_a_broken_message_does_not_keep_others_from_being_read(data: bytes) -> None:
    try:
        messages = decode_messages(data)
    except ProtocolError:
        return
    for message in messages:
        assert isinstance(message, ReceivedMessage)
        for name in FIELDS:
            try:
                getattr(message, name)
            except ProtocolError:
                continue
