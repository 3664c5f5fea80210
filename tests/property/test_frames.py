"""Frames, whatever the network and the peer do to their bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import RemoteProtocolError
from rocketline.wire import frame, header_binary, header_json
from rocketline.wire.codes import LANGUAGES, SerializeType
from rocketline.wire.command import Command
from rocketline.wire.frame import FrameReader
from support.golden import golden_frames

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=20)
SOME_TEXT = st.text(min_size=1, max_size=20)  # a binary header cannot tell an empty text from none
BODY = st.binary(max_size=50)

json_commands = st.builds(
    Command, INT32, st.dictionaries(TEXT, TEXT, max_size=4), BODY, INT32, INT32, st.none() | TEXT, INT32,
    st.sampled_from(LANGUAGES), st.just(SerializeType.JSON),
)  # fmt: skip
binary_commands = st.builds(
    Command, INT16, st.dictionaries(SOME_TEXT, SOME_TEXT, max_size=4), BODY, INT32, INT32, st.none() | SOME_TEXT, INT16,
    st.sampled_from(LANGUAGES), st.just(SerializeType.ROCKETMQ),
)  # fmt: skip
commands = json_commands | binary_commands
golden_bytes = st.sampled_from([golden.data for golden in golden_frames()])
frames = commands.map(frame.encode) | golden_bytes
tails = st.just(b"") | st.binary(max_size=30) | frames.map(lambda data: data[:-1])


def events(pieces: Iterable[bytes]) -> list[object]:
    """What a reader makes of the pieces: frames, then perhaps the text of an error."""
    reader, seen = FrameReader(), list[object]()
    try:
        for piece in pieces:
            reader.feed(piece)
            while (whole := reader.take()) is not None:
                seen.append(whole)
    except RemoteProtocolError as error:
        seen.append(str(error))
    return seen


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(commands)
def test_round_trip_when_command_is_any_gives_it_back(command: Command) -> None:
    assert frame.decode(frame.encode(command)) == command


@given(st.lists(frames, max_size=5), tails, st.lists(st.integers(0, 10_000), max_size=12))
def test_stream_when_cut_anywhere_gives_the_same_frames_and_error(
    whole: list[bytes], tail: bytes, places: list[int]
) -> None:
    stream = b"".join(whole) + tail
    expected = events([stream])
    assert expected[: len(whole)] == whole
    assert events(cut(stream, places)) == expected


@given(st.lists(frames, max_size=2), tails)
def test_stream_when_it_comes_byte_by_byte_gives_the_same(whole: list[bytes], tail: bytes) -> None:
    stream = (b"".join(whole) + tail)[:3000]
    assert events(bytes([byte]) for byte in stream) == events([stream])


@given(frames, st.data())
def test_frame_when_cut_short_is_waited_for_and_never_decoded(whole: bytes, data: st.DataObject) -> None:
    short = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert events([short]) == []
    with pytest.raises(RemoteProtocolError):
        frame.decode(short)


@given(frames, st.data())
def test_header_when_cut_short_is_a_protocol_error(whole: bytes, data: st.DataObject) -> None:
    """A length that still fits its frame, and a header that does not fit the length."""
    header_bytes = int.from_bytes(whole[5:8], "big")
    kept = data.draw(st.integers(0, header_bytes - 1))
    shorter = whole[:5] + kept.to_bytes(3, "big") + whole[8:]
    with pytest.raises(RemoteProtocolError):
        frame.decode(shorter)


@given(frames, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_frame_when_bytes_are_changed_is_read_or_is_a_protocol_error(
    whole: bytes, changes: list[tuple[int, int]]
) -> None:
    broken = bytearray(whole)
    for place, value in changes:
        broken[place % len(broken)] = value
    for event in events([bytes(broken)]):
        if isinstance(event, bytes):
            read_or_refuse(frame.decode, event)
    read_or_refuse(frame.decode, bytes(broken))


@given(st.binary(max_size=200))
def test_decoders_when_bytes_are_random_read_them_or_raise_a_protocol_error(data: bytes) -> None:
    read_or_refuse(frame.decode, data)
    read_or_refuse(lambda header: header_binary.decode(header, b""), data)
    read_or_refuse(lambda header: header_json.decode(header, b""), data)
    read_or_refuse(lambda header: header_json.decode_plain(header, b""), data)


def read_or_refuse(decode: Callable[[bytes], Command], data: bytes) -> None:
    """Any exception but the one that bad bytes are due ends the test."""
    try:
        assert isinstance(decode(data), Command)
    except RemoteProtocolError as error:
        assert str(error)  # noqa: PT017  # both ways are right; which one, the bytes decide


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**24 - 1), st.sampled_from([0, 1]))
def test_reader_when_lengths_are_announced_keeps_no_memory_for_them(size: int, header: int, kind: int) -> None:
    data = size.to_bytes(4, "big") + bytes([kind]) + header.to_bytes(3, "big") + b"{}"
    assert peak_bytes(lambda: events([data, b"x" * 100])) < 50_000


@given(st.integers(2**16, 2**31 - 1), st.sampled_from(["remark", "fields", "name", "value"]))
def test_binary_header_when_lengths_are_announced_keeps_no_memory_for_them(size: int, where: str) -> None:
    announced = size.to_bytes(4, "big")
    tail = {
        "remark": announced,
        "fields": bytes(4) + announced,
        "name": bytes(4) + b"\0\0\0\x08" + b"\x7f\xff" + bytes(6),
        "value": bytes(4) + b"\0\0\0\x08" + b"\0\x01a" + announced + b"b",
    }[where]
    header = bytes(13) + tail + bytes(20)

    def refuse() -> None:
        with pytest.raises(RemoteProtocolError):
            header_binary.decode(header, b"")

    assert peak_bytes(refuse) < 50_000
