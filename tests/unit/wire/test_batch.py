from __future__ import annotations

import struct

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.message import Message
from rocketline.wire import frame
from rocketline.wire.batch import decode_batch, encode_batch
from rocketline.wire.codes import RequestCode
from support.golden import golden_frames

VECTOR_H = bytes.fromhex(
    "0000001f0000000000000000000000000000000161000854414753015431020000002800000000000000000000000100000002626200104b"
    "455953016b31025441475301543202"
)
MESSAGES_H = [Message.of("T", b"a", {"TAGS": "T1"}), Message.of("T", b"bb", {"KEYS": "k1", "TAGS": "T2"}, flag=1)]


def poked(at: int, layout: str, value: int) -> bytes:
    changed = bytearray(VECTOR_H)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


def test_vector_when_read_and_written_is_the_same() -> None:
    """Vector H."""
    assert decode_batch(VECTOR_H, "T") == MESSAGES_H
    assert encode_batch(MESSAGES_H) == VECTOR_H


def test_recorded_batches_when_written_again_have_the_same_bytes() -> None:
    commands = [frame.decode(golden.data) for golden in golden_frames() if golden.direction == "C>B"]
    batches = [command for command in commands if command.code == RequestCode.SEND_BATCH_MESSAGE]
    assert len(batches) == 3
    for command in batches:
        messages = decode_batch(command.body, command.ext["b"])
        assert len(messages) > 1
        assert encode_batch(messages) == command.body


def test_batch_of_nothing_is_read_as_nothing() -> None:
    assert decode_batch(b"", "T") == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (VECTOR_H[:-1], "40 bytes announced at 31, 39 left"),
        (VECTOR_H[:40], "9 bytes at 31 are too few"),
        (poked(0, ">i", -1), "-1 bytes announced at 0"),
        (poked(0, ">i", 21), "21 bytes announced at 0"),
        (poked(0, ">i", 32), "do not end the message at 0"),
        (poked(16, ">i", -1), "body of -1 bytes"),
        (poked(16, ">i", 2**31 - 1), "body of 2147483647 bytes"),
        (poked(16, ">i", 9), "properties of 12546 bytes"),
        (poked(21, ">h", -1), "properties of -1 bytes"),
        (poked(21, ">h", 9), "properties of 9 bytes"),
    ],
)
def test_batch_with_a_wrong_length_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        decode_batch(data, "T")


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "at least one"),
        ([Message("A", b"x"), Message("B", b"x")], "not both A and B"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
        ([Message.of("A", b"x", {"WAIT": "true"}), Message("A", b"x")], "same property WAIT"),
        ([Message.of("A", b"x", {"DELAY": "3"})], "property DELAY"),
        ([Message("A", b"x"), Message.of("A", b"x", {"TIMER_DELIVER_MS": "3"})], "property TIMER_DELIVER_MS"),
        ([Message.of("A", b"x", {"TRAN_MSG": "true"})], "property TRAN_MSG"),
        ([Message("A", b"x", flag=2**31)], "flag 2147483648"),
    ],
)
def test_batch_that_no_broker_takes_is_refused(messages: list[Message], problem: str) -> None:
    with pytest.raises(LocalProtocolError, match=problem):
        encode_batch(messages)
