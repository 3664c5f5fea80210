"""What a task does with its part of a store's log: find the records that are wanted, and hand them to Spark.

The log has the messages of all topics, in the order in which they were stored. Each chunk of it is decoded at once, as
pulled messages are. What the log has and consumers never see is left out: half messages that older brokers marked by a
flag, and the topics that the product keeps for itself unless they are asked for.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketline.errors import ConfigError, RemoteProtocolError
from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.spark.decoding.byte_slices import cut, repeated
from rocketline.spark.decoding.exact_rows import messages_in
from rocketline.spark.decoding.record_columns import DecodedRecords, broken_records, decode_records
from rocketline.spark.decoding.record_spans import Flags, Ints
from rocketline.spark.malloc import keep_freed_memory
from rocketline.spark.options.store import StoreOptions
from rocketline.spark.schema import arrow_schema
from rocketline.spark.store_files.damage import damage, report
from rocketline.spark.store_files.log_files import broker_name, opened
from rocketline.spark.store_files.log_scan import LogChunk, Stop, are_whole, chunks, torn_properties
from rocketline.spark.store_files.planner import LogSlices
from rocketline.spark.store_files.topics import is_products_own
from rocketline.spark.store_files.written_log import LogSlice

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 8 * 2**20
"""Batches are not made larger than this by joining them."""
_NO_TOPIC: Final = -1


def read_slices(partition: LogSlices, options: StoreOptions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The messages of all slices, in the order of the log.

    Raises `CorruptStoreError` for what cannot be read, unless the options say to go on; `MissingExtraError` for a body
    whose compression is not installed.
    """
    keep_freed_memory()
    reader = _LogReader(options, tuple(columns))
    yield from _joined(batch for one in partition.slices for batch in reader.batches(one))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows without small batches: a filter may leave a few rows of each."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield from _as_one(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield from _as_one(waiting)


def _as_one(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
    else:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


class _LogReader:
    def __init__(self, options: StoreOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns
        self._schema = arrow_schema(columns)
        self._built = (*columns, "tags") if options.tags and "tags" not in columns else columns
        self._broker_name = broker_name(options) if "brokerName" in columns else None
        self._is_wanted = _topic_test(options)
        self._known_topics: dict[bytes, bool] = {}
        self._tags = pa.array(options.tags, pa.string())

    def batches(self, one: LogSlice) -> Iterator[pa.RecordBatch]:
        try:
            with opened(one.file.path) as handle:
                for chunk in chunks(handle, one.file.start, one.file.end, one.start, one.end):
                    if len(chunk.spans):
                        yield from self._batches(one, chunk)
                    if chunk.stop in (Stop.NOTHING, Stop.BROKEN):
                        at, left = chunk.end - one.file.start, one.end - chunk.end
                        problem = f"no record begins at byte {at}, where one should; {left} bytes are left out"
                        self._report(one, problem)
        except FileNotFoundError:
            folder = Path(one.file.path).parent
            if not folder.is_dir():
                where = f"{folder} is no folder on {socket.gethostname()}, where a task reads"
                raise ConfigError([f"{where}: path must name a folder that all executors see"]) from None
            self._report(one, "it was deleted before it could be read, by its broker most likely")

    def _report(self, one: LogSlice, problem: str) -> None:
        report(damage(one.file.path, problem), fails=self._options.fail_on_data_loss)

    def _batches(self, one: LogSlice, chunk: LogChunk) -> Iterator[pa.RecordBatch]:
        are_meant, end = np.ones(len(chunk.spans), np.bool_), 0
        try:
            for batch, end in self._decode(one, chunk, are_meant):  # noqa: B007  # where it broke off, below
                yield batch
            return
        except RemoteProtocolError as error:
            self._report(one, str(error))
        # Only what is broken is left out: records still follow each other.
        are_meant = are_whole(chunk.spans, chunk.position - one.file.start)
        are_meant[:end] = False
        for batch, _ in self._decode(one, chunk, are_meant, leaves_out_broken=True):
            yield batch

    def _decode(
        self, one: LogSlice, chunk: LogChunk, are_meant: Flags, *, leaves_out_broken: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Rows of the records that are meant, and the number of the first record after them."""

        in_file = chunk.position - one.file.start

        def name_record(number: int) -> str:
            return f"the record at byte {in_file + int(chunk.spans.starts[number])}"

        torn = [number for number in torn_properties(chunk.spans, in_file) if are_meant[number]]
        if torn:
            raise RemoteProtocolError(f"{name_record(torn[0])}: a part of its properties was never written")
        topics = _Topics(chunk, are_meant, self._is_topic_wanted, name_record)
        wanted = are_meant & topics.wanted & self._by_fields(chunk)
        if leaves_out_broken:
            for number, _ in list(broken_records(chunk.spans, wanted, self._built)):
                wanted[number] = False
        for rows in decode_records(chunk.spans, wanted, self._built, name_record):
            arrays = [
                rows.columns[name] if name in rows.columns else self._origin(name, chunk, rows, topics)
                for name in self._columns
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            if self._options.tags:
                batch = batch.filter(pc.is_in(rows.columns["tags"], self._tags))
            yield batch, rows.end

    def _is_topic_wanted(self, name: bytes) -> bool:
        known = self._known_topics.get(name)
        if known is None:
            known = self._known_topics[name] = self._is_wanted(name.decode("utf-8", "replace"))
        return known

    def _by_fields(self, chunk: LogChunk) -> Flags:
        """By what needs no look into a record: half messages are nobody's, and the time is the user's choice."""
        fixed, options = chunk.spans.fixed, self._options
        transaction = fixed["sys_flag"] & TRANSACTION_MASK
        wanted: Flags = (transaction != TRANSACTION_PREPARED) & (transaction != TRANSACTION_ROLLBACK)
        if options.start_ms is not None:
            wanted &= fixed["store_ms"] >= options.start_ms
        if options.end_ms is not None:
            wanted &= fixed["store_ms"] < options.end_ms
        return wanted

    def _origin(self, name: str, chunk: LogChunk, rows: DecodedRecords, topics: _Topics) -> pa.Array:
        """What tells where a row comes from."""
        if name == "queueOffset":
            return pa.array(rows.queue_offset)
        if name == "queueId":
            return pa.array(chunk.spans.fixed["queue_id"].astype(np.int32)[rows.record_of])
        if name == "topic":
            return topics.column(rows.record_of)
        if self._broker_name is None:
            return pa.nulls(len(rows.record_of), pa.string())
        return repeated(self._broker_name, len(rows.record_of))


class _Topics:
    """The topics of the records of a chunk."""

    def __init__(
        self, chunk: LogChunk, are_meant: Flags, is_wanted: Callable[[bytes], bool], name_record: Callable[[int], str]
    ) -> None:
        spans = chunk.spans
        sound = np.flatnonzero(spans.sound & are_meant)
        found = cut(pa.py_buffer(spans.data), spans.topic_at[sound], spans.topic_end[sound]).dictionary_encode()
        names: list[bytes] = found.dictionary.to_pylist()
        self._code_of: Ints = np.full(len(spans), _NO_TOPIC)
        self._code_of[sound] = found.indices.to_numpy()
        for number in np.flatnonzero(~spans.sound & are_meant).tolist():  # of version 2, most likely
            try:
                (first, *_) = messages_in(spans.record(number))
            except RemoteProtocolError as error:
                raise RemoteProtocolError(f"{name_record(number)}: {error}") from error
            self._code_of[number] = len(names)
            names.append(first.topic.encode())
        self._names = pa.array([name.decode("utf-8", "replace") for name in names], pa.string())
        are_wanted = np.array([is_wanted(name) for name in names] + [False])
        self.wanted: Flags = are_wanted[self._code_of]

    def column(self, record_of: Ints) -> pa.Array:
        """The topic of each row, by the number of its record."""
        return self._names.take(pa.array(self._code_of[record_of]))


def _topic_test(options: StoreOptions) -> Callable[[str], bool]:
    """Whether the options want a topic."""
    if options.topics:
        return frozenset(options.topics).__contains__
    matches = re.compile(options.pattern or ".*").fullmatch

    def test(topic: str) -> bool:
        return matches(topic) is not None and (options.with_system_topics or not is_products_own(topic))

    return test
