"""Runs of offsets of one queue, `[start, end)`: the arithmetic of what was read and of what is there. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """From `start` to before `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        """As people count: both ends belong to it.

        >>> str(Span(3, 4)), str(Span(3, 8))
        ('3', '3–7')
        """
        return str(self.start) if self.length == 1 else f"{self.start}–{self.end - 1}"


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same offsets in as few spans as possible, in order. Empty ones are left out.

    >>> merged([Span(5, 9), Span(0, 3), Span(3, 6)])
    [Span(start=0, end=9)]
    """
    found: list[Span] = []
    for span in sorted(span for span in spans if span.length > 0):
        if found and span.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def without(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """The offsets of `spans` that are not in `taken`.

    >>> without([Span(0, 10)], [Span(2, 3), Span(8, 20)])
    [Span(start=0, end=2), Span(start=3, end=8)]
    """
    left: list[Span] = []
    holes, number = merged(taken), 0
    for span in merged(spans):
        at = span.start
        while number < len(holes) and holes[number].end <= at:
            number += 1
        while number < len(holes) and holes[number].start < span.end:
            if holes[number].start > at:
                left.append(Span(at, holes[number].start))
            at = holes[number].end
            if at > span.end:
                break  # it goes on in the next span
            number += 1
        if at < span.end:
            left.append(Span(at, span.end))
    return left


def common(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """The offsets that are in both.

    >>> common([Span(0, 5)], [Span(3, 9)])
    [Span(start=3, end=5)]
    """
    kept = merged(spans)
    return without(kept, without(kept, others))


def before(spans: Iterable[Span], end: int) -> list[Span]:
    """The offsets that come before `end`.

    >>> before([Span(0, 5), Span(7, 9)], 3)
    [Span(start=0, end=3)]
    """
    return merged(Span(span.start, min(span.end, end)) for span in spans)


def joined(spans: Iterable[Span], near: int) -> list[Span]:
    """Fewer, longer spans: what lies between two that are at most `near` apart belongs to them.

    >>> joined([Span(0, 3), Span(5, 6), Span(90, 91)], 10)
    [Span(start=0, end=6), Span(start=90, end=91)]
    """
    wide = merged(Span(span.start, span.end + near) for span in merged(spans))
    return [Span(span.start, span.end - near) for span in wide]


def total(spans: Iterable[Span]) -> int:
    """How many offsets these are."""
    return sum(span.length for span in spans)


def spans_of(offsets: Iterable[int]) -> list[Span]:
    """Single offsets as spans.

    >>> spans_of([4, 7, 5])
    [Span(start=4, end=6), Span(start=7, end=8)]
    """
    return merged(Span(offset, offset + 1) for offset in offsets)
