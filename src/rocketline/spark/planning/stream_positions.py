"""How far a stream goes with each micro-batch: `StreamPositions` answers Spark's question for the next offset.

It asks the cluster, decides what is new and what is lost, keeps to limits, and writes down all that a micro-batch must
know to be run again the same: see `offsets`. It knows nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rocketline.clock import Clock, SystemClock
from rocketline.errors import BrokerNotFoundError, ConfigError, TopicNotFoundError
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.view import ClusterView, Look, QueueExtent
from rocketline.spark.options.source_and_sink import SourceOptions
from rocketline.spark.planning import data_loss, planner
from rocketline.spark.planning.data_loss import DataLossError
from rocketline.spark.planning.offsets import VERSION, StreamOffset, parse_offset
from rocketline.spark.planning.positions import resolve
from rocketline.spark.queue_json import table_of

_log = Log(__name__)
Numbers = dict[MessageQueue, int]


@dataclass(slots=True)
class _Places:
    """Where each queue goes on, for which of them that must be written down, and where new ones were to begin."""

    at: Numbers
    base: Numbers
    wanted: Numbers
    """Where new queues were to begin that begin elsewhere, because messages are lost."""


class StreamPositions:
    """The positions of one stream, on the driver. `minOffsetPollIntervalMs` limits how often brokers are asked."""

    def __init__(self, options: SourceOptions, cluster: ClusterView, *, clock: Clock | None = None) -> None:
        self._options, self._cluster = options, cluster
        self._clock = clock or SystemClock()
        self._seen: Look | None = None
        self._seen_s = 0.0
        self._is_frozen = False
        self._target: Numbers | None = None
        """Where each queue ended at `freeze`; queues that came later are left for the next run."""
        self._last_batch_s: float | None = None
        self._gone_reported: frozenset[MessageQueue] = frozenset()
        self._committed: Numbers = {}

    # --- what Spark asks

    def latest(self, given: dict[str, Any], limit: int | None, *, waits: bool) -> dict[str, Any]:
        """The end of the micro-batch that begins at `given`; the very same object if there is none to make.

        It has at most `limit` offsets; None is no limit. With `waits`, `minOffsetsPerTrigger` counts.
        """
        start = parse_offset(given)
        bounds = self._look(start)
        if self._is_frozen and self._target is None:
            self._target = _ends(bounds)
        places = self._places(start, bounds)
        ends = {queue: self._end(queue, bounds[queue]) for queue in places.at}
        if waits and start.is_begun and not places.base and self._is_too_little(_backlogs(places.at, ends)):
            return given
        self._check_marks(start, places, ends, bounds)
        taken = _backlogs(places.at, ends)
        if limit is not None:
            taken = planner.share(taken, limit, turn=sum(places.at.values()))
        queues = {**start.queues, **{queue: place + taken[queue] for queue, place in places.at.items()}}
        if start.is_begun and queues == start.queues and not places.base:
            return given
        self._last_batch_s = self._clock.monotonic()
        times = self._times(start, queues, places, bounds)
        return StreamOffset(queues, places.base, times, places.wanted).as_json()

    def freeze(self) -> None:
        """Go no further than to where queues end now: what Spark calls available now."""
        self._is_frozen = True
        # What was known and is gone, the first question for an offset tells.
        with suppress(TopicNotFoundError, BrokerNotFoundError, ConfigError):
            self._target = _ends(self._cluster.look().bounds)

    def heads(self) -> dict[str, Any] | None:
        """Where queues ended when the cluster was asked last, as an offset; None if it never was."""
        if self._seen is None:
            return None
        return {"version": VERSION, "queues": table_of(_ends(self._seen.bounds))}

    def commit(self, end: dict[str, Any]) -> None:
        """Tell brokers how far the group is, as well as it can be done. Never raises: Spark would end the query.

        The offset also has queues that are gone, or subscribed no more: where the group is there is others' business.
        """
        read = self._seen.bounds if self._seen else {}
        try:
            positions = parse_offset(end).queues.items()
            offsets = {q: at for q, at in positions if q in read and self._committed.get(q) != at}
            self._cluster.commit(offsets)
            self._committed.update(offsets)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is worth no more than a line
            _log.warning("offsets not committed, the next ones follow", group=self._options.group, problem=error)

    # --- what is there

    def _look(self, start: StreamOffset) -> Mapping[MessageQueue, QueueExtent]:
        """The bounds of all queues to read. Raises `DataLossError` for queues that are gone."""
        seen, now_s = self._seen, self._clock.monotonic()
        if seen is None or now_s - self._seen_s >= self._options.poll_interval_s:
            known = seen.bounds if seen else {}
            seen, self._seen_s = self._cluster.look(start.queues), now_s
            if new := {queue: at for queue, at in seen.bounds.items() if queue not in known}:
                self._cluster.check_reading(new)
            self._seen = seen
        new_gone = seen.gone - self._gone_reported
        data_loss.report_gone(new_gone, start.queues, fails=self._options.fail_on_data_loss)
        self._gone_reported = seen.gone
        return seen.bounds

    def _is_open(self, queue: MessageQueue) -> bool:
        return self._target is None or queue in self._target

    def _end(self, queue: MessageQueue, bounds: QueueExtent) -> int:
        return bounds.high if self._target is None else min(bounds.high, self._target[queue])

    def _is_too_little(self, backlogs: Numbers) -> bool:
        least = self._options.offsets_per_trigger_min
        if least is None or self._target is not None or sum(backlogs.values()) >= least:
            return False
        if self._last_batch_s is None:  # a stream that was started again does not wait for its first micro-batch
            return False
        return self._clock.monotonic() - self._last_batch_s < self._options.trigger_delay_max_s

    # --- where queues go on

    def _places(self, start: StreamOffset, bounds: Mapping[MessageQueue, QueueExtent]) -> _Places:
        places = _Places({}, {}, {})
        new = {q: at for q, at in bounds.items() if q not in start.queues and self._is_open(q)}
        for queue, begin in sorted(self._begins(start, new).items()):
            places.at[queue] = places.base[queue] = self._within(queue, begin, bounds[queue], None)
            if places.at[queue] != begin:
                places.wanted[queue] = begin
        for queue, position in sorted(start.queues.items()):
            if queue in bounds and self._is_open(queue):
                places.at[queue] = self._within(queue, position, bounds[queue], start.times.get(queue))
                if places.at[queue] != position:
                    places.base[queue] = places.at[queue]
        return places

    def _begins(self, start: StreamOffset, new: Mapping[MessageQueue, QueueExtent]) -> Numbers:
        """Where new queues are to begin. One that came after the stream began is read from its beginning.

        If it is a further queue of a topic that is read already, all its messages are new to the stream, so those that
        expired are lost. A topic may be old and only be subscribed to now, and so may a queue that is assigned: there
        the beginning is what `earliest` means, the first message that is still there.
        """
        if not start.is_begun:
            return resolve(self._options.starting, new, self._cluster, option="starting")
        grown = set() if self._options.assignment else {queue.topic for queue in start.queues}
        return {queue: 0 if queue.topic in grown else at.low for queue, at in new.items()}

    def _within(self, queue: MessageQueue, position: int, bounds: QueueExtent, mark_ms: int | None) -> int:
        """The position, or where to go on if it is none of the queue's. Raises `DataLossError`."""
        if bounds.low <= position <= bounds.high:
            return position
        if position < bounds.low:
            self._report(queue, position, bounds, data_loss.EXPIRED)
            return bounds.low
        self._report(queue, position, bounds, data_loss.BEYOND_THE_END)
        return self._after(queue, bounds, mark_ms)

    def _check_marks(
        self, start: StreamOffset, places: _Places, ends: Numbers, bounds: Mapping[MessageQueue, QueueExtent]
    ) -> None:
        """Compare the message before each position that moves on with the one that was there."""
        marked = {
            queue: place - 1
            for queue, place in places.at.items()
            if queue in start.times and queue not in places.base and bounds[queue].low < place < ends[queue]
        }
        for queue, time_ms in self._cluster.store_times(marked).items() if marked else ():
            if time_ms != start.times[queue]:
                self._report(queue, places.at[queue], bounds[queue], data_loss.RECREATED)
                places.at[queue] = places.base[queue] = self._after(queue, bounds[queue], start.times[queue])

    def _after(self, queue: MessageQueue, bounds: QueueExtent, mark_ms: int | None) -> int:
        """Behind the last message that was read, by its time: offsets mean other messages than they did.

        Of a topic made anew that is its first message; if a broker lost its last messages, the first that came since.
        """
        if mark_ms is None:
            return bounds.high
        found = self._cluster.offsets_at({queue: mark_ms + 1})[queue]
        return min(max(found, bounds.low), bounds.high)

    def _report(self, queue: MessageQueue, position: int, bounds: QueueExtent, cause: str) -> None:
        loss = DataLossError(queue, position, None, (bounds.low, bounds.high), cause)
        data_loss.report(loss, fails=self._options.fail_on_data_loss)

    # --- what is written down

    def _times(
        self, start: StreamOffset, queues: Numbers, places: _Places, bounds: Mapping[MessageQueue, QueueExtent]
    ) -> Numbers:
        """When the message before each end was stored; of queues that did not move, what is known already."""
        moved = {q for q, end in queues.items() if start.queues.get(q) != end or q in places.base}
        kept = {queue: time_ms for queue, time_ms in start.times.items() if queue in queues and queue not in moved}
        asked = {queue: queues[queue] - 1 for queue in moved if queues[queue] > bounds[queue].low}
        return {**kept, **(self._cluster.store_times(asked) if asked else {})}


def _ends(bounds: Mapping[MessageQueue, QueueExtent]) -> Numbers:
    return {queue: at.high for queue, at in bounds.items()}


def _backlogs(places: Numbers, ends: Numbers) -> Numbers:
    return {queue: max(0, ends[queue] - place) for queue, place in places.items()}
