from __future__ import annotations

import pytest

from rocketline.model.queue import MessageQueue
from rocketline.wire.bodies import decode_in_steps, encode, encode_in_parts
from rocketline.wire.bodies.offsets import ConsumerOffsetTable, CorrectionOffsets
from rocketline.wire.bodies.stats import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans, OffsetWrapper, QueueTimeSpan
from support.long_steps import counted

OFFSETS = {MessageQueue("T", "b", queue_id): OffsetWrapper(queue_id) for queue_id in range(1000)}


@pytest.mark.parametrize(
    "body",
    [
        CorrectionOffsets(dict.fromkeys(reversed(range(1000)), 1)),
        ConsumeStats(OFFSETS, 1.5),
        ConsumeStatsList([{"g": [ConsumeStats(OFFSETS)]}, {"h": []}], "127.0.0.1:1"),
        ConsumeTimeSpans([QueueTimeSpan(queue) for queue in OFFSETS]),
        ConsumerOffsetTable(offset_table={f"T@g{group}": {1: 2, 0: 3} for group in range(500)}),
    ],
    ids=lambda body: type(body).__name__,
)
def test_large_body_comes_in_small_pieces_that_are_the_same_in_all(body: object) -> None:
    pieces = list(encode_in_parts(body))
    whole = encode(body)
    assert b"".join(pieces) == whole
    assert max(map(len, pieces)) < len(whole) / 4
    read, pauses = counted(decode_in_steps(type(body), whole, tolerated_max=2**20))
    assert read == body
    assert pauses >= 3 or b"{{" in whole, "where objects are keys it is read in one go"
