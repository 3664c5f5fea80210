"""The proof that a table has every message once: what was read, by the checkpoint, beside what is there. Pure.

Offsets are compared in blocks of 32,768. Of each block the table's side is a count of rows and a bitmap of offsets, so
a billion rows are thirty thousand blocks, and all that is wrong is found exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rocketline.model.queue import MessageQueue
from rocketline.pipelines.offset_spans import OffsetSpan, before, merged, total, without

BLOCK: Final = 32_768

SpanTable = Mapping[MessageQueue, Sequence[OffsetSpan]]


@dataclass(frozen=True, slots=True)
class Block:
    """What a table has of one queue between `number * BLOCK` and the next block."""

    queue: MessageQueue
    number: int
    rows: int
    distinct: int
    bitmap: bytes | None
    """A bit for each offset, the lowest first; None if all are there."""

    @property
    def spans(self) -> list[OffsetSpan]:
        first = self.number * BLOCK
        if self.bitmap is None:
            return [OffsetSpan(first, first + BLOCK)]
        return [OffsetSpan(first + span.start, first + span.end) for span in bitmap_spans(self.bitmap)]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFindings:
    """How one queue compares."""

    queue: MessageQueue
    read: tuple[OffsetSpan, ...]
    """What was to be there."""
    rows: int
    gaps: tuple[OffsetSpan, ...] = ()
    """Read, and not there."""
    strangers: tuple[OffsetSpan, ...] = ()
    """There, and never read by this pipeline."""
    doubled_rows: int = 0
    """Rows beyond the first of their offset."""
    doubles: tuple[OffsetSpan, ...] = ()
    """Where these are, once that was looked up."""
    skipped: tuple[OffsetSpan, ...] = ()
    """Gone when they were to be read: the source was told to go on (failOnDataLoss=false)."""
    filtered: tuple[OffsetSpan, ...] = ()
    """Gaps that the broker explains: the source's filter leaves these messages out, or the topic is compacted."""
    unknown: tuple[OffsetSpan, ...] = ()
    """Gaps that the broker cannot explain: it is gone, ends before them, or would not show them."""
    gone: tuple[OffsetSpan, ...] = ()
    """Gaps that are older than all that the broker has by now. They may have expired between the plan of a batch and
    its reading; no one can tell any more."""
    begun_anew: tuple[OffsetSpan, ...] = ()
    """Read more than once, since the topic was made anew: which read a row is of cannot be told, so nothing is proved
    and rows there are not called doubled."""

    @property
    def is_sound(self) -> bool:
        """The table has what was read."""
        return not (self.gaps or self.strangers or self.doubled_rows or self.unknown or self.begun_anew)

    @property
    def is_clean(self) -> bool:
        """And nothing was gone before it could be read."""
        return self.is_sound and not (self.skipped or self.gone)


@dataclass(frozen=True, slots=True)
class OffsetFindings:
    """The verdict on one table."""

    table: str
    batches: int
    """How many batches are done that the table takes part in."""
    queues: tuple[QueueFindings, ...] = field(default=())
    since: int = 0
    """The first of these batches; not 0 if the step was added later."""
    allows_expired: bool = False
    """Messages that were gone before they could be read are put up with."""

    @property
    def is_clean(self) -> bool:
        return all(queue.is_sound if self.allows_expired else queue.is_clean for queue in self.queues)

    @property
    def expired(self) -> int:
        """How many messages were gone before they could be read, or are missing and gone by now."""
        return sum(total(queue.skipped) for queue in self.queues) + self.gone

    @property
    def gone(self) -> int:
        """How many of these are missing and gone by now: when they went is not known."""
        return sum(total(queue.gone) for queue in self.queues)

    @property
    def rows(self) -> int:
        return sum(queue.rows for queue in self.queues)

    @property
    def offsets(self) -> int:
        return sum(total(queue.read) for queue in self.queues)


def done_by_all(queries: Sequence[SpanTable], ends: Sequence[Mapping[MessageQueue, int]]) -> SpanTable:
    """What must be there if several queries write a step's tables, as its rows and those that it rejects.

    `queries` has what each has read, `ends` where each is now. It is what any of them has read, up to where the one
    behind is. Where one began later, or had to skip something, its rows are missing: so it is not what all have read.
    """
    done: dict[MessageQueue, list[OffsetSpan]] = {}
    for queue, spans in united(queries).items():
        reached = [_reached(read.get(queue, ()), at.get(queue, 0)) for read, at in zip(queries, ends, strict=True)]
        done[queue] = before(spans, min(reached))
    return done


def expired_for_all(queries: Sequence[SpanTable], expired: Sequence[SpanTable]) -> SpanTable:
    """What had expired before it was read, if several queries write a step's tables; what another one has read is to
    be there all the same."""
    lost = []
    for number, table in enumerate(expired):
        read = united(each for other, each in enumerate(queries) if other != number)
        lost.append({queue: without(spans, read.get(queue, ())) for queue, spans in table.items()})
    return united(lost)


def _reached(spans: Iterable[OffsetSpan], end: int) -> int:
    """How far a query ever was in a queue: it has read nothing of one that it came to the end of, and goes back in one
    that begins anew."""
    return max([end, *(span.end for span in spans)])


def united(tables: Iterable[SpanTable]) -> dict[MessageQueue, list[OffsetSpan]]:
    """The offsets that are in any of them."""
    found: dict[MessageQueue, list[OffsetSpan]] = {}
    for table in tables:
        for queue, spans in table.items():
            found[queue] = merged([*found.get(queue, []), *spans])
    return found


def compare(
    done: SpanTable,
    planned: SpanTable,
    blocks: Iterable[Block],
    again: SpanTable | None = None,
    expired: SpanTable | None = None,
) -> tuple[QueueFindings, ...]:
    """What differs between the spans that were read and the blocks that are there, queue by queue.

    `planned` has the spans of `done` and those of a batch that was begun and is not done: its rows may be there.
    `again` has what was read more than once, `expired` what was gone when it was to be read.
    """
    again, expired = again or {}, expired or {}
    by_queue: dict[MessageQueue, list[Block]] = {}
    for block in blocks:
        by_queue.setdefault(block.queue, []).append(block)
    queues = sorted({*done, *by_queue, *expired})
    return tuple(
        _queue(
            queue,
            merged(done.get(queue, ())),
            planned.get(queue, ()),
            by_queue.get(queue, []),
            again.get(queue, ()),
            expired.get(queue, ()),
        )
        for queue in queues
    )


def _queue(
    queue: MessageQueue,
    read: list[OffsetSpan],
    planned: Iterable[OffsetSpan],
    blocks: list[Block],
    again: Iterable[OffsetSpan],
    expired: Iterable[OffsetSpan],
) -> QueueFindings:
    there = merged(span for block in blocks for span in block.spans)
    begun_anew = tuple(merged(again))
    return QueueFindings(
        queue=queue,
        read=tuple(read),
        rows=sum(block.rows for block in blocks),
        gaps=tuple(without(read, there)),
        strangers=tuple(without(there, merged([*read, *planned]))),
        doubled_rows=0 if begun_anew else sum(block.rows - block.distinct for block in blocks),
        skipped=tuple(expired),
        begun_anew=begun_anew,
    )


def bitmap_spans(bitmap: bytes) -> list[OffsetSpan]:
    """The bits that are set, as spans; bit 0 is the lowest of the first byte.

    >>> bitmap_spans(bytes([0b10000011, 0b1]))
    [OffsetSpan(start=0, end=2), OffsetSpan(start=7, end=9)]
    """
    bits = int.from_bytes(bitmap, "little")
    found, at = [], 0
    while bits:
        gap = (bits & -bits).bit_length() - 1
        bits >>= gap
        run = (~bits & (bits + 1)).bit_length() - 1
        found.append(OffsetSpan(at + gap, at + gap + run))
        bits >>= run
        at += gap + run
    return found
