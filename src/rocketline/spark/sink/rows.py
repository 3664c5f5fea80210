"""Rows become what is sent: the bodies of batches, laid out by columns without an object for each message.

In a batch's body one entry follows the other (`rocketline.wire.batch`). So all entries of an Arrow batch are laid out
next to each other by a few kernels, and the body of each request is a slice of that.

Rows are sorted, without changing the order of those that go to the same place, by topic and, for rows with a sharding
key, by queue. Whatever no broker takes in a batch (a time of delivery, a delay) goes alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketline.client.validation import check_topic_to_send
from rocketline.errors import InvalidMessageError, InvalidNameError
from rocketline.model.java_hash import java_string_hash
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.spark.sink import schema as sink_schema
from rocketline.spark.sink.properties import PropertyColumns, texts
from rocketline.wire.properties import PROPERTIES_BYTES_MAX, decode_properties
from rocketline.wire.unique_id import BLOCK_IDS, UniqueIdGenerator

_HEAD_BYTES: Final = 20
_LENGTH_BYTES: Final = 2
_BYTES_AT_ONCE: Final = 32 * 2**20
"""Arrow's own offsets end at 2 GiB, and memory long before: a larger Arrow batch is laid out in pieces."""

Queues = Callable[[str], Sequence[MessageQueue]]
"""The queues that messages of a topic can be sent to. Raises `RouteError`."""
Place = tuple[str, MessageQueue | None]
"""A topic, and the queue if it must be that one."""
Numbers = np.ndarray[Any, Any]


@dataclass(slots=True)
class Parcel:
    """What one request carries: a batch, or a message that goes alone."""

    topic: str
    rows: int
    first_row: int
    """The number, in its partition, of the row that comes first."""
    body: bytes
    """The batch; not of a message that goes alone."""
    queue: MessageQueue | None = None
    """Where it must go, because of its sharding key; None: wherever there is room."""
    message: Message | None = None
    """The one that goes alone."""
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    """The broker and what went wrong there, of each attempt so far."""

    @property
    def size(self) -> int:
        return len(self.body) if self.message is None else len(self.message.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """What all rows of a task have in common."""

    topic: str | None
    """Where all rows go; None: a column says it, row by row."""
    partition: int
    identity: str | None
    """What every SPARK_ID begins with; None: there is no such property."""
    namespace: str = ""
    message_bytes_max: int
    batch_count_max: int


class RowEncoder:
    """Lays out the rows of one task, Arrow batch by Arrow batch."""

    def __init__(self, rules: RowRules, ids: UniqueIdGenerator, queues: Queues) -> None:
        self._rules, self._queues = rules, queues
        self._properties = PropertyColumns(rules.identity, rules.namespace, ids)
        self._rows = 0
        self._hashes: dict[str, int] = {}
        self._checked: set[str] = set()

    def encode(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        """The parcels of a batch. Raises `InvalidMessageError`, naming the row, before any of its piece is given."""
        if batch.num_rows > BLOCK_IDS or (batch.nbytes > _BYTES_AT_ONCE and batch.num_rows > 1):
            half = batch.num_rows // 2
            yield from self.encode(batch.slice(0, half))
            yield from self.encode(batch.slice(half))
        elif batch.num_rows:
            yield from self._encode(batch)

    def _encode(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        numbers = np.arange(self._rows, self._rows + batch.num_rows)
        self._rows += batch.num_rows
        places = self._places(batch, numbers)
        if places.order is not None:
            batch, numbers = batch.take(pa.array(places.order)), numbers[places.order]
        body = _binary(batch.column(sink_schema.BODY))
        self._check_bodies(body, places, numbers)
        properties, is_alone = self._properties.encode(batch, numbers, self._refuse_row(places, numbers))
        laid_out = _lay_out(body, properties, is_alone, self._rules.message_bytes_max)
        if (longest := int(laid_out.properties_bytes.max())) > PROPERTIES_BYTES_MAX:
            self._refuse_row(places, numbers)(
                int(laid_out.properties_bytes.argmax()),
                f"its properties have {longest} bytes; {PROPERTIES_BYTES_MAX} are allowed",
            )
        yield from _in_turns([self._cut(place, start, stop, numbers, laid_out) for place, start, stop in places])

    # --- where rows go

    def _places(self, batch: pa.RecordBatch, numbers: Numbers) -> _Places:
        topics, topic_of = self._topics(batch, numbers)
        keys = _column(batch, sink_schema.SHARDING_KEY)
        keys = None if keys is None else texts(keys)
        if keys is None or keys.null_count == len(keys):
            if len(topics) == 1:
                return _Places(None, [_anywhere(topics[0])], np.array([0, batch.num_rows]))
            place_of, names = topic_of, [_anywhere(topic) for topic in topics]
        else:
            place_of, names = self._keyed_places(topics, topic_of, keys)
        order = np.argsort(place_of, kind="stable")
        ends = np.searchsorted(place_of[order], np.arange(len(names) + 1))
        return _Places(order, names, ends)

    def _topics(self, batch: pa.RecordBatch, numbers: Numbers) -> tuple[list[str], Numbers]:
        """The topics there are, as the application names them, and which one each row has."""
        if self._rules.topic is not None:
            return [self._rules.topic], np.zeros(batch.num_rows, np.int64)
        encoded = pc.dictionary_encode(_text(batch.column(sink_schema.TOPIC)))
        if encoded.null_count:
            row = int(np.argmax(encoded.is_null().to_numpy(zero_copy_only=False)))
            raise InvalidMessageError("", f"{self._row_name(int(numbers[row]))}: its topic is null")
        topics, topic_of = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
        for index, topic in enumerate(topics):
            if topic not in self._checked:
                self._check_topic(topic, int(numbers[int(np.argmax(topic_of == index))]))
        return topics, topic_of

    def _check_topic(self, topic: str, number: int) -> None:
        try:
            check_topic_to_send(topic)
        except InvalidNameError as error:
            raise InvalidMessageError(topic, f"{self._row_name(number)}: {error}") from None
        self._checked.add(topic)

    def _keyed_places(self, topics: Sequence[str], topic_of: Numbers, keys: pa.Array) -> tuple[Numbers, list[Place]]:
        """A place for each queue of each topic, and one of each topic for the rows without a key."""
        encoded = pc.dictionary_encode(keys)
        hashes = np.array([self._hash(key) for key in encoded.dictionary.to_pylist()], np.int64)
        hash_of = hashes[encoded.indices.fill_null(0).to_numpy()]
        is_keyed = encoded.is_valid().to_numpy(zero_copy_only=False)
        place_of, names = np.empty(len(keys), np.int64), list[Place]()
        for index, topic in enumerate(topics):
            queues, of_topic = self._queues(topic), topic_of == index
            place_of[of_topic] = len(names) + np.where(is_keyed, 1 + hash_of % len(queues), 0)[of_topic]
            names += [_anywhere(topic), *((topic, queue) for queue in queues)]
        return place_of, names

    def _hash(self, key: str) -> int:
        """The absolute value of Java's hash: rows of a key find the queue that `by_hash`, here and in Java, gives."""
        hashed = self._hashes.get(key)
        if hashed is None:
            if len(self._hashes) >= BLOCK_IDS:
                self._hashes.clear()
            hashed = self._hashes[key] = abs(java_string_hash(key))
        return hashed

    # --- what goes together

    def _cut(self, place: Place, start: int, stop: int, numbers: Numbers, laid_out: _LaidOut) -> Iterator[Parcel]:
        """The parcels for one place."""
        topic, queue = place
        count_max, bytes_max = self._rules.batch_count_max, self._rules.message_bytes_max
        offsets, alone_rows = laid_out.offsets, laid_out.alone_rows
        data = memoryview(laid_out.data)
        while start < stop:
            first = int(numbers[start])
            next_alone = int(np.searchsorted(alone_rows, start))
            limit = int(alone_rows[next_alone]) if next_alone < len(alone_rows) else stop
            if limit == start:
                yield Parcel(topic, 1, first, b"", queue, laid_out.message(topic, start))
                start += 1
                continue
            fitting = int(np.searchsorted(offsets, offsets[start] + bytes_max, "right")) - 1
            end = min(start + count_max, limit, stop, fitting)
            yield Parcel(topic, end - start, first, bytes(data[offsets[start] : offsets[end]]), queue)
            start = end

    # --- rows that cannot be sent

    def _check_bodies(self, body: pa.Array, places: _Places, numbers: Numbers) -> None:
        refuse, bytes_max = self._refuse_row(places, numbers), self._rules.message_bytes_max
        if body.null_count:
            refuse(int(np.argmax(body.is_null().to_numpy(zero_copy_only=False))), "its body is null")
        lengths = np.diff(_offsets(body))
        if not lengths.min():
            refuse(int(lengths.argmin()), "its body is empty; no broker takes that")
        if (longest := int(lengths.max())) > bytes_max:
            refuse(int(lengths.argmax()), f"its body has {longest} bytes; the option maxMessageSize allows {bytes_max}")

    def _refuse_row(self, places: _Places, numbers: Numbers) -> Callable[[int, str], None]:
        def refuse(row: int, problem: str) -> None:
            topic = next(name[0] for name, start, stop in places if start <= row < stop)
            raise InvalidMessageError(topic, f"{self._row_name(int(numbers[row]))}: {problem}")

        return refuse

    def _row_name(self, number: int) -> str:
        return f"row {number} of partition {self._rules.partition}"


def _anywhere(topic: str) -> Place:
    return topic, None


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the rows of an Arrow batch go: those of the first place first, once they are in `order`."""

    order: Numbers | None
    """None: as they are."""
    names: Sequence[Place]
    ends: Numbers
    """Where each place begins, and where the last one ends."""

    def __iter__(self) -> Iterator[tuple[Place, int, int]]:
        for index, name in enumerate(self.names):
            yield name, int(self.ends[index]), int(self.ends[index + 1])


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """All entries one after the other, and where each begins; the last offset is where they end."""

    data: pa.Buffer
    offsets: Numbers
    properties_bytes: Numbers
    alone_rows: Numbers
    """Rows whose messages no batch can have."""

    def message(self, topic: str, row: int) -> Message:
        """The message of an entry, to be sent alone."""
        entry = memoryview(self.data)[self.offsets[row] : self.offsets[row + 1]]
        end = len(entry) - int(self.properties_bytes[row])
        return Message.of(topic, bytes(entry[_HEAD_BYTES : end - _LENGTH_BYTES]), decode_properties(entry[end:]), 0)


def _in_turns(parcels: Sequence[Iterator[Parcel]]) -> Iterator[Parcel]:
    """One of each place after the other: a queue takes one at a time if its rows have keys; others need not wait."""
    waiting = deque(parcels)
    while waiting:
        turn = waiting.popleft()
        if (parcel := next(turn, None)) is not None:
            yield parcel
            waiting.append(turn)


def _lay_out(body: pa.Array, properties: pa.Array, is_alone: Numbers, bytes_max: int) -> _LaidOut:
    """The entries of a batch. Alone goes also what is, with its properties, longer than a batch may be."""
    rows = len(body)
    body_bytes, properties_bytes = np.diff(_offsets(body)), np.diff(_offsets(properties))
    head = np.zeros((rows, 5), ">i4")  # size, magic, CRC, flag, the body's length
    head[:, 0] = _HEAD_BYTES + _LENGTH_BYTES + body_bytes + properties_bytes
    head[:, 4] = body_bytes
    length = properties_bytes.astype(">u2")
    entries = pc.binary_join_element_wise(_fixed(head), body, _fixed(length), properties, b"")
    offsets = _offsets(entries)
    alone_rows = np.flatnonzero(is_alone | (np.diff(offsets) > bytes_max))
    return _LaidOut(entries.buffers()[2], offsets, properties_bytes, alone_rows)


def _fixed(numbers: Numbers) -> pa.Array:
    """The bytes of each number, or row of numbers, as a value of a binary column."""
    rows, width = len(numbers), numbers.nbytes // len(numbers)
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(numbers)])


def _offsets(column: pa.Array) -> Numbers:
    """Where the values of a binary column begin in its data, and where the last one ends."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return offsets.astype(np.int64)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None


def _binary(column: pa.Array) -> pa.Array:
    """A column of bytes or text, as bytes; Spark may have chosen the types with long offsets."""
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _text(column: pa.Array) -> pa.Array:
    return column if column.type == pa.string() else column.cast(pa.string())
