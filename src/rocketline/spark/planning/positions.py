"""Where queues begin and end, as a user said it: words, times, a group's offsets, or an offset for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rocketline.errors import ConfigError
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.view import ClusterView, QueueExtent
from rocketline.spark.options.source_and_sink import EARLIEST, EARLIEST_OFFSET, GROUP, LATEST_OFFSET, Position
from rocketline.spark.queue_json import shown

_log = Log(__name__)

QueueBounds = Mapping[MessageQueue, QueueExtent]


def resolve(position: Position, bounds: QueueBounds, cluster: ClusterView, *, option: str) -> dict[MessageQueue, int]:
    """The offset that `position` means in each queue that has bounds; a named one may lie outside of them.

    `option` begins the names of the options that it came from: `starting` or `ending`. Raises `ConfigError` if queues
    are named one by one and not exactly these, or if a queue has no message as new as it must have.
    """
    if position.named is not None:
        by = "OffsetsByTimestamp" if position.times_ms is not None else "Offsets"
        _check_named(position.named, bounds, option + by)
    if position.time_ms is not None:
        return _at_times(position, dict.fromkeys(bounds, position.time_ms), bounds, cluster, f"{option}Timestamp")
    if position.times_ms is not None:
        return _at_times(position, position.times_ms, bounds, cluster, f"{option}OffsetsByTimestamp")
    if position.offsets is not None:
        return {queue: _offset(offset, bounds[queue]) for queue, offset in position.offsets.items()}
    if position.word == GROUP:
        committed = cluster.committed(bounds)
        if all(offset is None for offset in committed.values()):
            _log.warning("consumerGroup has read none of these queues: they begin with their first message")
        # A queue that the group has not read yet has nothing that it could leave out.
        return {queue: bounds[queue].low if offset is None else offset for queue, offset in committed.items()}
    end: Callable[[QueueExtent], int] = (lambda at: at.low) if position.word == EARLIEST else (lambda at: at.high)
    return {queue: end(at) for queue, at in bounds.items()}


def _offset(offset: int, bounds: QueueExtent) -> int:
    return {EARLIEST_OFFSET: bounds.low, LATEST_OFFSET: bounds.high}.get(offset, offset)


def _at_times(
    position: Position, times_ms: Mapping[MessageQueue, int], bounds: QueueBounds, cluster: ClusterView, option: str
) -> dict[MessageQueue, int]:
    found = cluster.offsets_at(times_ms)
    offsets = {queue: min(max(offset, bounds[queue].low), bounds[queue].high) for queue, offset in found.items()}
    if not position.is_latest_if_none:
        for queue, offset in offsets.items():
            if offset == bounds[queue].high:
                raise ConfigError(
                    [
                        f"{option}={times_ms[queue]}: {shown(queue)} has no message that new; "
                        "set startingOffsetsByTimestampStrategy=latest to begin with the next one"
                    ]
                )
    return offsets


def _check_named(named: Iterable[MessageQueue], bounds: QueueBounds, option: str) -> None:
    """A queue that was forgotten would begin anywhere; one that is not there was meant to be another."""
    problems = [f"{option}: there is no {shown(queue)}" for queue in sorted(set(named) - bounds.keys())]
    problems += [
        f"{option}: {shown(queue)} is missing: name all queues, with -2 for earliest and -1 for latest"
        if option.endswith("Offsets")
        else f"{option}: {shown(queue)} is missing: name all queues"
        for queue in sorted(bounds.keys() - set(named))
    ]
    if problems:
        raise ConfigError(problems)
