"""Messages that were to be read and are not there: an error, or a warning with `failOnDataLoss=false`.

Found by the driver before it plans, and again by each task as it reads, because messages may go in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rocketline.errors import RocketlineError
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.spark.queue_json import shown

EXPIRED: Final = "the first of them were deleted: the broker keeps messages for a while only (fileReservedTime)"
BEYOND_THE_END: Final = (
    "the queue ends before: the topic was deleted and created again, or the broker lost its last messages"
)
RECREATED: Final = "the topic was deleted and created again: other messages have these offsets now"
QUEUE_GONE: Final = "the queue is gone: the topic was deleted, or has fewer queues now, or its broker left"

_log = Log(__name__)


class DataLossError(RocketlineError):
    """Messages that were to be read are gone. With `failOnDataLoss=false` reading goes on with what is there."""

    def __init__(
        self, queue: MessageQueue, start: int, end: int | None, available: tuple[int, int] | None, cause: str
    ) -> None:
        """`start`, `end`: what was to be read, the end None if it is open; `available`: the queue's bounds now."""
        self.queue, self.start, self.end, self.available, self.cause = queue, start, end, available, cause
        wanted = f"offsets from {start}" if end is None else f"offsets {start} to {end}"
        there = "nothing is there" if available is None else f"{available[0]} to {available[1]} are there"
        super().__init__(
            f"{shown(queue)}: {wanted} were to be read, {there}: {cause}. Messages are lost to this reader; "
            "set failOnDataLoss=false to go on with what is there"
        )

    def __reduce__(self) -> tuple[type[DataLossError], tuple[object, ...]]:
        return type(self), (self.queue, self.start, self.end, self.available, self.cause)


def report_gone(queues: Iterable[MessageQueue], positions: Mapping[MessageQueue, int], *, fails: bool) -> None:
    """Report queues that are no more, each with where it was to be read on."""
    for queue in sorted(queues):
        report(DataLossError(queue, positions[queue], None, None, QUEUE_GONE), fails=fails)


def report(loss: DataLossError, *, fails: bool) -> None:
    """Raise it, or log it and let the caller go on."""
    if fails:
        raise loss
    _log.warning(
        "messages are lost to this reader",
        queue=shown(loss.queue),
        start=loss.start,
        end="open" if loss.end is None else loss.end,
        available="none" if loss.available is None else f"{loss.available[0]} to {loss.available[1]}",
        cause=loss.cause,
    )
