"""The offset of a stream: how far each queue has been read. Spark writes it, as JSON, into the checkpoint.

    {"version": 1,
     "queues": {"orders": {"broker-a": {"0": 1200, "1": 1187}}},
     "base":   {"orders": {"broker-a": {"1": 1100}}},
     "times":  {"orders": {"broker-a": {"0": 1763282001234}}},
     "wanted": {"orders": {"broker-a": {"1": 1000}}}}

`queues` has the end of each queue, exclusive. `base` has where a queue begins that is new in this offset, or that goes
on elsewhere than where the offset before it ended because messages were lost: so a micro-batch that is run again reads
the same. `times` has when the message just before the end was stored, as far as it is known: if another one is there
later, the topic was deleted and made anew. `wanted` is there only if a queue that is new in this offset was to begin
elsewhere than `base` says, because messages were lost already: it has where. Nothing is read by it; it tells what is
missing.

Spark calls two offsets equal if their texts are, so the order of keys never changes. It also asks for the first offset
several times, and again after a crash, so that one is a constant and knows nothing of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rocketline.errors import ConfigError
from rocketline.model.queue import MessageQueue
from rocketline.spark.planning.planner import QueueRange
from rocketline.spark.queue_json import numbers_of, shown, table_of

VERSION: Final = 1


def initial_offset() -> dict[str, Any]:
    """Before anything was read. The first offset that follows fixes where each queue begins."""
    return {"version": VERSION, "queues": {}}


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """An offset as it is worked with."""

    queues: Mapping[MessageQueue, int] = field(default_factory=dict)
    base: Mapping[MessageQueue, int] = field(default_factory=dict)
    times: Mapping[MessageQueue, int] = field(default_factory=dict)
    wanted: Mapping[MessageQueue, int] = field(default_factory=dict)
    is_begun: bool = True
    """False: it is the constant first one, and where to begin is not fixed yet."""

    def as_json(self) -> dict[str, Any]:
        """What Spark is given."""
        return {
            "version": VERSION,
            "queues": table_of(self.queues),
            "base": table_of(self.base),
            "times": table_of(self.times),
            **({"wanted": table_of(self.wanted)} if self.wanted else {}),
        }


def parse_offset(given: object) -> StreamOffset:
    """What Spark gives back. Raises `ConfigError` for what no release of ours has written.

    >>> parse_offset(initial_offset()).is_begun
    False
    """
    try:
        if not isinstance(given, dict):
            raise ValueError("an object is wanted")
        if (version := given.get("version")) != VERSION:
            raise ValueError(f"its version is {version!r}, this release knows {VERSION} only")
        return StreamOffset(
            numbers_of(given.get("queues")),
            numbers_of(given.get("base", {})),
            numbers_of(given.get("times", {})),
            numbers_of(given.get("wanted", {})),
            is_begun="base" in given,
        )
    except ValueError as error:
        raise ConfigError(
            [
                f"the offset in the checkpoint cannot be used: {error}; "
                "is the checkpoint another source's, or a newer release's?"
            ]
        ) from None


def ranges_between(start: object, end: object) -> list[QueueRange]:
    """What a micro-batch reads, given its two offsets as Spark has them, and nothing else.

    A range knows when the message before its start was stored, if it begins where the last one ended.
    """
    before, after = parse_offset(start), parse_offset(end)
    ranges: list[QueueRange] = []
    if before == after:  # its base tells of what was read already
        return ranges
    for queue, high in sorted(after.queues.items()):
        goes_on = queue not in after.base
        low = before.queues.get(queue) if goes_on else after.base[queue]
        if low is None:
            raise ConfigError([f"the offsets in the checkpoint do not say where {shown(queue)} begins"])
        if low < high:
            mark_ms = before.times.get(queue) if goes_on else None
            ranges.append(QueueRange(queue.topic, queue.broker_name, queue.queue_id, low, high, mark_ms))
    return ranges
