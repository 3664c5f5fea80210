"""Answers to pops, whatever a broker makes of them: messages with handles that can be used, or one kind of error."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.consumer.subscriptions import parse_subscription
from rocketline.client.pop.pops import ALL_QUEUES, PopPlan, PopQuery
from rocketline.errors import ProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import PopHandle
from support.clients.popping import record

NUMBERS = st.integers(-(2**70), 2**70) | st.integers(0, 3)
PARTS = NUMBERS.map(str) | st.sampled_from(["", "x", "qo1%2", "0,1", "0,1,2", "-1"])
ITEMS = st.lists(PARTS, min_size=2, max_size=4).map(" ".join)
TEXTS = st.lists(ITEMS, max_size=4).map(";".join) | st.text(max_size=20)
HANDLES = st.lists(PARTS, min_size=7, max_size=9).map(" ".join) | st.just("0 1 2 3 1 broker-a 0 0") | st.none()
RECORDS = st.builds(
    lambda offset, queue_id, topic, handle: record(
        b"x", offset, queue_id=queue_id, topic=topic, properties={} if handle is None else {"POP_CK": handle}
    ),
    st.integers(0, 3) | st.integers(0, 2**63 - 1),
    st.integers(0, 2) | st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(["T", "%RETRY%g_T", "%RETRY%g+T", "other"]),
    HANDLES,
)
FIELDS = ("popTime", "invisibleTime", "reviveQid", "restNum", "startOffsetInfo", "msgOffsetInfo", "orderCountInfo")
EXT = st.fixed_dictionaries({}, optional={name: TEXTS | NUMBERS.map(str) for name in FIELDS})
QUERY = PopQuery(
    MessageQueue("T", "broker-a", ALL_QUEUES),
    parse_subscription("T", None, sub_version=1),
    count_max=32,
    invisible_s=60,
    poll_s=15,
    from_first=True,
)


@given(ext=EXT, records=st.lists(RECORDS, max_size=4), torn=st.integers(0, 40))
def test_answer_is_read_or_refused(ext: dict[str, Any], records: list[bytes], torn: int) -> None:
    body = b"".join(records)
    answer = Command(0, ext, body[: len(body) - torn] if torn < 8 else body)
    try:
        result = PopPlan("g", namespace="").answered(QUERY, "host:1", answer, now_s=100.0)
    except ProtocolError:
        return
    assert len(result.messages) == len(records)
    for message in result.messages:
        assert message.handle == PopHandle.parse(message.handle.format())
        assert message.expires_s <= 160
        assert message.properties["POP_CK"] == message.handle.format()
