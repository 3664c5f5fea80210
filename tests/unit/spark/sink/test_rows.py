"""Rows laid out by columns are the bytes that a producer would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.producer.queue_choice import by_hash
from rocketline.errors import InvalidMessageError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.spark.sink.rows import Parcel, RowEncoder, RowRules
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.batch import decode_batch, encode_batch
from rocketline.wire.unique_id import UniqueIdGenerator

_TYPES = {
    "body": pa.binary(),
    "topic": pa.string(),
    "tags": pa.string(),
    "keys": pa.string(),
    "shardingKey": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "deliverTimestamp": pa.timestamp("us", "UTC"),
}
_QUEUES = [MessageQueue("T", name, number) for name in ("a", "b") for number in range(3)]


def _batch(**columns: Sequence[Any]) -> pa.RecordBatch:
    arrays = {name: pa.array(values, _TYPES[name]) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def _encoder(**changes: Any) -> RowEncoder:
    rules: dict[str, Any] = {"topic": "T", "partition": 3, "identity": "run/7/3", "message_bytes_max": 4096}
    ids = UniqueIdGenerator(bytes(4), 1, 2, FakeClock())
    return RowEncoder(RowRules(**{**rules, "batch_count_max": 64, **changes}), ids, lambda topic: _QUEUES)


def _messages(parcels: Sequence[Parcel]) -> list[Message]:
    found = []
    for parcel in parcels:
        found += decode_batch(parcel.body, parcel.topic) if parcel.message is None else [parcel.message]
    return found


def _without_ids(message: Message) -> dict[str, str]:
    return {name: value for name, value in message.properties.items() if name not in ("UNIQ_KEY", "SPARK_ID")}


def test_row_has_its_columns_as_properties_an_identity_and_an_id_of_its_own() -> None:
    batch = _batch(body=[b"one", b"two"], tags=["new", None], keys=["k1 k2", ""], properties=[[("color", "red")], None])
    first, second = _messages(list(_encoder().encode(batch)))
    assert (first.topic, first.body, second.body) == ("T", b"one", b"two")
    assert _without_ids(first) == {"TAGS": "new", "KEYS": "k1 k2", "color": "red"}
    assert _without_ids(second) == {}
    assert [one.properties["SPARK_ID"] for one in (first, second)] == ["run/7/3/0", "run/7/3/1"]
    assert len({one.properties["UNIQ_KEY"] for one in (first, second)}) == 2
    assert len(first.properties["UNIQ_KEY"]) == 32


def test_row_numbers_go_on_from_batch_to_batch() -> None:
    encoder = _encoder()
    parcels = [*encoder.encode(_batch(body=[b"a"] * 3)), *encoder.encode(_batch(body=[b"b"] * 2))]
    assert [one.properties["SPARK_ID"].rpartition("/")[2] for one in _messages(parcels)] == list("01234")
    assert [parcel.first_row for parcel in parcels] == [0, 3]


def test_without_identity_there_is_no_spark_id() -> None:
    (message,) = _messages(list(_encoder(identity=None).encode(_batch(body=[b"a"]))))
    assert set(message.properties) == {"UNIQ_KEY"}


def test_namespace_is_told_with_every_message() -> None:
    messages = _messages(list(_encoder(namespace="ns").encode(_batch(body=[b"a", b"b"]))))
    assert [one.properties["INSTANCE_ID"] for one in messages] == ["ns", "ns"]


def test_parcels_are_cut_by_count_and_by_bytes() -> None:
    by_count = list(_encoder(batch_count_max=4).encode(_batch(body=[b"x"] * 10)))
    assert [parcel.rows for parcel in by_count] == [4, 4, 2]
    by_bytes = list(_encoder(message_bytes_max=1000).encode(_batch(body=[bytes([i]) * 300 for i in range(1, 7)])))
    assert [parcel.rows for parcel in by_bytes] == [2, 2, 2]
    assert all(len(parcel.body) <= 1000 for parcel in by_bytes)


def test_row_that_fits_a_message_but_no_batch_goes_alone() -> None:
    parcels = list(_encoder(message_bytes_max=1000).encode(_batch(body=[b"x", b"y" * 1000, b"z"])))
    assert [(parcel.rows, parcel.message is not None) for parcel in parcels] == [(1, False), (1, True), (1, False)]
    assert [message.body for message in _messages(parcels)] == [b"x", b"y" * 1000, b"z"]


def test_rows_of_several_topics_are_sorted_by_topic_and_keep_their_order() -> None:
    batch = _batch(body=[b"1", b"2", b"3", b"4"], topic=["A", "B", "A", "B"])
    parcels = list(_encoder(topic=None).encode(batch))
    assert [(parcel.topic, [m.body for m in _messages([parcel])]) for parcel in parcels] == [
        ("A", [b"1", b"3"]),
        ("B", [b"2", b"4"]),
    ]
    assert [one.properties["SPARK_ID"][-1] for one in _messages(parcels)] == list("0213")


def test_option_topic_wins_over_the_column() -> None:
    assert [one.topic for one in _encoder().encode(_batch(body=[b"1"], topic=["A"]))] == ["T"]


def test_rows_with_a_sharding_key_go_to_the_queue_that_javas_hash_gives_and_the_rest_anywhere() -> None:
    keys = [None, "order-1", "order-2", "", "order-1", None, "schlüssel"]
    batch = _batch(body=[bytes([i]) for i in range(1, 8)], shardingKey=keys)
    found = {}
    for parcel in _encoder().encode(batch):
        for message in _messages([parcel]):
            found[message.body[0]] = (parcel.queue, message.properties.get("__SHARDINGKEY"))
    expected = {
        row: (by_hash(key)(_QUEUES, Message("T", b"x")) if key else None, key or None)
        for row, key in enumerate(keys, start=1)
    }
    assert found == expected


def test_row_with_a_time_or_a_delay_goes_alone() -> None:
    batch = _batch(
        body=[b"now", b"then", b"later", b"now"],
        deliverTimestamp=[None, datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC), None, None],
        properties=[None, None, [("DELAY", "3")], []],
    )
    parcels = list(_encoder().encode(batch))
    assert [(parcel.rows, parcel.message is not None) for parcel in parcels] == [
        (1, False),
        (1, True),
        (1, True),
        (1, False),
    ]
    assert parcels[1].message is not None
    assert parcels[1].message.properties["TIMER_DELIVER_MS"] == "1767323045678"
    assert parcels[1].message.properties["SPARK_ID"] == "run/7/3/1"


def test_time_in_a_column_wins_over_those_that_a_message_was_read_with() -> None:
    """A broker goes by a delay level first, and takes what says that a timer let it go for a message of now: it came
    long before its time."""
    batch = _batch(
        body=[b"1", b"2", b"3"],
        deliverTimestamp=[datetime(2030, 1, 1, tzinfo=UTC)] * 2 + [None],
        properties=[
            [("DELAY", "3"), ("REAL_TOPIC", "T")],
            [("TIMER_OUT_MS", "1"), ("TIMER_DELAY_SEC", "5")],
            [("TIMER_OUT_MS", "1"), ("TIMER_DELAY_SEC", "5")],
        ],
    )
    first, second, third = _messages(list(_encoder().encode(batch)))
    assert _without_ids(first) == {"TIMER_DELIVER_MS": "1893456000000", "REAL_TOPIC": "T"}
    assert _without_ids(second) == {"TIMER_DELIVER_MS": "1893456000000"}
    assert _without_ids(third) == {"TIMER_OUT_MS": "1", "TIMER_DELAY_SEC": "5"}


def test_columns_win_over_entries_of_their_names_and_a_given_id_is_kept() -> None:
    batch = _batch(
        body=[b"1", b"2"],
        tags=["column", None],
        properties=[
            [("TAGS", "entry"), ("SPARK_ID", "old"), ("UNIQ_KEY", "mine"), ("empty", ""), ("null", None)],
            [("TAGS", "entry")],
        ],
    )
    first, second = _messages(list(_encoder().encode(batch)))
    assert first.properties == {"TAGS": "column", "UNIQ_KEY": "mine", "SPARK_ID": "run/7/3/0"}
    assert second.properties["TAGS"] == "entry"
    assert len(second.properties["UNIQ_KEY"]) == 32


def test_marks_of_brokers_are_left_out() -> None:
    entries = [("TRAN_MSG", "true"), ("INNER_NUM", "3"), ("__CRC32#", "1"), ("kept", "yes"), ("PGROUP", "g")]
    (message,) = _messages(list(_encoder().encode(_batch(body=[b"1"], properties=[entries]))))
    assert _without_ids(message) == {"kept": "yes", "PGROUP": "g"}


def test_parcels_of_several_queues_take_turns() -> None:
    keys = [str(number % 20) for number in range(300)]
    parcels = list(_encoder(batch_count_max=10).encode(_batch(body=[b"x"] * 300, shardingKey=keys)))
    places = [parcel.queue for parcel in parcels]
    first_turn = places[: len(set(places))]
    assert len(set(first_turn)) == len(first_turn) > 1


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"body": [b"a", None]}, "row 1 of partition 3: its body is null"),
        ({"body": [b"a", b""]}, "row 1 of partition 3: its body is empty"),
        (
            {"body": [b"a", b"b" * 5000]},
            "row 1 of partition 3: its body has 5000 bytes; the option maxMessageSize allows",
        ),
        ({"body": [b"a", b"b"], "tags": ["a", "b\x02"]}, "row 1 of partition 3: column tags: 'b\\\\x02' holds"),
        ({"body": [b"a", b"b"], "properties": [None, [("a\x01", "b")]]}, "row 1 of partition 3: property 'a"),
        ({"body": [b"a", b"b"], "properties": [None, [("", "b")]]}, "row 1 of partition 3: property ''"),
        ({"body": [b"a", b"b"], "properties": [None, [("a", "b" * 33_000)]]}, "row 1 .*: its properties have 33"),
    ],
)
def test_row_that_no_broker_takes_is_named(columns: Mapping[str, Sequence[Any]], problem: str) -> None:
    with pytest.raises(InvalidMessageError, match=problem):
        list(_encoder().encode(_batch(**columns)))


@pytest.mark.parametrize(("topic", "problem"), [(None, "its topic is null"), ("not a topic", "characters|letters")])
def test_topic_that_cannot_be_is_named_with_its_row(topic: str | None, problem: str) -> None:
    with pytest.raises(InvalidMessageError, match=f"row 1 of partition 3: .*(?:{problem})"):
        list(_encoder(topic=None).encode(_batch(body=[b"a", b"b"], topic=["A", topic])))


def test_row_is_named_by_its_own_number_after_rows_were_sorted() -> None:
    batch = _batch(body=[b"a", b"", b"c"], topic=["B", "A", "B"])
    with pytest.raises(InvalidMessageError, match=r"topic 'A': row 1 of partition 3"):
        list(_encoder(topic=None).encode(batch))


def test_slice_of_a_larger_batch_is_laid_out_from_where_it_begins() -> None:
    whole = _batch(
        body=[bytes([65 + i]) for i in range(6)],
        tags=[f"t{i}" for i in range(6)],
        properties=[[("n", str(i))] for i in range(6)],
    )
    messages = _messages(list(_encoder().encode(whole.slice(2, 3))))
    assert [(one.body, _without_ids(one)) for one in messages] == [
        (bytes([65 + i]), {"TAGS": f"t{i}", "n": str(i)}) for i in range(2, 5)
    ]


def test_types_with_long_offsets_are_taken_too() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array(["ä", "b"], pa.large_string()),
            "tags": pa.array(["t", None], pa.large_string()),
            "properties": pa.array([[("k", "v")], None], pa.map_(pa.large_string(), pa.large_string())),
        }
    )
    first, second = _messages(list(_encoder().encode(batch)))
    assert (first.body, _without_ids(first), second.body) == ("ä".encode(), {"TAGS": "t", "k": "v"}, b"b")


def test_batch_of_more_rows_than_ids_differ_in_is_laid_out_in_pieces_with_ids_that_differ() -> None:
    batch = pa.RecordBatch.from_pydict({"body": pa.array([b"x"] * 70_000, pa.binary())})
    messages = _messages(list(_encoder(batch_count_max=1000).encode(batch)))
    assert len({one.properties["UNIQ_KEY"] for one in messages}) == 70_000
    assert [one.properties["SPARK_ID"] for one in messages[::35_000]] == ["run/7/3/0", "run/7/3/35000"]


_texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=8)
_names = st.text("abcXYZ_é", min_size=1, max_size=4)
_rows = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=40),
        st.none() | _texts,
        st.none() | _texts,
        st.none() | st.dictionaries(_names, st.none() | _texts, max_size=4),
    ),
    min_size=1,
    max_size=40,
)


@given(_rows, st.integers(1, 10))
def test_bytes_are_those_of_an_ordinary_batch(rows: list[tuple[Any, ...]], count_max: int) -> None:
    body, tags, keys, maps = zip(*rows, strict=True)
    properties = [None if one is None else list(one.items()) for one in maps]
    batch = _batch(body=body, tags=tags, keys=keys, properties=properties)
    parcels = list(_encoder(batch_count_max=count_max).encode(batch))
    sent = _messages(parcels)
    for message, (text, tag, key, entries) in zip(sent, rows, strict=True):
        expected = {name: value for name, value in (entries or {}).items() if value}
        expected |= {name: value for name, value in (("TAGS", tag), ("KEYS", key)) if value}
        assert (message.body, _without_ids(message)) == (text, expected)
    for parcel in parcels:
        # Read and written again by the ordinary codec, it is the same.
        assert encode_batch(decode_batch(parcel.body, "T")) == parcel.body
