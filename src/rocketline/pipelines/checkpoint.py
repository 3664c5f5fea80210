"""Spark's checkpoint of a query, as files say it: which batches there are, which are done, and what each has read.

`offsets/7` is written before batch 7 begins and says what it will read; `commits/7` is written when it is done. Spark
keeps the last hundred of each, so `Coverage` is kept beside them: what all batches so far have read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketline.errors import PipelineError
from rocketline.files import replace_file
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.spans import Span, common, merged
from rocketline.spark.offsets import initial_offset, parse_offset, ranges_between

_NOTHING: Final = "-"
"""What the offset log says of a source that has no offset yet."""
COVERAGE_FILE: Final = "rocketline-coverage.json"
TABLES_FILE: Final = "rocketline-tables.json"

Spans = dict[MessageQueue, list[Span]]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the batches up to `batch` have read from topics."""

    batch: int = -1
    spans: Mapping[MessageQueue, list[Span]] = field(default_factory=dict)
    again: Mapping[MessageQueue, list[Span]] = field(default_factory=dict)
    """What was read more than once: the queue began anew, with other messages at the same offsets."""

    def as_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "spans": _rows(self.spans), "again": _rows(self.again)}

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> Coverage:
        return cls(given["batch"], _spans(given["spans"]), _spans(given.get("again", [])))


def _rows(spans: Mapping[MessageQueue, list[Span]]) -> list[list[Any]]:
    """Spans of queues, as JSON has them."""
    return [
        [queue.topic, queue.broker_name, queue.queue_id, [list(span) for span in found]]
        for queue, found in sorted(spans.items())
    ]


def _spans(rows: Iterable[list[Any]]) -> Spans:
    return {
        MessageQueue(topic, broker, queue_id): [Span(*pair) for pair in pairs]
        for topic, broker, queue_id, pairs in rows
    }


class Checkpoint:
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
        """Those whose offsets are known, in order."""
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
        """Of all sources, in the order in which Spark finds them in the plan."""
        file = self.folder / "offsets" / str(batch)
        lines = file.read_text("utf-8").splitlines()[2:]
        try:
            found = [None if line == _NOTHING else json.loads(line) for line in lines]
        except ValueError:
            found = []
        if not found:
            raise PipelineError(f"{file} is damaged")
        return found

    def tables(self) -> set[str]:
        """The tables that were made for this query."""
        try:
            return set(json.loads((self.folder / TABLES_FILE).read_bytes()))
        except FileNotFoundError:
            return set()

    def keep_tables(self, names: Iterable[str]) -> None:
        """Write down that these tables are there, before the query writes to them."""
        known = self.tables()
        if wanted := set(names) - known:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / TABLES_FILE, json.dumps(sorted(known | wanted)).encode())

    def watermark_ms(self) -> int | None:
        """Where the watermark was when the last batch was planned."""
        planned = self.planned_batches()
        if not planned:
            return None
        lines = (self.folder / "offsets" / str(planned[-1])).read_text("utf-8").splitlines()
        found: int | None = json.loads(lines[1]).get("batchWatermarkMs")
        return found or None

    # --- what was read from topics

    def coverage(self) -> Coverage:
        """What all batches that are done have read. Raises `PipelineError` if that cannot be known any more."""
        return self._continued(self._kept(), self.last_done())

    def coverage_with_planned(self) -> Coverage:
        """The same, with the batch that was begun and is not done."""
        return self._continued(self.coverage(), max(self.planned_batches(), default=-1))

    def keep_coverage(self) -> None:
        """Write down what has been read so far, before Spark forgets it. Call it at least every hundred batches."""
        kept, now = self._kept(), self.coverage()
        if now.batch > kept.batch:
            replace_file(self.folder / COVERAGE_FILE, json.dumps(now.as_json()).encode())

    def _kept(self) -> Coverage:
        try:
            return Coverage.of_json(json.loads((self.folder / COVERAGE_FILE).read_bytes()))
        except FileNotFoundError:
            return Coverage()

    def _continued(self, known: Coverage, until: int) -> Coverage:
        spans, again = dict(known.spans), dict(known.again)
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
            for each in ranges_between(before, after):
                queue, span = MessageQueue(each.topic, each.broker, each.queue_id), Span(each.start, each.end)
                read = spans.get(queue, [])
                if twice := common(read, [span]):
                    again[queue] = merged([*again.get(queue, []), *twice])
                spans[queue] = merged([*read, span])
            before = after
        return Coverage(max(known.batch, until), spans, again)

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
        found: dict[MessageQueue, int] = {}
        done = self.last_done()
        for offset in self._offsets(done) if done >= 0 else []:
            if offset is not None and "queues" in offset:  # else it is a table's
                for queue, at in parse_offset(offset).queues.items():
                    found[queue] = min(at, found.get(queue, at))
        return found

    def _numbers(self, folder: str) -> list[int]:
        path = self.folder / folder
        names = (file.name for file in (path.iterdir() if path.is_dir() else ()))
        return sorted(int(name) for name in names if name.isdigit())
