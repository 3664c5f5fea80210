"""What brokers note of messages that were popped, as Apache's broker wrote it."""

from __future__ import annotations

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.pop import BIT_SET_BYTES_MAX, AckMsg, PopCheckPoint, bit_set_of, bits_of
from rocketline.wire.message_codec import decode_record
from support.golden import read_lines

RECORDS = {
    (line["what"], line["ver"]): decode_record(bytes.fromhex(line["hex"]))
    for line in read_lines("store-5.5.0.jsonl")
    if line["what"].startswith("POP ") and "retry" not in line["what"]
}


@pytest.mark.parametrize(("what", "version"), RECORDS)
def test_recorded_body_is_read_and_written_byte_for_byte(what: str, version: str) -> None:
    """But for `sp`, which 5.3.3 does not know yet."""
    body = RECORDS[what, version].body
    record = decode(PopCheckPoint if "checkpoint" in what else AckMsg, body)
    assert encode(record).replace(b'"sp":false,', b"") == body.replace(b'"sp":false,', b"")
    assert encode(record) == body or version == "5.3.3"


def test_checkpoint_tells_its_messages_and_when_they_come_again() -> None:
    record = decode(PopCheckPoint, RECORDS["POP checkpoint, in the revive topic", "5.5.0"].body)
    assert record.offsets() == [0, 1, 2]
    assert record.revive_ms == record.revive_time == 1794776334442


def test_checkpoint_without_differences_is_of_neighbours() -> None:
    """As older releases wrote it, with the long names of theirs."""
    record = decode(PopCheckPoint, b'{"topic":"T","cid":"g","startOffset":7,"num":3,"popTime":5,"invisibleTime":6}')
    assert record.offsets() == [7, 8, 9]
    assert (record.topic, record.consumer_group, record.revive_ms, record.re_put_times) == ("T", "g", 11, None)


def test_acknowledgement_is_of_one_message_or_of_several() -> None:
    one = decode(AckMsg, b'{"ackOffset":9,"startOffset":7,"consumerGroup":"g","topic":"T","queueId":1,"popTime":5}')
    several = decode(AckMsg, RECORDS["POP batch ack, in the timer topic", "5.5.0"].body)
    assert (one.offsets(), one.queue_id, one.consumer_group) == ([9], 1, "g")
    assert (several.offsets(), several.ack_offset) == ([0], -1)


def test_bit_set_that_no_pop_needs_is_refused() -> None:
    assert bits_of(bit_set_of([8 * BIT_SET_BYTES_MAX - 1])) == [8 * BIT_SET_BYTES_MAX - 1]
    with pytest.raises(RemoteProtocolError, match="bit set"):
        bits_of(bit_set_of([8 * BIT_SET_BYTES_MAX]))
