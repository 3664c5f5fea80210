"""Pulled records become the rows that a consumer would have seen, or an error that says where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import CompressionType
from rocketline.spark.decoding import record_columns
from rocketline.spark.decoding.columns import PulledRun, RunOrigin, decode
from rocketline.spark.schema import COLUMNS, arrow_schema
from rocketline.wire.message_codec import decode_record, encode_record
from support.golden import read_lines
from support.spark.records import (
    IPV6_HOST,
    ORIGIN,
    TIMESTAMP_MS_MAX,
    compressed,
    decode_at_once,
    expected_rows,
    inner_batch,
    rows_of,
    run,
    stored,
)

RECORDS = [
    bytes.fromhex(line["hex"])
    for line in read_lines("store-5.5.0.jsonl")
    if line["file"] == "commitlog" and "blank" not in line["what"]
]


def test_plain_messages_become_rows_with_all_columns_in_the_type_that_spark_wants() -> None:
    runs = [run([stored(5, TAGS="a", KEYS="k1 k2", shop="Zürich ☃"), stored(6)]), run([stored(7, b"")])]
    decoded = decode_at_once(runs, COLUMNS)
    assert rows_of(decoded.batch) == expected_rows(runs)
    assert decoded.batch.schema == arrow_schema()
    assert decoded.counts == [2, 1]
    decoded.batch.validate(full=True)


def test_only_the_columns_asked_for_are_there_and_in_that_order() -> None:
    batch = decode_at_once([run([stored(5, b"x")])], ("body", "queueOffset")).batch
    assert batch.schema.names == ["body", "queueOffset"]
    assert batch.to_pylist() == [{"body": b"x", "queueOffset": 5}]


@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
def test_records_that_apache_wrote_become_the_rows_that_a_consumer_sees(record: bytes) -> None:
    message = decode_record(record)
    origin = RunOrigin(MessageQueue(message.topic, "b", message.queue_id), message.topic)
    runs = [PulledRun(origin, record, -(2**62), 2**62)]
    assert rows_of(decode_at_once(runs, COLUMNS).batch) == expected_rows(runs)


@pytest.mark.parametrize("kind", CompressionType)
def test_compressed_bodies_are_expanded_and_keep_their_places(kind: CompressionType) -> None:
    runs = [run([stored(1), compressed(stored(2, b"long " * 1000), kind), stored(3)])]
    batch = decode_at_once(runs, COLUMNS).batch
    assert rows_of(batch) == expected_rows(runs)
    assert batch["body"].to_pylist() == [b"hello", b"long " * 1000, b"hello"]


def test_inner_batches_are_taken_apart_and_keep_their_places() -> None:
    runs = [run([stored(1), inner_batch(2, 3), stored(5)])]
    decoded = decode_at_once(runs, COLUMNS)
    assert rows_of(decoded.batch) == expected_rows(runs)
    assert decoded.batch["queueOffset"].to_pylist() == [1, 2, 3, 4, 5]
    assert decoded.counts == [5]


def test_of_an_inner_batch_only_the_members_in_the_range_are_taken() -> None:
    decoded = decode_at_once([run([inner_batch(2, 5)], low=3, high=6)], ("queueOffset", "body"))
    assert decoded.batch["body"].to_pylist() == [b"inner 3", b"inner 4", b"inner 5"]
    assert decoded.counts == [3]


def test_records_of_version_2_and_with_ipv6_hosts_are_read() -> None:
    second = stored(2)
    second.version = 2
    hosts = [stored(3), stored(4), stored(5)]
    hosts[0].born_host = hosts[1].store_host = hosts[2].born_host = hosts[2].store_host = IPV6_HOST
    runs = [run([stored(1), second, *hosts])]
    assert rows_of(decode_at_once(runs, COLUMNS).batch) == expected_rows(runs)


def test_a_message_without_a_unique_id_has_the_id_of_its_place() -> None:
    message = stored(3)
    message.properties = {"TAGS": "a"}
    runs = [run([stored(2), message])]
    assert decode_at_once(runs, ("msgId",)).batch["msgId"].to_pylist() == [
        f"{2:032X}",
        "7F00000100002A9F0000000000000BB8",
    ]


def test_times_that_no_timestamp_can_show_are_null() -> None:
    messages = [stored(offset) for offset in range(4)]
    messages[0].born_ms, messages[1].born_ms = TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX + 1
    messages[2].born_ms, messages[3].born_ms = -(2**63), -TIMESTAMP_MS_MAX
    runs = [run(messages)]
    batch = decode_at_once(runs, COLUMNS).batch
    assert rows_of(batch) == expected_rows(runs)
    assert batch["bornTimestamp"].null_count == 2


def test_offsets_outside_of_what_a_run_is_for_are_left_out() -> None:
    decoded = decode_at_once(
        [run([stored(n) for n in range(10)], low=3, high=6), run([stored(6)], 6, 9)], ("queueOffset",)
    )
    assert decoded.batch["queueOffset"].to_pylist() == [3, 4, 5, 6]
    assert decoded.counts == [3, 1]


def test_a_delta_is_added_to_offsets_and_a_static_queue_may_have_another_number_on_its_broker() -> None:
    origin = RunOrigin(MessageQueue("orders", "__syslo__global__", 9), "orders", is_static=True)
    runs = [replace(run([stored(5), stored(6)], origin=origin), offset_delta=100)]
    batch = decode_at_once(runs, ("queueId", "queueOffset", "brokerName")).batch
    assert batch["queueOffset"].to_pylist() == [105, 106]
    assert batch["queueId"].to_pylist() == [9, 9]


def test_rows_of_several_queues_say_where_they_come_from() -> None:
    other = RunOrigin(MessageQueue("bills", "broker-b", 3), "ns%bills")
    runs = [run([stored(1)]), run([stored(7, topic="ns%bills", queue_id=3)], origin=other), run([stored(2)])]
    batch = decode_at_once(runs, ("topic", "brokerName", "queueId", "queueOffset")).batch
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        ("orders", "broker-a", 1, 1),
        ("bills", "broker-b", 3, 7),
        ("orders", "broker-a", 1, 2),
    ]


def test_tags_are_compared_exactly_also_if_the_column_is_not_asked_for() -> None:
    messages = [
        stored(1, TAGS="Aa"),
        stored(2, TAGS="BB"),
        stored(3),
        compressed(stored(4, b"z" * 99, TAGS="BB"), CompressionType.ZLIB),
    ]
    decoded = decode_at_once([run(messages)], ("queueOffset",), tags={"BB", "C"})  # Aa and BB have the same hash
    assert decoded.batch.to_pylist() == [{"queueOffset": 2}, {"queueOffset": 4}]
    assert decoded.counts == [4]


def test_a_run_without_records_gives_no_rows() -> None:
    decoded = decode_at_once([run([])], COLUMNS)
    assert decoded.batch.num_rows == 0
    assert decoded.batch.schema == arrow_schema()
    assert decoded.counts == [0]


# --- properties


def properties_of(*texts: bytes) -> list[dict[str, str]]:
    """What the rows say whose records have these bytes as properties."""
    body = b""
    for offset, text in enumerate(texts):
        message = stored(offset)
        message.properties = {}
        record = encode_record(message)
        size = len(record) + len(text)
        body += size.to_bytes(4, "big") + record[4:-2] + len(text).to_bytes(2, "big") + text
    runs = [PulledRun(ORIGIN, body, 0, 100)]
    batch = decode_at_once(runs, ("properties", "tags", "keys", "queueOffset")).batch
    assert rows_of(batch) == expected_rows(runs, batch.schema.names)
    batch.validate(full=True)
    return [row["properties"] for row in rows_of(batch)]


def test_the_last_mark_of_properties_may_be_missing() -> None:
    assert properties_of(b"TAGS\x01a\x02b\x01c", b"KEYS\x01k", b"", b"x\x01y\x02") == [
        {"TAGS": "a", "b": "c"},
        {"KEYS": "k"},
        {},
        {"x": "y"},
    ]


def test_properties_without_a_name_or_a_value_do_not_count() -> None:
    assert properties_of(b"a\x01\x02\x01b\x02nothing\x02TAGS\x01t\x02", b"\x02\x02", b"nothing") == [
        {"TAGS": "t"},
        {},
        {},
    ]


def test_a_value_may_hold_the_mark_of_names_and_the_last_of_two_equal_names_counts() -> None:
    texts = b"a\x01b\x01c\x02", b"TAGS\x011\x02x\x012\x02TAGS\x013\x02", b"TAGS\x014\x02"
    assert properties_of(*texts) == [{"a": "b\x01c"}, {"TAGS": "3", "x": "2"}, {"TAGS": "4"}]


def test_properties_that_are_no_utf_8_are_shown_with_signs_in_place_of_the_wrong_bytes() -> None:
    assert properties_of(b"TAGS\x01a\x02", b"TAGS\x01\xff\x02", b"k\x01\xc3\xa9\x02") == [
        {"TAGS": "a"},
        {"TAGS": "�"},
        {"k": "é"},
    ]


def test_long_names_that_differ_in_their_middle_are_different_names() -> None:
    names = [f"begin-of-name-{number}-end-of-name" for number in range(3)]
    text = "".join(f"{name}\x01{name}\x02" for name in names).encode()
    assert properties_of(text, b"") == [{name: name for name in names}, {}]


# --- what is broken


def broken(body: bytes, *, columns: tuple[str, ...] = COLUMNS) -> str:
    with pytest.raises(RemoteProtocolError) as found:
        decode_at_once([run([stored(1)]), PulledRun(ORIGIN, body, 2, 9)], columns)
    return str(found.value)


def changed(at: int, value: bytes, offset: int = 2) -> bytes:
    record = encode_record(stored(offset))
    return record[:at] + value + record[at + len(value) :]


def test_errors_name_topic_broker_queue_and_offset() -> None:
    problem = broken(changed(88, b"j"))
    assert "queue 1 of topic 'orders' on broker 'broker-a', pulled at offset 2" in problem
    assert "message 2" in problem
    assert "CRC" in problem


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (encode_record(stored(2))[:-1], "ends 1 bytes after"),
        (encode_record(stored(2)) + b"\0\0\0", "3 bytes at the end are too few"),
        (changed(0, bytes(4)), "says that it has 0 bytes"),
        (changed(0, b"\xff\xff\xff\xff"), "says that it has -1 bytes"),
        (changed(4, b"\0\0\0\0"), "magic"),
        (changed(84, b"\x7f\0\0\0"), "does not fit"),
        (changed(84, b"\xff\0\0\0"), "does not fit"),
        (changed(93, b"\x7f"), "does not fit"),
        (changed(93, b"\xff"), "does not fit"),
        (changed(94, b"O"), "another topic or queue"),
        (changed(15, b"\x02"), "another topic or queue"),
        (changed(36, b"\0\0\7\1"), "compression"),
        (changed(36, b"\0\0\0\1"), "expanded"),
        (changed(36, b"\0\0\0\xc0"), "batch"),
        (encode_record(stored(3)) + encode_record(stored(2)), "message 3 is followed by message 2"),
        (encode_record(stored(2)) + encode_record(stored(2)), "message 2 is followed by message 2"),
    ],
)
def test_broken_records_are_an_error_and_no_row(body: bytes, words: str) -> None:
    assert words in broken(body)


def test_a_record_of_version_2_of_another_topic_is_an_error() -> None:
    message = stored(2, topic="bills")
    message.version = 2
    assert "another topic" in broken(encode_record(message))


def test_which_of_several_compressed_bodies_is_broken_is_told() -> None:
    good = [compressed(stored(offset, b"x" * 100), CompressionType.ZSTD) for offset in (2, 3, 4)]
    records = [encode_record(message) for message in good]
    records[1] = records[1][:90] + b"\0" + records[1][91:]
    assert "message 3" in broken(b"".join(records))


def test_broken_messages_are_left_out_and_told_if_somebody_listens() -> None:
    flagged = stored(5, b"not compressed")
    flagged.sys_flag = CompressionType.ZLIB.sys_flag
    good = [stored(2), compressed(stored(4, b"x" * 100), CompressionType.ZSTD), stored(6)]
    records = [encode_record(good[0]), changed(88, b"j", 3), *map(encode_record, (good[1], flagged, good[2]))]
    runs = [run([stored(1)]), PulledRun(ORIGIN, b"".join(records), 2, 9)]
    left_out: list[tuple[int, str]] = []
    parts = list(decode(runs, COLUMNS, on_broken=lambda number, problem: left_out.append((number, problem))))
    assert [row["queueOffset"] for part in parts for row in rows_of(part.batch)] == [1, 2, 4, 6]
    assert [number for number, _ in left_out] == [1, 1]
    assert [problem.partition(":")[0] for _, problem in left_out] == [
        "message 3 cannot be read",
        "message 5 cannot be read",
    ]


def test_messages_that_are_not_wanted_may_be_broken() -> None:
    version_2 = stored(7, b"x")
    version_2.version = 2
    records = [changed(88, b"j", 1), *(encode_record(stored(offset)) for offset in (2, 3)), changed(88, b"j", 4)]
    records += [changed(4, b"\0\0\0\0", 5), changed(36, b"\0\0\0\1", 6), encode_record(version_2)[:-1] + b"\x09"]
    runs = [PulledRun(ORIGIN, b"".join(records), 2, 4), PulledRun(ORIGIN, records[0], 3, 9, offset_delta=1)]
    decoded = decode_at_once(runs, COLUMNS)
    assert decoded.batch["queueOffset"].to_pylist() == [2, 3]
    assert decoded.counts == [2, 0]


def test_only_broken_messages_that_are_wanted_are_told() -> None:
    records = [changed(88, b"j", 1), encode_record(stored(2)), changed(88, b"j", 3), changed(88, b"j", 4)]
    left_out: list[str] = []
    runs = [PulledRun(ORIGIN, b"".join(records), 2, 4)]
    (decoded,) = decode(runs, COLUMNS, on_broken=lambda _, problem: left_out.append(problem.partition(":")[0]))
    assert left_out == ["message 3 cannot be read"]
    assert decoded.counts == [1]


@pytest.mark.parametrize("offsets", [(9, 2), (3, 1), (1, 1)])
def test_offsets_go_up_also_where_messages_are_not_wanted(offsets: tuple[int, int]) -> None:
    with pytest.raises(RemoteProtocolError, match=f"message {offsets[0]} is followed by message {offsets[1]}"):
        decode_at_once([run([stored(offset) for offset in offsets], low=2, high=4)], COLUMNS)


# --- parts


def test_bodies_that_expand_to_much_come_in_several_parts_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "PART_BYTES", 1000)
    messages = [
        stored(offset) if offset % 2 else compressed(stored(offset, b"long " * 120), CompressionType.ZLIB)
        for offset in range(12)
    ]
    runs = [run(messages[:7]), run(messages[7:])]
    parts = list(decode(runs, COLUMNS))
    assert [part.batch.num_rows for part in parts] == [4, 4, 4]
    assert [row for part in parts for row in rows_of(part.batch)] == expected_rows(runs)
    assert [sum(counts) for counts in zip(*(part.counts for part in parts), strict=True)] == [7, 5]
    (only,) = decode(runs, ("queueOffset",))  # nobody asks for bodies
    assert only.batch.num_rows == 12


def test_what_is_left_out_of_a_later_part_doubles_nothing_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "PART_BYTES", 1)
    packed = [compressed(stored(offset, b"x" * 100), CompressionType.ZLIB) for offset in range(4)]
    records = [encode_record(message) for message in packed]
    records[2] = records[2][:90] + b"\0" + records[2][91:]
    left_out: list[str] = []
    parts = decode(
        [PulledRun(ORIGIN, b"".join(records), 0, 4)], COLUMNS, (), lambda _, problem: left_out.append(problem)
    )
    assert [row["queueOffset"] for part in parts for row in rows_of(part.batch)] == [0, 1, 3]
    assert len(left_out) == 1
