"""Reads the timer topic and lets its messages wait. Java: TimerEnqueueGetService and TimerEnqueuePutService."""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketline.broker.timers.timed_messages import is_acknowledgement, is_marker, real_topic_in, slot_ms_in
from rocketline.logs import Throttle
from rocketline.model.message import StoredMessage
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import NO_SIZE
from rocketline.store.timers.timer_store import Parked, TimerStore

_TOPIC: Final = WHEEL_TIMER_TOPIC.encode()
_RUN_MESSAGES: Final = 128
_RUN_BYTES: Final = 256 * 1024
"""So much is read in one turn of the loop: a few milliseconds."""


class TimerRun(NamedTuple):
    """Neighbours in the timer topic: either all are to wait, or all are due."""

    parked: list[Parked]
    due: list[StoredMessage]
    end: int
    """The queue offset behind them."""


class TimerParking:
    """Follows the one queue of the timer topic."""

    def __init__(self, store: MessageStore, timers: TimerStore, log: Throttle) -> None:
        self._store, self._timers, self._log = store, timers, log
        self.covered_ms = 0
        """Whatever was stored before this time waits, or was delivered: slots that are over by then are complete."""
        self.count = 0
        """Messages parked by this process."""
        self._torn_at = -1
        """The last one that could not be read."""

    @property
    def behind(self) -> int:
        """How many messages of the topic are still to be parked."""
        return max(self._store.max_offset(WHEEL_TIMER_TOPIC, 0) - self._timers.queue_offset, 0)

    @property
    def is_expecting(self) -> bool:
        """Messages are stored that cannot be read yet: they wait for their flush."""
        queue = self._store.queue(WHEEL_TIMER_TOPIC, 0)
        return queue is not None and queue.next_offset > queue.max_offset

    def next_run(self) -> TimerRun | None:
        """The next messages to park or to deliver, None if there are none for now. Raises `OSError`."""
        now_ms = self._store.store_clock.now_ms()
        queue = self._store.queue(WHEEL_TIMER_TOPIC, 0)
        if queue is None or queue.max_offset <= self._timers.queue_offset:
            if queue is None or queue.next_offset == queue.max_offset:
                self.covered_ms = now_ms
            return None
        return self._read(max(self._timers.queue_offset, queue.min_offset))

    @property
    def end(self) -> int:
        """Where the timer topic ends, with what waits for its flush."""
        queue = self._store.queue(WHEEL_TIMER_TOPIC, 0)
        return queue.next_offset if queue is not None else 0

    def park(self, run: TimerRun) -> None:
        """Let the run wait, or note that it was delivered. Raises `OSError`."""
        if run.parked:
            self._timers.park(run.parked)
            self.count += len(run.parked)
        self._timers.parked_to(run.end)

    def _read(self, offset: int) -> TimerRun:
        timers, left = self._timers, _RUN_BYTES
        parked: list[Parked] = []
        due: list[StoredMessage] = []
        for log_offset, size, _ in self._store.units(WHEEL_TIMER_TOPIC, 0, offset, _RUN_MESSAGES):
            record = self._store.scanned_at(log_offset)
            if record is not None and record.topic != _TOPIC:
                record = None  # in place of one that the log has lost, a unit leads to its beginning
            if record is not None and not (parked or due):
                self.covered_ms = record.store_ms
            slot_ms = slot_ms_in(record.properties) if record is not None else None
            if record is None or slot_ms is None:
                self._torn_at = offset
                self._log.warning("timer message left behind", "it has no time, or cannot be read", offset=offset)
            elif timers.was_delivered(offset, slot_ms):
                pass
            elif offset == self._torn_at + 1 and is_acknowledgement(record.properties):
                # Of a message that was put off. A power cut has torn the checkpoint that it was to have from then on.
                self._log.warning("acknowledgement left behind", "what was noted with it is damaged", offset=offset)
            elif timers.is_over(slot_ms):
                if parked:
                    break
                if (message := self._store.message_at(log_offset)) is not None:
                    due.append(message)
            elif due or timers.is_taken(slot_ms):
                break
            else:
                topic = real_topic_in(record.properties).decode("utf-8", "replace")
                parked.append(Parked(slot_ms, log_offset, size, topic, is_marker(record.properties)))
            offset, left = offset + 1, left - (0 if size == NO_SIZE else size)
            if left <= 0:
                break
        return TimerRun(parked, due, offset)

    def begin_anew(self) -> None:
        """All is to be read again."""
        self.covered_ms = 0
