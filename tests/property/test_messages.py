"""Messages and what surrounds them: round trips, and bytes that are cut, changed or made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import ProtocolError
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId, QueueOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.sys_flags import CompressionType
from rocketline.wire.acl import Credentials, is_signed_with, sign
from rocketline.wire.append_crc import has_valid_append_crc
from rocketline.wire.batch import decode_batch, encode_batch
from rocketline.wire.command import Command
from rocketline.wire.compression import compress, decompress
from rocketline.wire.message_codec import decode_messages, decode_record, decode_records, encode_record, scan_records
from rocketline.wire.namespaces import namespace_of, with_namespace, without_namespace
from rocketline.wire.pop_handles import (
    PopHandle,
    TopicKind,
    format_message_offsets,
    format_order_counts,
    format_start_offsets,
    parse_message_offsets,
    parse_order_counts,
    parse_start_offsets,
)
from rocketline.wire.properties import decode_properties, encode_properties, format_properties, parse_properties
from rocketline.wire.recall_handle import RecallHandle
from rocketline.wire.unique_id import UniqueIdParts
from support.golden import read_lines

RECORDS = [
    bytes.fromhex(line["hex"])
    for line in read_lines("store-5.5.0.jsonl")
    if line["file"] == "commitlog" and "blank" not in line["what"]
]
EXPANDED_BYTES_MAX = 100_000

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=12)
values = st.text(st.characters(codec="utf-8", exclude_characters="\x02"), max_size=20)
properties = st.dictionaries(names, values, max_size=5)
hosts = st.builds(
    HostAddress,
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)),
    st.integers(0, 65535),
)
kinds = st.sampled_from(CompressionType)


@st.composite
def stored_messages(draw: st.DrawFn) -> StoredMessage:
    born, store = draw(hosts), draw(hosts)
    topic = draw(st.one_of(text, st.text("té", min_size=100, max_size=300)))
    return StoredMessage(
        topic=topic,
        body=draw(st.binary(max_size=60)),
        properties=draw(properties),
        flag=draw(int32),
        queue_id=draw(int32),
        queue_offset=QueueOffset(draw(int64)),
        log_offset=LogOffset(draw(int64)),
        sys_flag=draw(int32) & ~0x30 | 0x10 * born.is_ipv6 | 0x20 * store.is_ipv6,
        born_ms=draw(int64),
        born_host=born,
        store_ms=draw(int64),
        store_host=store,
        reconsume_times=draw(int32),
        prepared_log_offset=LogOffset(draw(int64)),
        version=2 if len(topic.encode()) > 127 else draw(st.sampled_from((1, 2))),
    )


batch_messages = st.builds(
    Message,
    st.just("T"),
    st.binary(max_size=30),
    properties=st.dictionaries(
        names.filter(lambda name: not name.isupper() and bool(name.strip())), values.filter(str.strip), max_size=3
    ),
    flag=int32,
)


@st.composite
def changed(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """Some bytes with a few of them replaced, removed or doubled."""
    data = bytearray(draw(originals))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data)


def outcome(decode: Callable[..., Any], *args: Any) -> Any:
    """What a decoder makes of its input; a `ProtocolError` is the only error it may raise."""
    try:
        return decode(*args)
    except ProtocolError as error:
        return error


# --- stored messages


@given(st.lists(stored_messages(), max_size=4))
def test_messages_when_written_and_read_are_the_same(messages: list[StoredMessage]) -> None:
    records = [encode_record(message) for message in messages]
    data = b"".join(records)
    assert decode_records(data, check_crc=True) == messages
    assert decode_records(memoryview(data)) == messages


@given(st.lists(stored_messages(), min_size=1, max_size=4))
def test_scan_and_decoder_agree_on_every_record(messages: list[StoredMessage]) -> None:
    data = b"".join(map(encode_record, messages))
    spans = scan_records(data)
    assert [decode_record(data[start : start + size]) for start, size in spans] == messages
    assert [decode_record(data, start) for start, _ in spans] == messages


@given(st.lists(st.sampled_from(RECORDS), min_size=1, max_size=3), st.data())
def test_messages_cut_short_give_a_protocol_error_or_end_between_records(
    records: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(records)
    end = data.draw(st.integers(0, len(whole) - 1))
    cut = whole[:end]
    boundaries = [0, *(start + size for start, size in scan_records(whole))]
    if end in boundaries:
        assert len(decode_records(cut)) == boundaries.index(end)
    else:
        for decode in (scan_records, decode_records, decode_messages):
            assert isinstance(outcome(decode, cut), ProtocolError)


@given(changed(st.sampled_from(RECORDS)))
def test_changed_record_gives_messages_or_a_protocol_error(data: bytes) -> None:
    decoded = outcome(decode_messages, data)
    assert isinstance(decoded, (list, ProtocolError))
    stored = outcome(decode_records, data)
    for message in stored if isinstance(stored, list) else ():
        # A topic that grew by replacement characters may need version 2.
        assert replace(decode_record(encode_record(message)), version=message.version) == message
    assert has_valid_append_crc(data) in (True, False)


@given(st.sampled_from(RECORDS), int32)
def test_record_with_any_flags_gives_messages_or_a_protocol_error(record: bytes, sys_flag: int) -> None:
    data = record[:36] + sys_flag.to_bytes(4, "big", signed=True) + record[40:]
    decoded = outcome(decode_messages, data)
    assert isinstance(decoded, ProtocolError) or all(
        message.sys_flag in (sys_flag, sys_flag & ~1) for message in decoded
    )


@given(st.binary(max_size=300))
def test_made_up_bytes_give_messages_or_a_protocol_error(data: bytes) -> None:
    magic = b"\xda\xa3\x20\xa7"
    for guess in (data, data[:4] + magic + data[4:], len(data).to_bytes(4, "big") + magic + data):
        assert isinstance(outcome(decode_messages, guess), (list, ProtocolError))
        assert isinstance(outcome(scan_records, guess), (list, ProtocolError))


# --- batches


@given(st.lists(batch_messages, min_size=1, max_size=4))
def test_batch_when_written_and_read_is_the_same(messages: list[Message]) -> None:
    assert decode_batch(encode_batch(messages), "T") == messages


@given(st.lists(batch_messages, min_size=1, max_size=3), st.data())
def test_batch_cut_short_gives_a_protocol_error_or_ends_between_messages(
    messages: list[Message], data: st.DataObject
) -> None:
    whole = encode_batch(messages)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    decoded = outcome(decode_batch, cut, "T")
    if isinstance(decoded, list):
        assert decoded == messages[: len(decoded)]
        assert not decoded or encode_batch(decoded) == cut


@given(changed(st.lists(batch_messages, min_size=1, max_size=3).map(encode_batch)))
def test_changed_batch_gives_messages_or_a_protocol_error(data: bytes) -> None:
    assert isinstance(outcome(decode_batch, data, "T"), (list, ProtocolError))


# --- properties


@given(properties)
def test_properties_when_written_and_read_are_the_same(pairs: dict[str, str]) -> None:
    assert parse_properties(format_properties(pairs), keep_empty=True) == pairs
    assert decode_properties(encode_properties(pairs)) == {name: value for name, value in pairs.items() if value}


@given(st.text(st.sampled_from("ab\x01\x02é"), max_size=20))
def test_properties_read_from_any_text_can_be_written_and_read_again(mixed: str) -> None:
    pairs = parse_properties(mixed)
    assert parse_properties(format_properties(pairs)) == pairs
    assert "" not in pairs
    assert "" not in pairs.values()


# --- compression


@given(kinds, st.binary(max_size=2000))
def test_body_when_compressed_and_expanded_is_the_same(kind: CompressionType, body: bytes) -> None:
    assert decompress(compress(body, kind), kind, len(body)) == body


@given(
    kinds.flatmap(
        lambda kind: st.tuples(st.just(kind), changed(st.binary(max_size=200).map(lambda b: compress(b * 9, kind))))
    )
)
def test_changed_stream_gives_a_bounded_body_or_a_protocol_error(case: tuple[CompressionType, bytes]) -> None:
    kind, data = case
    body = outcome(decompress, data, kind, EXPANDED_BYTES_MAX)
    assert isinstance(body, ProtocolError) or len(body) <= EXPANDED_BYTES_MAX


@given(kinds, st.binary(max_size=100))
def test_made_up_stream_gives_a_bounded_body_or_a_protocol_error(kind: CompressionType, data: bytes) -> None:
    for magic in (b"", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"\x78\x9c"):
        body = outcome(decompress, magic + data, kind, EXPANDED_BYTES_MAX)
        assert isinstance(body, ProtocolError) or len(body) <= EXPANDED_BYTES_MAX


# --- texts: handles, ids, names


@given(st.builds(
    PopHandle, int64, int64, int64, int32, st.sampled_from(TopicKind), st.text("broke-é", min_size=1), int32, int64
))  # fmt: skip
def test_pop_handle_when_written_and_read_is_the_same(handle: PopHandle) -> None:
    assert PopHandle.parse(handle.format()) == handle


POP_TEXTS: list[tuple[Callable[[str], Any], Callable[[Any], str]]] = [
    (parse_start_offsets, format_start_offsets),
    (parse_message_offsets, format_message_offsets),
    (parse_order_counts, format_order_counts),
    (PopHandle.parse, PopHandle.format),
]


@pytest.mark.parametrize(("parse", "form"), POP_TEXTS)
@given(mixed=st.text(st.sampled_from("0012;, qo%-x"), max_size=30))
def test_any_text_of_pop_is_refused_or_means_the_same_when_written(
    parse: Callable[[str], Any], form: Callable[[Any], str], mixed: str
) -> None:
    parsed = outcome(parse, mixed)
    assert isinstance(parsed, ProtocolError) or parse(form(parsed)) == parsed


@given(st.one_of(st.text(max_size=60), st.text("0123456789ABCDEFabcdef ", min_size=30, max_size=58)))
def test_any_text_as_an_id_or_handle_is_read_or_refused(anything: str) -> None:
    message_id = outcome(OffsetMessageId.parse, anything)
    assert isinstance(message_id, ProtocolError) or str(message_id) == anything.upper()
    assert isinstance(outcome(UniqueIdParts.parse, anything), (UniqueIdParts, ProtocolError))
    assert isinstance(outcome(RecallHandle.decode, anything), (RecallHandle, ProtocolError))


@given(st.text("nsT|-", min_size=1, max_size=5), st.sampled_from(["", "%RETRY%", "%DLQ%"]), st.text("gT_", min_size=1))
def test_name_put_into_a_namespace_comes_out_again(namespace: str, prefix: str, name: str) -> None:
    inside = with_namespace(namespace, prefix + name)
    assert namespace_of(inside) == namespace
    assert without_namespace(inside) == without_namespace(inside, namespace) == prefix + name
    assert with_namespace(namespace, inside) == inside


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5), st.binary(max_size=20))
def test_request_when_signed_is_recognised_until_it_is_changed(ext: dict[str, str], body: bytes) -> None:
    command = Command(10, ext, body)
    sign(command, Credentials("me", "secret", "token"))
    assert is_signed_with(command, "secret")
    assert not is_signed_with(command, "secret2")
    assert not is_signed_with(replace(command, body=body + b"x"), "secret")
