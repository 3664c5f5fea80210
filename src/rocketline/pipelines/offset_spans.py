"""Runs of offsets of one queue, `[start, end)`: the arithmetic of what was read and of what is there. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class OffsetSpan(NamedTuple):
    """From `start` to before `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        """As people count: both ends belong to it.

        >>> str(OffsetSpan(3, 4)), str(OffsetSpan(3, 8))
        ('3', '3–7')
        """
        return str(self.start) if self.length == 1 else f"{self.start}–{self.end - 1}"


def merged(spans: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    """The same offsets in as few spans as possible, in order. Empty ones are left out.

    >>> merged([OffsetSpan(5, 9), OffsetSpan(0, 3), OffsetSpan(3, 6)])
    [OffsetSpan(start=0, end=9)]
    """
    found: list[OffsetSpan] = []
    for span in sorted(span for span in spans if span.length > 0):
        if found and span.start <= found[-1].end:
            found[-1] = OffsetSpan(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def without(spans: Iterable[OffsetSpan], taken: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    """The offsets of `spans` that are not in `taken`.

    >>> without([OffsetSpan(0, 10)], [OffsetSpan(2, 3), OffsetSpan(8, 20)])
    [OffsetSpan(start=0, end=2), OffsetSpan(start=3, end=8)]
    """
    left: list[OffsetSpan] = []
    holes, number = merged(taken), 0
    for span in merged(spans):
        at = span.start
        while number < len(holes) and holes[number].end <= at:
            number += 1
        while number < len(holes) and holes[number].start < span.end:
            if holes[number].start > at:
                left.append(OffsetSpan(at, holes[number].start))
            at = holes[number].end
            if at > span.end:
                break  # it goes on in the next span
            number += 1
        if at < span.end:
            left.append(OffsetSpan(at, span.end))
    return left


def common(spans: Iterable[OffsetSpan], others: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    """The offsets that are in both.

    >>> common([OffsetSpan(0, 5)], [OffsetSpan(3, 9)])
    [OffsetSpan(start=3, end=5)]
    """
    kept = merged(spans)
    return without(kept, without(kept, others))


def before(spans: Iterable[OffsetSpan], end: int) -> list[OffsetSpan]:
    """The offsets that come before `end`.

    >>> before([OffsetSpan(0, 5), OffsetSpan(7, 9)], 3)
    [OffsetSpan(start=0, end=3)]
    """
    return merged(OffsetSpan(span.start, min(span.end, end)) for span in spans)


def joined(spans: Iterable[OffsetSpan], near: int) -> list[OffsetSpan]:
    """Fewer, longer spans: what lies between two that are at most `near` apart belongs to them.

    >>> joined([OffsetSpan(0, 3), OffsetSpan(5, 6), OffsetSpan(90, 91)], 10)
    [OffsetSpan(start=0, end=6), OffsetSpan(start=90, end=91)]
    """
    wide = merged(OffsetSpan(span.start, span.end + near) for span in merged(spans))
    return [OffsetSpan(span.start, span.end - near) for span in wide]


def total(spans: Iterable[OffsetSpan]) -> int:
    """How many offsets these are."""
    return sum(span.length for span in spans)


def spans_of(offsets: Iterable[int]) -> list[OffsetSpan]:
    """Single offsets as spans.

    >>> spans_of([4, 7, 5])
    [OffsetSpan(start=4, end=6), OffsetSpan(start=7, end=8)]
    """
    return merged(OffsetSpan(offset, offset + 1) for offset in offsets)
