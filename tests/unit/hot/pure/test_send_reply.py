"""Answers to sends, as a client decodes them."""

from __future__ import annotations

import pytest

from rocketline.hot.pure.send_reply import ReplyTexts, encoded, refusals, reply_texts, stored_replies
from rocketline.wire.command import Command
from rocketline.wire.frame import FRAME_BYTES_MAX, FrameReader, decode

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def test_each_request_is_told_where_its_messages_are() -> None:
    sends = [([256], 7, 0, 5, 'U"1'), ([512, 1024], -3, 3, 0, "")]
    first, second = _decoded(stored_replies(_texts(), sends))
    assert (first.code, first.opaque, first.remark) == (0, 7, None)
    assert first.ext == {
        "msgId": "7F00000100002A9F0000000000000100",
        "queueId": "0",
        "queueOffset": "5",
        "transactionId": 'U"1',
        "MSG_REGION": "here",
        "TRACE_ON": "true",
    }
    assert (second.opaque, second.ext["queueId"]) == (-3, "3")
    assert second.ext["msgId"] == "7F00000100002A9F0000000000000200,7F00000100002A9F0000000000000400"
    assert "transactionId" not in second.ext


def test_stored_and_not_yet_on_disk_is_told_with_code_and_remark() -> None:
    (answer,) = _decoded(stored_replies(_texts(), [([1], 9, 0, 0, "")], 10, 'not "yet"'))
    assert (answer.code, answer.opaque, answer.remark, answer.ext["queueOffset"]) == (10, 9, 'not "yet"', "0")


def test_refusals_name_the_cause_and_no_place() -> None:
    answers = _decoded(refusals(_texts(), [1, 2], 14, "full: ü"))
    assert [(answer.code, answer.opaque, answer.remark) for answer in answers] == [
        (14, 1, "full: ü"),
        (14, 2, "full: ü"),
    ]
    assert all(answer.ext == {"MSG_REGION": "here", "TRACE_ON": "true"} for answer in answers)


@pytest.mark.parametrize("region", ["ü", "标"])
def test_region_that_is_no_ascii_is_left_to_the_handlers(region: str) -> None:
    assert reply_texts(HOST, region, "true") is None


def _texts() -> ReplyTexts:
    texts = reply_texts(HOST, "here", "true")
    assert texts is not None
    return texts


def _decoded(frames: list[str]) -> list[Command]:
    reader, answers = FrameReader(FRAME_BYTES_MAX, FRAME_BYTES_MAX), []
    reader.feed(encoded(frames))
    while (whole := reader.take()) is not None:
        answers.append(decode(whole))
    assert not reader.waiting_bytes
    return answers
