"""The records of many pulls made one Arrow batch, column by column, without an object for each message.

    for decoded in decode([PulledRun(origin, body, low=100, high=132), …], ("queueOffset", "body")):
        decoded.batch

About 10,000 rows at a time cost a fifth of what messages one by one do. Only the columns that are asked for are built.
What cannot be decoded like this goes through `exact_rows` and comes back to its place among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP
from rocketline.spark.decoding.byte_slices import repeated
from rocketline.spark.decoding.record_columns import DecodedRecords, broken_records, decode_records
from rocketline.spark.decoding.record_spans import Flags, Ints, RecordSpans, gathered, record_spans, record_starts
from rocketline.spark.queue_json import shown
from rocketline.spark.schema import arrow_schema


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """The queue that was pulled from."""

    queue: MessageQueue
    """As users name it."""
    topic_on_wire: str
    """As its records do."""
    is_static: bool = False
    """The queue is one of a static topic, which has another number on its broker."""


@dataclass(frozen=True, slots=True)
class PulledRun:
    """The body of one pull, of which the messages from offset `low` to before `high` are wanted."""

    origin: RunOrigin
    body: bytes | memoryview
    low: int
    high: int
    offset_delta: int = 0
    """To add to each record's queue offset."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows, and how many each run had of what is wanted of it, before tags were compared."""

    batch: pa.RecordBatch
    counts: Sequence[int]


OnBroken: TypeAlias = Callable[[int, str], None]
"""Told of a message that is left out: the number of its run, and what is wrong with it."""


def decode(
    runs: Sequence[PulledRun], columns: Sequence[str], tags: Collection[str] = (), on_broken: OnBroken | None = None
) -> Iterator[Decoded]:
    """The messages of all runs, in their order; with `tags` only those that have one of them.

    They come in one part, or in several if compressed bodies are much longer than their records. Raises
    `RemoteProtocolError` that names topic, broker, queue and offset, if bytes are not what a broker may send: no wrong
    row is ever made. With `on_broken`, messages that are broken inside, and no others, are left out instead. What is
    inside of a message that no run wants is nobody's business. Raises `MissingExtraError` for a body whose compression
    is not installed.
    """
    batch = _Batch(runs)
    batch.check_origin()
    batch.check_order()
    built = [*columns, "tags"] if tags and "tags" not in columns else columns
    wanted, end = batch.wanted(), 0
    try:
        for rows in decode_records(batch.spans, wanted, built, batch.name_record):
            yield batch.decoded(rows, columns, tags)
            end = rows.end
        return
    except RemoteProtocolError:
        if on_broken is None:
            raise
    wanted[:end] = False
    for number, problem in list(broken_records(batch.spans, wanted, built)):
        on_broken(int(batch.run_of[number]), f"message {batch.offset_of(number)} cannot be read: {problem}")
        wanted[number] = False
    for rows in decode_records(batch.spans, wanted, built, batch.name_record):
        yield batch.decoded(rows, columns, tags)


class _Batch:
    """The records of several runs in one buffer."""

    def __init__(self, runs: Sequence[PulledRun]) -> None:
        self._runs = runs
        data = b"".join([run.body for run in runs])
        starts: list[int] = []
        counts: list[int] = []
        at = 0
        for run in runs:
            before = len(starts)
            try:
                record_starts(data, at, at + len(run.body), starts)
            except RemoteProtocolError as error:
                raise RemoteProtocolError(f"{_pull(run)}: {error}") from error
            counts.append(len(starts) - before)
            at += len(run.body)
        self.run_of: Ints = np.repeat(np.arange(len(runs)), counts)
        """The number of each record's run."""
        self.spans: RecordSpans = record_spans(data, np.array(starts, np.int64))
        self._deltas, self._low, self._high = (
            np.array([getattr(run, name) for run in runs], np.int64) for name in ("offset_delta", "low", "high")
        )
        self._said: Ints = self.spans.fixed["queue_offset"].astype(np.int64) + self._deltas[self.run_of]
        """What each record says that its queue offset is."""

    def offset_of(self, number: int) -> int:
        """What a record says that its queue offset is."""
        return int(self._said[number])

    def wanted(self) -> Flags:
        """The records that have a message of what is wanted of their run, by the offsets that they say.

        An inner batch that begins before may reach into it: its messages are told apart once it is decoded.
        """
        unwraps = NEED_UNWRAP | INNER_BATCH
        may_reach = self.spans.fixed["sys_flag"] & unwraps == unwraps
        low, high = self._low[self.run_of], self._high[self.run_of]
        found: Flags = ((self._said >= low) | may_reach) & (self._said < high)
        return found

    def name_record(self, number: int) -> str:
        """Of a record: the pull that brought it, and what the record itself says."""
        run = self._runs[self.run_of[number]]
        return f"{_pull(run)}: the record that says it is message {self.offset_of(number)}"

    def decoded(self, rows: DecodedRecords, columns: Sequence[str], tags: Collection[str]) -> Decoded:
        """The rows that are wanted, with all columns."""
        self._check_topics(rows)
        run_of = self.run_of[rows.record_of]
        offsets = rows.queue_offset + self._deltas[run_of]
        self._check_order(run_of, offsets)
        kept: Flags = (offsets >= self._low[run_of]) & (offsets < self._high[run_of])
        counts = np.bincount(run_of[kept], minlength=len(self._runs)).tolist()
        own = rows.columns
        arrays = [own[name] if name in own else self._column(name, run_of, offsets) for name in columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
        if tags:
            kept &= pc.is_in(own["tags"], pa.array(sorted(tags), pa.string())).to_numpy(zero_copy_only=False)
        return Decoded(made if kept.all() else made.filter(pa.array(kept)), counts)

    # --- every record belongs to the queue that was asked for

    def check_origin(self) -> None:
        """Raise `RemoteProtocolError` for a record of another queue, or of another topic as far as it is usual."""
        spans, usual = self.spans, self.spans.usual
        strange = np.zeros(len(spans), np.bool_)
        for topic in {run.origin.topic_on_wire for run in self._runs}:
            name = topic.encode()
            mine = usual & self._of_runs([run.origin.topic_on_wire == topic for run in self._runs])
            strange |= mine & (spans.topic_end - spans.topic_at != len(name))
            places = np.flatnonzero(mine & ~strange)
            found = gathered(spans.data, spans.topic_at[places], len(name))
            strange[places[found != np.void(name)]] = True
        ids = np.array([run.origin.queue.queue_id for run in self._runs], np.int64)[self.run_of]
        is_static = self._of_runs([run.origin.is_static for run in self._runs])
        strange |= (spans.fixed["queue_id"] != ids) & ~is_static
        if strange.any():
            self._refuse(int(np.flatnonzero(strange)[0]))

    def _check_topics(self, rows: DecodedRecords) -> None:
        """The same for what was decoded one by one."""
        for number, message in rows.exact:
            if message.topic != self._runs[self.run_of[number]].origin.topic_on_wire:
                self._refuse(number)

    def _refuse(self, number: int) -> None:
        raise RemoteProtocolError(f"{self.name_record(number)}: it is one of another topic or queue")

    def _of_runs(self, flags: list[bool]) -> Flags:
        return np.array(flags, np.bool_)[self.run_of]

    def check_order(self) -> None:
        """Raise `RemoteProtocolError` unless offsets go up within a pull: those that are not wanted count, too.

        One that is wrong may be of a message that is wanted.
        """
        sound = self.spans.sound
        self._check_order(self.run_of[sound], self._said[sound])

    def _check_order(self, run_of: Ints, offsets: Ints) -> None:
        """The same for rows, of which an inner batch has several."""
        wrong = np.flatnonzero((np.diff(offsets) <= 0) & (np.diff(run_of) == 0))
        if len(wrong):
            at = int(wrong[0])
            run = self._runs[run_of[at]]
            raise RemoteProtocolError(f"{_pull(run)}: message {offsets[at]} is followed by message {offsets[at + 1]}")

    def _column(self, name: str, run_of: Ints, offsets: Ints) -> pa.Array:
        """What tells where a row comes from."""
        queues = [run.origin.queue for run in self._runs]
        if name == "queueOffset":
            return pa.array(offsets)
        if name == "queueId":
            return pa.array(np.array([queue.queue_id for queue in queues], np.int32)[run_of])
        values = [queue.topic if name == "topic" else queue.broker_name for queue in queues]
        if len(set(values)) == 1:
            return repeated(values[0], len(run_of))
        return pa.array(values, pa.string()).take(pa.array(run_of))


def _pull(run: PulledRun) -> str:
    return f"{shown(run.origin.queue)}, pulled at offset {run.low}"
