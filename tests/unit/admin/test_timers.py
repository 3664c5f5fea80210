"""What waits, as it is read from the timer topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketline.admin.timers import DueTimes
from rocketline.client.received_message import decode_messages
from rocketline.model.ids import QueueOffset
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.wire.message_codec import encode_record
from support.brokers.tables import message

NOW_MS = 1_700_000_000_000
DUE_MS = NOW_MS + 60_000
PARKED = {"REAL_TOPIC": "T", "UNIQ_KEY": "key", "TIMER_OUT_MS": str(DUE_MS)}
AGAIN = PARKED | {"TIMER_ROLL_TIMES": "1"}
MARKER = PARKED | {"TIMER_DEL_UNIQKEY": "key"}
OTHERS_MARKER = MARKER | {"REAL_TOPIC": "Other"}
OF_ANOTHER_SLOT = MARKER | {"TIMER_OUT_MS": str(DUE_MS + 1000)}
OVER = PARKED | {"TIMER_OUT_MS": str(NOW_MS)}
NEVER = PARKED | {"TIMER_OUT_MS": "9" * 5000}


@pytest.mark.parametrize(
    ("topic", "due"),
    [
        ([PARKED], [DUE_MS]),
        ([PARKED, AGAIN], [DUE_MS]),
        ([PARKED, MARKER], []),
        ([PARKED, MARKER, AGAIN], []),
        ([PARKED, OTHERS_MARKER, OF_ANOTHER_SLOT], [DUE_MS]),
        ([OVER], []),
        ([NEVER], []),
    ],
    ids=["waits", "parked again", "called back", "called back, parked again", "others called back", "over", "no time"],
)
def test_each_message_that_will_come_is_told_once(topic: list[dict[str, str]], due: list[int]) -> None:
    records = [
        encode_record(
            replace(message(WHEEL_TIMER_TOPIC, b"x", queue_id=0, **properties), queue_offset=QueueOffset(offset))
        )
        for offset, properties in enumerate(topic)
    ]
    found = DueTimes(NOW_MS)
    found.add(decode_messages(b"".join(records)))
    assert found.times == due
