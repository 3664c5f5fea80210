from __future__ import annotations

import base64

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire import frame
from rocketline.wire.recall_handle import RecallHandle
from support.golden import golden_frames

VECTOR_P = "djEgVG9waWNUZXN0IGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgN0YwMDAwMDEwMDAxMDAwMDAwMDEwMDAwMDAwQTAwMDA="  # no secret
HANDLE_P = RecallHandle("TopicTest", "broker-a", 1700000000001, "7F0000010001000000010000000A0000")


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_vector_when_read_and_written_is_the_same() -> None:
    """Vector P."""
    assert RecallHandle.decode(VECTOR_P) == HANDLE_P
    assert HANDLE_P.encode() == VECTOR_P


def test_recorded_handles_when_written_again_are_the_same() -> None:
    replies = [frame.decode(golden.data).ext for golden in golden_frames() if golden.direction == "B>C"]
    handles = [ext["recallHandle"] for ext in replies if "recallHandle" in ext]
    assert len(handles) == 2
    assert [RecallHandle.decode(handle).encode() for handle in handles] == handles


def test_handle_without_padding_and_with_more_parts_is_read_as_java_reads_it() -> None:
    assert RecallHandle.decode(VECTOR_P.rstrip("=")) == HANDLE_P
    assert RecallHandle.decode(encoded("v1 T b 1 id more")) == RecallHandle("T", "b", 1, "id")


def test_handle_uses_the_alphabet_of_urls() -> None:
    handle = RecallHandle("T", "b", 1, "~~?>\u07ff")
    assert set(handle.encode()) & set("-_")
    assert RecallHandle.decode(handle.encode()) == handle


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zzzz",
        "a",
        "é",
        encoded("v2 T b 1 id"),
        encoded("v1 T b 1"),
        encoded("v1 T b soon id"),
        encoded("v1 T b -1 id"),
        encoded("v1 T b ١ id"),
        encoded("v1 T b " + "9" * 5000 + " id"),
        "djEgVCBiIDEgaWQ+",
        VECTOR_P[:20] + "\n" + VECTOR_P[20:],
    ],
)
def test_handle_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="recall handle"):
        RecallHandle.decode(text)


@pytest.mark.parametrize("handle", [RecallHandle("a b", "b", 1, "i"), RecallHandle("T", "", 1, "i")])
def test_handle_with_a_part_that_blanks_would_split_is_refused(handle: RecallHandle) -> None:
    with pytest.raises(LocalProtocolError, match="separated by blanks"):
        handle.encode()
