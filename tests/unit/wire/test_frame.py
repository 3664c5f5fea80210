"""Frames: limits, errors, and the bytes that real peers sent."""

from __future__ import annotations

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire import frame
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command
from rocketline.wire.frame import FRAME_BYTES_MAX, FrameReader
from support.golden import golden_frames


def prefix(size: int, header_type: int = 0, header_bytes: int = 0) -> bytes:
    return size.to_bytes(4, "big") + bytes([header_type]) + header_bytes.to_bytes(3, "big")


def header_of(data: bytes) -> bytes:
    return data[8 : 8 + int.from_bytes(data[5:8], "big")]


def body_of(data: bytes) -> bytes:
    return data[8 + len(header_of(data)) :]


def test_decode_when_frame_was_recorded_reads_it_and_keeps_its_body() -> None:
    for golden in golden_frames():
        command = frame.decode(golden.data)
        assert command.body == body_of(golden.data), golden.what
        assert command.is_response == golden.what.startswith(("reply", "answer")), golden.what
        assert command.is_oneway == ("oneway" in golden.what), golden.what


def test_encode_when_java_wrote_the_frame_gives_the_same_bytes() -> None:
    """Java writes its keys in alphabetical order, and an empty map where we write none."""
    for golden in golden_frames():
        if not golden.is_probe:
            again = frame.encode(frame.decode(golden.data))
            assert header_of(again) == header_of(golden.data).replace(b'"extFields":{},', b""), golden.what
            assert body_of(again) == body_of(golden.data), golden.what


def test_encode_when_header_is_binary_gives_the_same_bytes() -> None:
    binary = [golden for golden in golden_frames() if golden.data[4] == SerializeType.ROCKETMQ]
    assert len(binary) == 20
    assert [frame.encode(frame.decode(golden.data)) for golden in binary] == [golden.data for golden in binary]


def test_decode_when_request_is_in_both_encodings_means_the_same() -> None:
    """S8: the type byte of each frame tells its encoding."""
    as_json = Command(105, {"topic": "T"}, b"body", opaque=7, version=401, language="GO")
    as_binary = Command(105, {"topic": "T"}, b"body", 7, 0, None, 401, "GO", SerializeType.ROCKETMQ)
    first, second = frame.decode(frame.encode(as_json)), frame.decode(frame.encode(as_binary))
    assert (first, second) == (as_json, as_binary)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (prefix(FRAME_BYTES_MAX - 3), "frame of 16777217 bytes announced, at most 16777216 are accepted"),
        (prefix(2**31), "frame of 2147483652 bytes announced"),
        (prefix(2**32 - 1), "frame of 4294967299 bytes announced"),
        (prefix(3), "frame length 3 leaves no room for a header"),
        (prefix(0), "frame length 0 leaves no room for a header"),
        (prefix(100, header_type=2), "header type 2: 0 (JSON) and 1 (ROCKETMQ) are known"),
        (prefix(100, header_type=255, header_bytes=0xFFFFFF), "header type 255"),
        (prefix(100, header_bytes=97), "header of 97 bytes in a frame of 104"),
        (b"GET / HTTP/1.1\r\n", "frame of 1195725860 bytes announced"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "frame of 369295622 bytes announced"),
    ],
)
def test_take_when_prefix_breaks_a_rule_names_it(data: bytes, problem: str) -> None:
    """S7: the connection ends here, with no answer."""
    reader = FrameReader()
    reader.feed(data)
    with pytest.raises(RemoteProtocolError) as error:
        reader.take()
    assert str(error.value).startswith(problem)


@pytest.mark.parametrize("size", [FRAME_BYTES_MAX - 3, 2**31 - 1, 2**32 - 1, 3])
def test_take_when_length_alone_is_wrong_does_not_wait_for_more(size: int) -> None:
    reader = FrameReader()
    reader.feed(size.to_bytes(4, "big"))
    with pytest.raises(RemoteProtocolError):
        reader.take()


def test_take_when_called_again_after_an_error_raises_it_again() -> None:
    reader = FrameReader()
    reader.feed(prefix(2))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="leaves no room"):
            reader.take()
        reader.feed(frame.encode(Command(105)))


def test_take_when_good_frames_come_before_a_bad_one_gives_them_first() -> None:
    good = frame.encode(Command(106))
    reader = FrameReader()
    reader.feed(good + good + prefix(1))
    assert [reader.take(), reader.take()] == [good, good]
    with pytest.raises(RemoteProtocolError):
        reader.take()


def test_take_when_frame_has_the_greatest_size_gives_it() -> None:
    room = FRAME_BYTES_MAX - len(frame.encode(Command(10)))
    whole = frame.encode(Command(10, body=bytes(room)))
    assert len(whole) == FRAME_BYTES_MAX
    reader = FrameReader()
    reader.feed(whole[:-1])
    assert reader.take() is None
    assert reader.waiting_bytes == FRAME_BYTES_MAX - 1
    reader.feed(whole[-1:])
    assert reader.take() == whole
    assert reader.waiting_bytes == 0


def test_take_when_limit_was_lowered_refuses_what_is_above_it() -> None:
    reader = FrameReader(frame_bytes_max=100)
    reader.feed(prefix(97, header_bytes=10))
    with pytest.raises(RemoteProtocolError, match="at most 100 are accepted"):
        reader.take()


def test_encode_when_frame_would_be_too_large_refuses() -> None:
    with pytest.raises(LocalProtocolError, match="peers accept at most 16777216"):
        frame.encode(Command(10, body=bytes(FRAME_BYTES_MAX)))


@pytest.mark.parametrize("change", [-1, 1])
def test_decode_when_bytes_are_not_exactly_one_frame_refuses(change: int) -> None:
    whole = frame.encode(Command(105, {"topic": "T"}))
    wrong = whole[:change] if change < 0 else whole + b"x"
    with pytest.raises(RemoteProtocolError, match="are not one whole frame"):
        frame.decode(wrong)


def test_decode_when_there_is_nothing_refuses() -> None:
    with pytest.raises(RemoteProtocolError, match="0 bytes are not one whole frame"):
        frame.decode(b"")


def test_golden_frames_cover_every_direction() -> None:
    directions = {golden.direction for golden in golden_frames()}
    assert directions == {"B>N", "N>B", "C>N", "N>C", "C>B", "B>C"}
