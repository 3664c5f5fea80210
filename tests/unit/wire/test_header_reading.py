"""`headers.read`: as forgiving as Apache's broker, and nobody works with what is not there."""

from __future__ import annotations

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.wire import headers
from rocketline.wire.headers import (
    REQUEST_HEADERS,
    PullMessageRequestHeader,
    QueryMessageRequestHeader,
    ResetOffsetRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    UpdateConsumerOffsetRequestHeader,
    decode,
    encode,
    read,
    send_header_v1,
)

COMMIT = {"consumerGroup": "g", "topic": "T", "queueId": "1", "commitOffset": "7"}


def test_header_without_faults_is_what_decode_gives() -> None:
    for cls in REQUEST_HEADERS.values():
        ext = {field.name: "5" if "number" in field.expected else "true" for field in cls.reading}
        assert read(cls, ext) == decode(cls, ext)


def test_field_that_is_missing_is_told_to_whom_asks_for_it() -> None:
    ext = {name: text for name, text in COMMIT.items() if name != "queueId"}
    asked = read(UpdateConsumerOffsetRequestHeader, ext)
    assert (asked.topic, asked.commit_offset) == ("T", 7)
    with pytest.raises(RemoteProtocolError, match="UpdateConsumerOffsetRequestHeader: the field queueId is missing"):
        asked.queue_id  # noqa: B018
    assert "queue_id" not in repr(asked)


def test_number_that_cannot_be_read_is_told_with_its_text() -> None:
    asked = read(UpdateConsumerOffsetRequestHeader, COMMIT | {"commitOffset": "x" * 100})
    with pytest.raises(RemoteProtocolError, match=r"the field commitOffset is 'x{80}…', not a whole number of 64 bits"):
        asked.commit_offset  # noqa: B018


def test_optional_number_that_cannot_be_read_has_its_default() -> None:
    asked = read(SendMessageRequestHeader, {"reconsumeTimes": "abc", "topic": "T"})
    assert (asked.reconsume_times, asked.topic) == (None, "T")


def test_field_that_is_not_missed_has_what_stands_for_it() -> None:
    asked = read(QueryMessageRequestHeader, {})
    assert (asked.topic, asked.key) == ("", "")
    with pytest.raises(RemoteProtocolError):
        decode(QueryMessageRequestHeader, {})


@pytest.mark.parametrize(
    ("cls", "name"), [(PullMessageRequestHeader, "queueOffset"), (SendMessageRequestHeaderV2, "j")]
)
def test_number_spoils_a_header_that_is_exact(cls: type[headers.Header], name: str) -> None:
    read(cls, {})
    with pytest.raises(RemoteProtocolError, match=name):
        read(cls, {name: "abc"})


def test_number_of_a_guarded_header_never_gets_its_default() -> None:
    """Queue -1 would be all queues."""
    asked = read(ResetOffsetRequestHeader, {"topic": "T", "queueId": "all", "offset": "0x1"})
    assert (asked.topic, asked.group, asked.is_force) == ("T", "", False)
    for name in ("queue_id", "offset", "timestamp"):
        with pytest.raises(RemoteProtocolError):
            getattr(asked, name)
    assert read(ResetOffsetRequestHeader, {}).queue_id == -1


def test_what_a_short_send_lacks_its_long_form_lacks_too() -> None:
    long = send_header_v1(read(SendMessageRequestHeaderV2, {"b": "T", "e": "3"}))
    assert (long.topic, long.queue_id, long.properties) == ("T", 3, None)
    with pytest.raises(RemoteProtocolError, match="defaultTopic is missing"):
        long.default_topic  # noqa: B018


def test_header_that_lacks_something_cannot_be_written() -> None:
    with pytest.raises(RemoteProtocolError, match="queueId is missing"):
        encode(read(UpdateConsumerOffsetRequestHeader, {"topic": "T"}))


def test_name_that_is_no_field_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no field nonsense"):
        getattr(read(UpdateConsumerOffsetRequestHeader, COMMIT), "nonsense")  # noqa: B009
