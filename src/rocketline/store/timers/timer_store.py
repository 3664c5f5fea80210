"""Which timer messages wait, and until when. Java: the files of TimerMessageStore.

How far parking and delivery are is kept as one value, and saved once the log is flushed as far as it was then: so after
a crash a message may be delivered twice, and none is lost. What a save finds is true at one moment, whatever happens
while it runs.

Differs: there are no files before the first timer message; what a broker missed while it was down for longer than a
week is delivered; a wheel or timer log that is damaged is derived anew, where Apache's broker does not start or loses
messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.errors import CorruptStoreError
from rocketline.logs import Log
from rocketline.model.java_hash import java_string_hash
from rocketline.store.config import StoreConfig
from rocketline.store.files.json_files import FileSave, load_json
from rocketline.store.filesystem import FileSystem
from rocketline.store.timers.checkpoint import NO_LOCK, UNUSABLE, TimerCheckpoint, TimerNote, lock_ms_of, unusable
from rocketline.store.timers.metrics import WaitingCounts
from rocketline.store.timers.recovery import BrokenTimersError, QueueOffsetOf, other_precision, recover
from rocketline.store.timers.saving import TimerSave
from rocketline.store.timers.timer_log import (
    MAGIC_DELETE,
    MAGIC_PLAIN,
    MAGIC_ROLL,
    NONE,
    UNIT,
    UNIT_BYTES,
    TimerLog,
    TimerUnit,
)
from rocketline.store.timers.wheel import SLOTS, Slot, TimerWheel
from rocketline.wire.bodies.codec import encode_in_parts
from rocketline.wire.bodies.stats import TimerMetrics

_log = Log(__name__)

_BLANK_SLOTS: Final = 60
"""Left between the two ends of the wheel. Java: TIMER_BLANK_SLOTS."""
_DELAY_MS_MIN: Final = -(2**31)
_ROLL_MS_MAX: Final = 2**31 - 1
"""There are 32 bits for it."""
_HOUR_MS: Final = 3_600_000
_topic_hash: Final = lru_cache(maxsize=4096)(java_string_hash)


TopicOf = Callable[[int], str | None]
"""Where the timer message at a log offset belongs; None if it is gone or damaged."""


class Parked(NamedTuple):
    """A message of the timer topic."""

    slot_ms: int
    log_offset: int
    record_bytes: int
    topic: str
    """Where it belongs."""
    is_delete: bool
    """It calls another one back."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """What is to be saved once the log is flushed up to `log_end`."""

    log_end: int
    checkpoint: TimerCheckpoint
    slots: dict[int, Slot]
    is_wheel_renewed: bool
    metrics: TimerMetrics


class TimerStore:
    """Slots of messages that wait. Everything is done on one thread but `TimerSave.run`."""

    def __init__(
        self,
        config: Callable[[], StoreConfig],
        fs: FileSystem,
        now_ms: Callable[[], int],
        *,
        slots: int = SLOTS,
    ) -> None:
        start = config()
        self._config, self._fs, self._now_ms = config, fs, now_ms
        self._root = root = start.store_path_root_dir
        self._wheel_path, self._checkpoint_path = root / "timerwheel", root / "config" / "timercheck"
        self._metrics_path, self._log_folder = root / "config" / "timermetrics", root / "timerlog"
        self.precision_ms = start.timer_precision_ms
        self.wheel = TimerWheel(self.precision_ms, slots)
        self.log = TimerLog(fs, self._log_folder, start.mapped_file_size_timer_log)
        self.counts = WaitingCounts(TimerMetrics(), now_ms)
        self.read_ms = 0
        """All slots before this time were delivered."""
        self.queue_offset = 0
        """The next message of the timer topic to park."""
        self._taken_ms: int | None = None  # the slot that is being delivered
        self._known = (0, 0)  # when all is derived anew: what lay before this queue offset and time was delivered
        self._saved = TimerCheckpoint()
        self._lock_ms = NO_LOCK
        self._noted: _Noted | None = None
        self._being_saved: tuple[_Noted, TimerSave] | None = None
        self._failed: TimerSave | None = None  # it may still be at work: whoever stops waits for nothing
        self._dropped: list[Path] = []
        self._is_changed = False
        self.is_unsafe = False
        """A sync failed: nothing is saved until the store is opened anew, and then all since then is done again."""

    # --- opening

    def open(self, queue_offset_of: QueueOffsetOf, topic_end: int, topic_of: TopicOf) -> None:
        """Find out what waits. `topic_end`: the next message of the timer topic gets this queue offset.

        Raises `OSError`, `CorruptStoreError` if the settings do not fit the files.
        """
        self._lock_ms = lock_ms_of(self._fs, self._root)
        try:
            saved = TimerCheckpoint.load(self._fs, self._checkpoint_path, self._lock_ms, self._now_ms())
        except CorruptStoreError as error:
            _log.warning("timer checkpoint cannot be read: messages may be delivered again", problem=str(error))
            saved = None
        if saved is None:
            self.read_ms = self.wheel.rounded(self._now_ms()) - self.wheel.slots * self.precision_ms
            if self._fs.exists(self._wheel_path) or self._fs.exists(self._log_folder):
                self.derive_anew("there is no checkpoint")
            return
        self._saved = saved
        self.read_ms = self.wheel.rounded(saved.read_ms) or self.wheel.rounded(self._now_ms())
        self.queue_offset = min(saved.queue_offset, saved.master_queue_offset)
        try:
            self._load(saved, queue_offset_of, topic_end, topic_of)
        except BrokenTimersError as error:
            self.derive_anew(str(error))

    def _load(self, saved: TimerCheckpoint, queue_offset_of: QueueOffsetOf, topic_end: int, topic_of: TopicOf) -> None:
        self._settle_precision(saved, topic_end)
        if self.queue_offset > topic_end:  # or messages that get these queue offsets now would never be parked
            told = f"{self.queue_offset} messages were parked, and the timer topic ends at {topic_end}"
            self.queue_offset = topic_end
            raise BrokenTimersError(told)
        if saved.log_flushed == UNUSABLE:
            self.queue_offset = min(saved.queue_offset, topic_end)
            raise BrokenTimersError("the last attempt was cut short")
        checkpoint = replace(saved, read_ms=saved.read_ms or self.read_ms, queue_offset=self.queue_offset)
        recover(self.log, self.wheel, self._fs, self._wheel_path, checkpoint, queue_offset_of)
        self.counts = WaitingCounts(self._saved_counts(), self._now_ms)
        if self.counts.total != self.wheel.count:
            self._count_anew(topic_of)

    def _settle_precision(self, saved: TimerCheckpoint, topic_end: int) -> None:
        """Slots are of the steps of whoever gave them: with shorter ones they seem to be over too early, also those of
        messages that are to be parked yet, or again. If there are none, other steps count from now on.

        Raises `CorruptStoreError`, `OSError`.
        """
        note = saved.note
        if note is None or note.precision_ms == self.precision_ms:
            return
        if note.slots or saved.log_flushed == UNUSABLE or self.queue_offset < topic_end:
            raise other_precision(self._wheel_path, note.precision_ms)
        settled = replace(saved, note=note._replace(precision_ms=self.precision_ms))
        settled.save(self._fs, self._checkpoint_path)

    def _saved_counts(self) -> TimerMetrics:
        try:
            return load_json(self._fs, self._metrics_path, TimerMetrics) or TimerMetrics()
        except CorruptStoreError as error:
            _log.warning("timer figures cannot be read, and are counted anew", problem=str(error))
            return TimerMetrics()

    def _count_anew(self, topic_of: TopicOf) -> None:
        """A crash came between the checkpoint and the counts, or messages went with the log.

        Raises `BrokenTimersError`, `OSError`.
        """
        counts: dict[int, int] = {}
        places: dict[int, int] = {}  # of the newest message for each
        for slot_ms, slot in self.wheel.items():
            for _, unit in self._chain(slot_ms, slot):
                topic = unit.topic_hash
                counts[topic] = counts.get(topic, 0) + (-1 if unit.is_delete else 1)
                places[topic] = max(unit.log_offset, places.get(topic, 0))
        self.counts.clear()
        for topic, count in counts.items():
            if (name := topic_of(places[topic])) is not None:
                self.counts.add(name, count)

    def derive_anew(self, problem: str) -> None:
        """Forget timer log and wheel, and have the whole timer topic parked again. Raises `OSError`.

        What was delivered is known by its place and time, and is not delivered again. The old files are moved away;
        until all is parked the checkpoint says that it is not.
        """
        _log.warning("timer messages are read anew from their topic", problem=problem, queue_offset=self.queue_offset)
        read_ms = self.read_ms if self._taken_ms is None else self._taken_ms
        if self.is_rereading:  # nothing was delivered since but what was late
            read_ms = self._known[1]
        self._known = max(self._known[0], self.queue_offset), read_ms
        known = replace(self._saved, read_ms=read_ms, queue_offset=self._known[0])
        marked = unusable(known, self._now_ms(), self._lock_ms, self.precision_ms)
        marked.save(self._fs, self._checkpoint_path)
        self.log.close()
        for path in (self._wheel_path, self._log_folder):
            if self._fs.exists(path):
                aside = path.with_name(f"{path.name}.corrupt")
                self._fs.remove_tree(aside)
                self._fs.rename(path, aside)
        self._fs.sync_folder(self._wheel_path.parent)
        self.log = TimerLog(self._fs, self._log_folder, self._config().mapped_file_size_timer_log)
        self.wheel.clear()
        self.counts.clear()
        self._saved, self._noted, self._dropped = marked, None, []
        # The wheel need not reach further back: whatever is late by more than that is delivered at once.
        self.read_ms = max(read_ms, self.wheel.rounded(self._now_ms()) - self.wheel.slots * self.precision_ms)
        self.queue_offset, self._taken_ms, self._is_changed = 0, None, True

    @property
    def is_rereading(self) -> bool:
        """Not all is parked again that was once."""
        return self.queue_offset < self._known[0]

    @property
    def is_being_saved(self) -> bool:
        """Somebody writes the files, and will say that they are whole: nothing must be derived anew meanwhile."""
        return self._being_saved is not None

    # --- parking

    def was_delivered(self, queue_offset: int, slot_ms: int) -> bool:
        """Whether a message that is read again was delivered before all was derived anew."""
        return queue_offset < self._known[0] and slot_ms < self._known[1]

    def is_over(self, slot_ms: int) -> bool:
        """The slot was delivered, or is being so: whoever belongs there is to be delivered at once.

        Not if the clock was set back since, so that its time has not come.
        """
        done_ms = self.read_ms if self._taken_ms is None else self._taken_ms + self.precision_ms
        return slot_ms < done_ms and slot_ms + self.precision_ms <= self._now_ms()

    def is_taken(self, slot_ms: int) -> bool:
        """A slot at or after this time is being delivered: nobody can be parked before that is done."""
        return self._taken_ms is not None and slot_ms <= self._taken_ms

    def waiting_at(self, slot_ms: int) -> int:
        """How many messages are to be delivered then."""
        slot = self.wheel.get(slot_ms)
        return slot.waiting if slot is not None else 0

    def park(self, messages: Sequence[Parked]) -> None:
        """Let messages wait. Raises `OSError`; then none of them does."""
        write_ms, roll_ms = self.wheel.rounded(self._now_ms()), self._roll_ms()
        slots: dict[int, Slot] = {}
        units: list[tuple[int, bytes]] = []
        for position, message in zip(self.log.places(len(messages)), messages, strict=True):
            slot_ms, magic = self._slot_of(message.slot_ms, write_ms, roll_ms)
            if message.is_delete:
                magic |= MAGIC_DELETE
            slot = slots.get(slot_ms) or self.wheel.get(slot_ms) or Slot(position, NONE, 0)
            parked_ms = write_ms if slot_ms - write_ms >= _DELAY_MS_MIN else slot_ms  # there are 32 bits for it
            fields = (UNIT_BYTES, slot.last, magic, parked_ms, slot_ms - parked_ms)
            place = (message.log_offset, message.record_bytes, _topic_hash(message.topic), 0)
            units.append((position, UNIT.pack(*fields, *place)))
            slots[slot_ms] = Slot(slot.first, position, slot.waiting + (-1 if message.is_delete else 1))
        self.log.append(units)
        if min(slots, default=self.read_ms) < self.read_ms:  # the clock was set back
            self.read_ms = min(slots)
            self.wheel.turn_back()
        self.wheel.put(slots)
        for message in messages:
            self.counts.add(message.topic, -1 if message.is_delete else 1)
        self._is_changed = True

    def _roll_ms(self) -> int:
        """So far ahead a message is parked at most: as set, and not so far that the log may be deleted before.

        Where it may be at any time, all that waits would be written anew in each step; it counts as kept for an hour.
        """
        config = self._config()
        window_ms = config.timer_roll_window(self.wheel.slots - _BLANK_SLOTS) * self.precision_ms
        roll_ms = min(window_ms, max(config.file_reserved_time, 1) * _HOUR_MS * 2 // 3, _ROLL_MS_MAX)
        return max(self.wheel.rounded(roll_ms), self.precision_ms)

    def _slot_of(self, slot_ms: int, write_ms: int, roll_ms: int) -> tuple[int, int]:
        """When a message is looked at, and whether that is to park it again."""
        beyond_ms, magic = slot_ms - write_ms - roll_ms, MAGIC_PLAIN
        if beyond_ms >= 0:
            steps, magic = roll_ms // self.precision_ms, MAGIC_PLAIN | MAGIC_ROLL
            if beyond_ms < steps // 3 * self.precision_ms:  # so that the last part is not too short
                steps //= 2
            slot_ms = write_ms + steps * self.precision_ms
        if slot_ms >= self.read_ms + self.wheel.span_ms:  # that far the wheel goes only when older ones are delivered
            return self.read_ms + self.wheel.span_ms // 2, MAGIC_PLAIN | MAGIC_ROLL
        return slot_ms, magic

    def parked_to(self, queue_offset: int) -> None:
        """All messages of the timer topic before this one are parked, or delivered."""
        if queue_offset != self.queue_offset:
            self.queue_offset, self._is_changed = queue_offset, True

    # --- delivering

    def next_ms(self) -> int | None:
        """The time of the first slot that somebody waits in."""
        return self.wheel.first_ms()

    def take(self, slot_ms: int) -> Iterator[tuple[int, TimerUnit]]:
        """The units of the first slot, the newest first; it is being delivered from now on.

        Raises `BrokenTimersError`, `OSError`.
        """
        slot = self.wheel.get(slot_ms)
        assert slot is not None
        self._taken_ms = slot_ms
        return self._chain(slot_ms, slot)

    def _chain(self, slot_ms: int, slot: Slot) -> Iterator[tuple[int, TimerUnit]]:
        position, waiting = slot.last, 0
        while position != NONE and position >= self.log.start:
            unit = self.log.at(position)
            if unit is None or unit.slot_ms != slot_ms:
                raise BrokenTimersError(f"the chain of slot {slot_ms} is broken at {position}")
            waiting += -1 if unit.is_delete else 1
            yield position, unit
            position = unit.previous
        if waiting != slot.waiting and slot.first >= self.log.start:  # else the log has lost the others, too
            raise BrokenTimersError(f"the chain of slot {slot_ms} has {waiting} messages, and {slot.waiting} wait")

    def unit_at(self, position: int) -> TimerUnit:
        """One that `take` told of."""
        unit = self.log.at(position)
        assert unit is not None
        return unit

    def delivered(self, slot_ms: int) -> None:
        """All of the first slot is done."""
        self.wheel.drop_first()
        self._taken_ms, self._is_changed = None, True
        self.read_ms = max(self.read_ms, slot_ms + self.precision_ms)

    def passed(self, time_ms: int) -> None:
        """Nobody waits before this time."""
        self.read_ms = max(self.read_ms, self.wheel.rounded(time_ms))

    # --- saving

    @property
    def checkpoint(self) -> TimerCheckpoint:
        """How far all is."""
        wheel, version = self.wheel, (self._saved.state_version, self._now_ms(), self._saved.counter + 1)
        note = TimerNote(self._lock_ms, self.log.start, self.precision_ms, len(wheel), wheel.count)
        return TimerCheckpoint(self.read_ms, self.log.end, self.queue_offset, self.queue_offset, *version, note)

    @property
    def is_unsaved(self) -> bool:
        """Something changed since the last save, or that one still has to be written."""
        return (self._is_changed or self._noted is not None) and not self.is_unsafe

    def drop_before(self, log_start: int) -> None:
        """The log begins there now. Raises `OSError`."""
        self._dropped += self.log.drop_before(log_start)

    def begin_save(self, log_end: int, flushed: int) -> TimerSave | None:
        """What is to be written; None if nothing is, or if the log is not flushed as far as that needs."""
        if self._failed is not None and self._failed.is_lost:
            self.is_unsafe = True
        if self.is_unsafe or self.is_rereading or self._being_saved is not None:
            return None
        if self._noted is None or flushed >= log_end:
            if not self._is_changed and self._noted is None and not self._dropped:
                return None
            slots, is_renewed = self.wheel.take_changed()
            if self._noted is not None and not is_renewed:
                slots, is_renewed = self._noted.slots | slots, self._noted.is_wheel_renewed
            self._noted = _Noted(log_end, self.checkpoint, slots, is_renewed, self.counts.table)
            self._is_changed = False
        if flushed < self._noted.log_end:
            return None
        noted, self._noted = self._noted, None
        note = noted.checkpoint.note
        assert note is not None
        job = TimerSave(
            self._fs,
            self.log.written_since(self._saved.log_flushed if self._saved.log_flushed != UNUSABLE else 0),
            self._wheel_path,
            self.wheel.file_bytes,
            self.wheel.pieces(noted.slots),
            noted.is_wheel_renewed,
            noted.checkpoint,
            self._checkpoint_path,
            FileSave(self._fs, self._metrics_path, map(bytes.decode, encode_in_parts(noted.metrics))),
            tuple(path for path in self._dropped if int(path.name) < note.log_start),
        )
        self._being_saved = noted, job
        return job

    def save_done(self) -> None:
        """The job ran."""
        if self._being_saved is not None:
            (noted, job), self._being_saved = self._being_saved, None
            self._saved, self._failed = noted.checkpoint, None
            self._dropped = self._dropped[len(job.dropped) :]

    def save_failed(self) -> None:
        """It did not, or perhaps not."""
        if self._being_saved is not None:
            (noted, job), self._being_saved = self._being_saved, None
            self.is_unsafe, self._failed = job.is_lost, job
            self.wheel.give_back(noted.slots, is_renewed=noted.is_wheel_renewed)
            self._is_changed = True

    def save(self, log_end: int, flushed: int) -> None:
        """Write it now, how far delivery is among it, if there ever was a timer message. Raises `OSError`."""
        self._is_changed = self._is_changed or self._saved != TimerCheckpoint()
        job = self.begin_save(log_end, flushed)
        if job is not None:
            try:
                job.run()
            except OSError:
                self.save_failed()
                raise
            self.save_done()

    def close(self) -> None:
        """Let go of the files, without saving."""
        self.log.close()
