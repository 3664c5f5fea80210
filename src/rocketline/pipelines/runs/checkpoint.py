"""Spark's checkpoint of a query, as files say it: which batches there are, which are done, and what each has read.

`offsets/7` is written before batch 7 begins and says what it will read; `commits/7` is written when it is done. Spark
keeps the last hundred of each, so `Coverage` is kept beside them: what all batches so far have read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketline.errors import PipelineError
from rocketline.files import replace_file
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.offset_spans import OffsetSpan, common, merged, without
from rocketline.spark.planning.offsets import initial_offset, parse_offset, ranges_between

_NOTHING: Final = "-"
"""What the offset log says of a source that has no offset yet."""
COVERAGE_FILE: Final = "rocketline-coverage.json"
_LOOKS_MAX: Final = 5
"""How often files are listed again that a newer run takes away meanwhile."""
TABLES_FILE: Final = "rocketline-tables.json"

Spans = dict[MessageQueue, list[OffsetSpan]]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the batches up to `batch` have read from topics."""

    batch: int = -1
    spans: Mapping[MessageQueue, list[OffsetSpan]] = field(default_factory=dict)
    again: Mapping[MessageQueue, list[OffsetSpan]] = field(default_factory=dict)
    """What was read more than once: the queue began anew, with other messages at the same offsets."""
    expired: Mapping[MessageQueue, list[OffsetSpan]] = field(default_factory=dict)
    """What was gone when it was to be read: the stream went on behind it."""

    def as_json(self) -> dict[str, Any]:
        tables = {"spans": self.spans, "again": self.again, "expired": self.expired}
        return {"batch": self.batch, **{name: _rows(table) for name, table in tables.items()}}


def _rows(spans: Mapping[MessageQueue, list[OffsetSpan]]) -> list[list[Any]]:
    """Spans of queues, as JSON has them."""
    return [
        [queue.topic, queue.broker_name, queue.queue_id, [list(span) for span in found]]
        for queue, found in sorted(spans.items())
    ]


def _spans(rows: Iterable[list[Any]]) -> Spans:
    return {
        MessageQueue(topic, broker, queue_id): [OffsetSpan(*pair) for pair in pairs]
        for topic, broker, queue_id, pairs in rows
    }


def _json(file: Path) -> dict[str, Any] | None:
    """None if it is gone."""
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    return found


def _coverage_name(since: int) -> str:
    return f"{since}-{COVERAGE_FILE}" if since else COVERAGE_FILE


def _add(table: Spans, queue: MessageQueue, more: list[OffsetSpan]) -> None:
    if more:
        table[queue] = merged([*table.get(queue, []), *more])


def _jumps(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[MessageQueue, OffsetSpan]]:
    """What lies between the end of a batch and where the next one went on.

    A queue that is new has not ended anywhere: it jumps only if it was to begin before. One that was made anew goes
    back, which is no jump.
    """
    ended, now = parse_offset(before).queues, parse_offset(after)
    for queue, begin in now.base.items():
        if (end := ended.get(queue, now.wanted.get(queue, begin))) < begin:
            yield queue, OffsetSpan(end, begin)


class StreamCheckpoint:
    """The folder of one query. It may not be there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def query_id(self) -> str | None:
        """Spark's id of the query; None before the first start."""
        try:
            return str(json.loads((self.folder / "metadata").read_text("utf-8"))["id"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError) as error:
            raise PipelineError(f"{self.folder / 'metadata'} is damaged: {error}") from None

    def planned_batches(self) -> list[int]:
        """The batches whose offsets are known, in order."""
        return self._numbers("offsets")

    def done_batches(self) -> list[int]:
        return self._numbers("commits")

    def last_done(self) -> int:
        """The last batch that is done; -1 if none is."""
        return max(self.done_batches(), default=-1)

    def offset(self, batch: int) -> dict[str, Any] | None:
        """How far a batch reads its first source; None if that has no offset yet."""
        return self._offsets(batch)[0]

    def _offsets(self, batch: int) -> list[dict[str, Any] | None]:
        """The offsets of all sources, in the order in which Spark finds these in the plan."""
        file = self.folder / "offsets" / str(batch)
        lines = file.read_text("utf-8").splitlines()[2:]
        try:
            found = [None if line == _NOTHING else json.loads(line) for line in lines]
        except ValueError:
            found = []
        if not found:
            raise PipelineError(f"{file} is damaged")
        return found

    def tables(self) -> dict[str, int]:
        """The tables that were made for this query, each with the first batch that it gets."""
        try:
            known = json.loads((self.folder / TABLES_FILE).read_bytes())
        except FileNotFoundError:
            return {}
        # Once it was a list of names, and all tables counted as if they were there from the beginning.
        return dict.fromkeys(known, 0) if isinstance(known, list) else known

    def keep_tables(self, names: Iterable[str]) -> None:
        """Write down that these tables are there, and no others, before the query writes to them.

        A table that it writes no more misses batches from now on: if it comes back, it counts as a new one.
        """
        known, first = self.tables(), self.last_done() + 1
        kept = {name: known.get(name, first) for name in names}
        if kept != known:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / TABLES_FILE, json.dumps(kept).encode())

    def watermark_ms(self) -> int | None:
        """Where the watermark was when the last batch was planned."""
        planned = self.planned_batches()
        if not planned:
            return None
        lines = (self.folder / "offsets" / str(planned[-1])).read_text("utf-8").splitlines()
        found: int | None = json.loads(lines[1]).get("batchWatermarkMs")
        return found or None

    # --- what was read from topics

    def coverage(self, since: int = 0) -> Coverage:
        """What all batches that are done have read, or those from one on that a table gets first.

        Raises `PipelineError` if that cannot be known any more.
        """
        return self._continued(self._kept(since), self.last_done())

    def coverage_with_planned(self, since: int = 0) -> Coverage:
        """The same, with the batch that was begun and is not done."""
        return self._continued(self.coverage(since), max(self.planned_batches(), default=-1))

    def keep_coverage(self, run: int) -> None:
        """Write down what has been read so far, before Spark forgets it. Call it at least every hundred batches.

        Each run of the pipeline has a file of its own, and of all of them that with the last batch counts: a driver
        that stood still, and goes on when another has read far more, takes nothing back.
        """
        for since in {0, *self.tables().values()}:
            kept, now = self._kept(since), self.coverage(since)
            if now.batch > kept.batch:
                replace_file(self._coverage_file(since, run), json.dumps(now.as_json()).encode())
                self._remove_older(since, run, now.batch)

    def _remove_older(self, since: int, run: int, batch: int) -> None:
        """Files of earlier runs that tell less. A later run's is not ours to judge."""
        for of_run, file in self._coverage_files(since):
            if of_run < run and (told := _json(file)) is not None and told["batch"] <= batch:
                file.unlink(missing_ok=True)

    def _kept(self, since: int) -> Coverage:
        for _ in range(_LOOKS_MAX):
            files = [_json(file) for _, file in self._coverage_files(since)]
            if None not in files:
                break  # else one is gone since it was listed, and a newer one is there
        found = [each for each in files if each is not None]
        if not found:
            return Coverage(since - 1)
        kept = max(found, key=lambda each: each["batch"])
        batch, spans = kept["batch"], _spans(kept["spans"])
        expired = _spans(kept["expired"]) if "expired" in kept else self._holes(batch, spans)
        return Coverage(batch, spans, _spans(kept.get("again", [])), expired)

    def _holes(self, batch: int, spans: Spans) -> Spans:
        """What had expired by a batch, as well as it shows in what was read: it was not always written down."""
        ends = self._positions(batch) if batch in self.planned_batches() else {}
        return {
            queue: without([OffsetSpan(read[0].start, max(read[-1].end, ends.get(queue, 0)))], read)
            for queue, read in spans.items()
        }

    def _coverage_file(self, since: int, run: int) -> Path:
        return self.folder / f"{_coverage_name(since)}.{run}"

    def _coverage_files(self, since: int) -> list[tuple[int, Path]]:
        """The files that there are, with the numbers of their runs. Once there was one for all, which counts as the
        oldest."""
        name = _coverage_name(since)
        files = self.folder.glob(f"{name}*") if self.folder.is_dir() else ()
        told = ((file.name.removeprefix(name).removeprefix("."), file) for file in files)
        return [(int(run or 0), file) for run, file in told if run.isdigit() or not run]

    def _continued(self, known: Coverage, until: int) -> Coverage:
        spans, again, expired = dict(known.spans), dict(known.again), dict(known.expired)
        planned = set(self.planned_batches())
        before = self._offset_before(known.batch + 1, planned) if until > known.batch else {}
        for batch in range(known.batch + 1, until + 1):
            if batch not in planned:
                raise PipelineError(
                    f"{self.folder / 'offsets'} does not go back to batch {batch}, and {COVERAGE_FILE} ends before it: "
                    "what was read cannot be known"
                )
            after = self.offset(batch) or before
            if after == before:
                continue  # a batch without input, which only moves the watermark
            for queue, span in _jumps(before, after):
                _add(expired, queue, [span])
            for each in ranges_between(before, after):
                queue, span = MessageQueue(each.topic, each.broker, each.queue_id), OffsetSpan(each.start, each.end)
                _add(again, queue, common(spans.get(queue, []), [span]))
                _add(spans, queue, [span])
            before = after
        return Coverage(max(known.batch, until), spans, again, expired)

    def _offset_before(self, batch: int, planned: set[int]) -> dict[str, Any]:
        if batch == 0:
            return initial_offset()
        if batch - 1 not in planned:
            raise PipelineError(
                f"{self.folder / 'offsets'} has no batch {batch - 1}: what batch {batch} read is not known"
            )
        return self.offset(batch - 1) or initial_offset()

    def positions(self) -> dict[MessageQueue, int]:
        """How far each queue is read by the batches that are done, whichever of the query's sources reads it."""
        return self._positions(self.last_done())

    def planned_positions(self) -> dict[MessageQueue, int]:
        """The same, with the batch that was begun and is not done."""
        return self._positions(max(self.planned_batches(), default=-1))

    def _positions(self, batch: int) -> dict[MessageQueue, int]:
        found: dict[MessageQueue, int] = {}
        for offset in self._offsets(batch) if batch >= 0 else []:
            if offset is not None and "queues" in offset:  # else it is a table's
                for queue, at in parse_offset(offset).queues.items():
                    found[queue] = min(at, found.get(queue, at))
        return found

    def _numbers(self, folder: str) -> list[int]:
        path = self.folder / folder
        names = (file.name for file in (path.iterdir() if path.is_dir() else ()))
        return sorted(int(name) for name in names if name.isdigit())
