"""Rows made by columns are the rows made of consumers' messages one by one, whatever the records are.

And whatever happens to their bytes, the answer is the same rows, an error, or rows without what was broken out of
sight; never other rows.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketline.errors import RemoteProtocolError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP, CompressionType
from rocketline.spark.decoding.columns import PulledRun
from rocketline.spark.schema import COLUMNS, arrow_schema
from rocketline.wire.batch import encode_batch
from rocketline.wire.compression import compress
from rocketline.wire.message_codec import encode_record
from support.spark.records import ORIGIN, decode_at_once, expected_rows, rows_of

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(
    HostAddress,
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)),
    st.integers(0, 65535),
)
REFUSED = {"WAIT", "DELAY", "TRAN_MSG"}
"""What members of a batch must have alike or must not have, of names as short as those below."""
names = st.one_of(
    st.sampled_from(("TAGS", "KEYS", "UNIQ_KEY", "CLUSTER", "TRACE_ON", "shop", "name-that-is-rather-long-1")),
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=12),
)
values = st.text(st.characters(codec="utf-8", exclude_characters="\x02"), max_size=20)
properties = st.dictionaries(names, values, max_size=6)
member_properties = properties.map(lambda given: {name: given[name] for name in given.keys() - REFUSED})
bodies = st.binary(max_size=40)
kinds = st.sampled_from(CompressionType)


@st.composite
def stored_messages(draw: st.DrawFn) -> StoredMessage:
    """A message of the queue, of any kind; its offset is still to be set."""
    born, store = draw(hosts), draw(hosts)
    message = StoredMessage(
        topic=ORIGIN.topic_on_wire,
        body=draw(bodies),
        properties=draw(properties),
        flag=draw(int32),
        queue_id=ORIGIN.queue.queue_id,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(draw(int64)),
        sys_flag=draw(st.sampled_from((0, 0, 0, 0, 2, 8, 0x40, 0x80, 0x100))),
        born_ms=draw(int64),
        born_host=born,
        store_ms=draw(int64),
        store_host=store,
        reconsume_times=draw(int32),
        prepared_log_offset=LogOffset(draw(int64)),
        version=draw(st.sampled_from((1, 1, 1, 2))),
    )
    how = draw(st.integers(0, 9))
    if how == 0:
        kind = draw(kinds)
        message.body, message.sys_flag = compress(message.body, kind), kind.sys_flag
    elif how == 1:
        members = draw(
            st.lists(
                st.builds(lambda body, props: Message.of("", body, props), bodies, member_properties),
                min_size=1,
                max_size=4,
            )
        )
        message.body, message.sys_flag = encode_batch(members), NEED_UNWRAP | INNER_BATCH
        message.properties = {"INNER_NUM": str(len(members))}
    return message


@st.composite
def pulled_runs(draw: st.DrawFn) -> list[PulledRun]:
    runs, offset = [], draw(st.integers(0, 2**50))
    for messages in draw(st.lists(st.lists(stored_messages(), max_size=5), min_size=1, max_size=4)):
        low, body = offset, b""
        for message in messages:
            body += encode_record(replace(message, queue_offset=QueueOffset(offset)))
            offset += int(message.properties.get("INNER_NUM", "1")) if message.sys_flag & 0xC0 == 0xC0 else 1
        cut = draw(st.integers(0, 2))
        runs.append(PulledRun(ORIGIN, body, low + cut, max(offset - cut, low + cut), draw(st.sampled_from((0, 0, 5)))))
    return runs


columns = st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True)


@settings(max_examples=60)
@given(pulled_runs(), columns)
def test_both_ways_make_the_same_rows(runs: list[PulledRun], columns: list[str]) -> None:
    decoded = decode_at_once(runs, columns)
    assert rows_of(decoded.batch) == expected_rows(runs, columns)
    assert decoded.batch.schema == arrow_schema(columns)
    assert sum(decoded.counts) == decoded.batch.num_rows
    decoded.batch.validate(full=True)


@settings(max_examples=30)
@given(pulled_runs(), st.sets(st.text("ab", min_size=1, max_size=2), min_size=1))
def test_tags_choose_the_rows_that_have_one_of_them(runs: list[PulledRun], tags: set[str]) -> None:
    expected = [row for row in expected_rows(runs) if row["tags"] in tags]
    assert rows_of(decode_at_once(runs, COLUMNS, tags).batch) == expected


@settings(max_examples=60)
@given(pulled_runs(), st.data())
def test_changed_bytes_are_an_error_or_the_rows_that_consumers_would_get(
    runs: list[PulledRun], data: st.DataObject
) -> None:
    broken = []
    for run in runs:
        body = bytearray(run.body)
        for _ in range(data.draw(st.integers(0, 2)) if body else 0):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        broken.append(replace(run, body=bytes(body)))
    rows, problem = None, ""
    try:
        rows = rows_of(decode_at_once(broken, COLUMNS).batch)
    except RemoteProtocolError as error:
        problem = str(error)
    if rows is None:
        assert "queue 1 of topic 'orders' on broker 'broker-a'" in problem
    else:
        assert rows == expected_rows(broken)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_properties_of_any_bytes_are_read_as_consumers_read_them(texts: list[bytes]) -> None:
    body = b""
    for offset, text in enumerate(texts):
        message = StoredMessage(
            topic="orders", body=b"", properties={}, flag=0, queue_id=1, queue_offset=QueueOffset(offset),
            log_offset=LogOffset(0), sys_flag=0, born_ms=0, born_host=HostAddress(bytes(4), 1), store_ms=0,
            store_host=HostAddress(bytes(4), 1), reconsume_times=0,
        )  # fmt: skip
        record = encode_record(message)
        body += (len(record) + len(text)).to_bytes(4, "big") + record[4:-2] + len(text).to_bytes(2, "big") + text
    runs = [PulledRun(ORIGIN, body, 0, 100)]
    batch = decode_at_once(runs, ("queueOffset", "msgId", "tags", "keys", "properties")).batch
    assert rows_of(batch) == expected_rows(runs, batch.schema.names)
    batch.validate(full=True)


marks = st.text("\x01\x02ab", max_size=30).map(str.encode)


@given(st.lists(st.one_of(marks, st.just(b"TAGS\x01a\x02KEYS\x01b\x02")), min_size=1, max_size=6))
def test_properties_of_marks_in_any_order_are_read_as_consumers_read_them(texts: list[bytes]) -> None:
    test_properties_of_any_bytes_are_read_as_consumers_read_them.hypothesis.inner_test(texts)  # type: ignore[attr-defined]


def test_a_hostile_length_reads_nothing_outside_of_the_answer() -> None:
    record = bytearray(91)
    record[:8] = (91).to_bytes(4, "big") + (0xDAA320A7).to_bytes(4, "big")
    record[84:88] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError):
        decode_at_once([PulledRun(ORIGIN, bytes(record), 0, 9)], COLUMNS)
