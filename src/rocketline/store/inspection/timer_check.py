"""The files of timers: whether checkpoint, timer log and wheel agree, and each message that waits is where a unit says.

Apache's broker leaves no note of what they hold: of its files, less is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketline.errors import CorruptStoreError
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.store.config import StoreConfig
from rocketline.store.filesystem import FileSystem
from rocketline.store.inspection.findings import REPAIR, Finding, Findings, Kind
from rocketline.store.inspection.log_walk import LogWalk
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import Record, record_at
from rocketline.store.timers.checkpoint import FILE_BYTES, UNUSABLE, TimerCheckpoint, lock_ms_of
from rocketline.store.timers.recovery import BrokenTimersError, compare, fill
from rocketline.store.timers.timer_log import TimerLog
from rocketline.store.timers.wheel import SLOTS, TimerWheel

_TOPIC: Final = WHEEL_TIMER_TOPIC.encode()
_BEYOND: Final = 2**63
_ANEW: Final = f"a start reads all timer messages anew, or: {REPAIR}"
_AGAIN: Final = "a start delivers messages of the last week again"
_UNIT: Final = f"whoever delivers it reads all timer messages anew, or: {REPAIR}"


class TimerCheck:
    """Give it all records in log order, then `finish`."""

    def __init__(
        self, fs: FileSystem, config: StoreConfig, findings: Findings, walk: LogWalk, now_ms: int, slots: int = SLOTS
    ) -> None:
        self._fs, self._config, self._findings, self._walk = fs, config, findings, walk
        root = config.store_path_root_dir
        self.check_path, self.wheel_path = root / "config" / "timercheck", root / "timerwheel"
        self.log_folder = root / "timerlog"
        self._slots, self._topic_end = slots, 0
        self.checkpoint: TimerCheckpoint | None = None
        """None if there is none that can be read."""
        try:
            self.checkpoint = TimerCheckpoint.load(fs, self.check_path, lock_ms_of(fs, root), now_ms)
        except CorruptStoreError as error:
            self._tell(self.check_path, error.problem, _AGAIN)
        if self.checkpoint is not None and (size := fs.size_of(self.check_path)) < FILE_BYTES:
            # What a broker of ours has noted behind the seven numbers would be missed by nobody else.
            self._tell(self.check_path, f"{size} bytes where a timer checkpoint has {FILE_BYTES}", _ANEW)

    @property
    def known(self) -> TimerCheckpoint | None:
        """How far the log has timer messages that were parked."""
        if self.checkpoint is None or not 0 < self._topic_end < self.checkpoint.queue_offset:
            return self.checkpoint
        return replace(self.checkpoint, queue_offset=self._topic_end)

    def add(self, records: Iterable[Record]) -> None:
        """The next ones of the log."""
        for record in records:
            if record.topic == _TOPIC:
                self._topic_end = record.queue_offset + 1

    def finish(self) -> None:
        """Compare the files, once the whole log was read."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            for path in (self.wheel_path, self.log_folder):
                if self._fs.exists(path) and not self._findings.damage[Kind.TIMER]:
                    self._tell(self.check_path, f"missing or blank, and there is {path}", _AGAIN)
            return
        if 0 < self._topic_end < checkpoint.queue_offset:
            problem = f"it knows {checkpoint.queue_offset} messages, and the timer topic ends at {self._topic_end}"
            self._tell(self.check_path, problem, _ANEW)
        elif checkpoint.log_flushed == UNUSABLE:
            problem = "a broker was reading all timer messages anew"
            self._tell(self.check_path, problem, "the next start does so", is_damage=False)
        else:
            self._compare(checkpoint)

    def _compare(self, checkpoint: TimerCheckpoint) -> None:
        timer_log = TimerLog(self._fs, self.log_folder, self._config.mapped_file_size_timer_log)
        wheel = TimerWheel(self._config.timer_precision_ms, self._slots)
        try:
            timer_log.look()
        except CorruptStoreError as error:
            self._tell(self.log_folder, str(error), _ANEW)
            return
        try:
            end, problem = compare(timer_log, wheel, self._fs, self.wheel_path, checkpoint, lambda place: _BEYOND)
            if problem is not None:
                self._tell(self.wheel_path, problem, f"a start makes it anew from the timer log, or: {REPAIR}")
            self._compare_chains(timer_log, wheel, checkpoint.read_ms, end)
            self._look_at_units(timer_log, checkpoint.read_ms, end)
        except BrokenTimersError as error:
            self._tell(self.log_folder, str(error), _ANEW)
        except CorruptStoreError as error:
            self._tell(self.wheel_path, error.problem, "give the broker's settings (timerPrecisionMs)", is_damage=False)
        finally:
            timer_log.close()

    def _compare_chains(self, timer_log: TimerLog, wheel: TimerWheel, read_ms: int, end: int) -> None:
        """Each slot leads to all of its units. Raises `BrokenTimersError`."""
        made = TimerWheel(wheel.precision_ms, self._slots)
        fill(made, timer_log, read_ms, end)
        for slot_ms, slot in wheel.items():
            if slot.first >= timer_log.start and made.get(slot_ms) != slot:
                raise BrokenTimersError(f"the slot of {slot_ms} is {slot}, by the timer log {made.get(slot_ms)}")

    def _look_at_units(self, timer_log: TimerLog, read_ms: int, end: int) -> None:
        """Each unit of a message that waits leads to it."""
        log: CommitLog | None = None
        for position, unit in timer_log.scan(timer_log.start):
            if position >= end:
                break
            if unit.slot_ms < read_ms or unit.log_offset < self._log_start or self._walk.is_damaged(unit.log_offset):
                continue
            if log is None or not log.start <= unit.log_offset < log.end:
                if log is not None:
                    log.close()
                log = self._reader_at(unit.log_offset)
            record = record_at(log, unit.log_offset) if log is not None else None
            if record is None or (record.topic, record.size) != (_TOPIC, unit.record_bytes):
                path = timer_log.segments.path(timer_log.segments.start_of(position))
                problem = f"the unit at {position} leads to {unit.log_offset}, where no timer message of its size is"
                self._tell(path, problem, _UNIT, position=position)
        if log is not None:
            log.close()

    @property
    def _log_start(self) -> int:
        return self._walk.files[0].start if self._walk.files else 0

    def _reader_at(self, log_offset: int) -> CommitLog | None:
        for file in self._walk.files:
            if file.start <= log_offset < file.start + file.size:
                return self._walk.reader(file)
        return None

    def _tell(
        self, path: Path, problem: str, remedy: str, *, position: int | None = None, is_damage: bool = True
    ) -> None:
        self._findings.add(
            Finding(kind=Kind.TIMER, path=path, position=position, problem=problem, remedy=remedy, is_damage=is_damage)
        )
