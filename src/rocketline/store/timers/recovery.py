"""Opening the files of timers: the timer log is cut where its checkpoint ends, and the wheel made to agree with it.

Units behind the checkpoint are parked again, from the timer topic. So nothing is lost, and nothing is there twice.
Java: TimerMessageStore.recover, which keeps such units and parks their messages a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rocketline.errors import CorruptStoreError
from rocketline.logs import Log
from rocketline.store.filesystem import FileSystem
from rocketline.store.timers.checkpoint import TimerCheckpoint
from rocketline.store.timers.timer_log import NONE, UNIT_BYTES, TimerLog, TimerUnit
from rocketline.store.timers.wheel import Slot, TimerWheel

_log = Log(__name__)

QueueOffsetOf = Callable[[int], int | None]
"""The place in the timer topic of the record at a log offset: None if it is gone or damaged, and more than any other if
the log ends before it."""


class BrokenTimersError(Exception):
    """Timer log and wheel do not fit together: they are to be derived anew."""


def recover(
    timer_log: TimerLog,
    wheel: TimerWheel,
    fs: FileSystem,
    wheel_path: Path,
    checkpoint: TimerCheckpoint,
    queue_offset_of: QueueOffsetOf,
) -> None:
    """Bring both to the state of the checkpoint.

    Raises `BrokenTimersError`, `OSError`; `CorruptStoreError` if the wheel was made with another precision.
    """
    try:
        timer_log.load()
    except CorruptStoreError as error:
        raise BrokenTimersError(str(error)) from None
    end, problem = compare(timer_log, wheel, fs, wheel_path, checkpoint, queue_offset_of)
    if problem is not None:
        _log.warning("timer wheel made anew from the timer log", path=str(wheel_path), problem=problem)
        fs.remove(wheel_path)  # slots of it that the new one lacks must not be found again
        fs.sync_folder(wheel_path.parent)
    timer_log.cut(end)


def compare(
    timer_log: TimerLog,
    wheel: TimerWheel,
    fs: FileSystem,
    wheel_path: Path,
    checkpoint: TimerCheckpoint,
    queue_offset_of: QueueOffsetOf,
) -> tuple[int, str | None]:
    """Bring the wheel in memory to the state of the checkpoint, and change no file. Where the timer log, which is
    loaded, ends then; and what is wrong with the file of the wheel, which was made of the timer log instead.

    Raises as `recover` does.
    """
    flushed, note = checkpoint.log_flushed, checkpoint.note
    if note is not None and note.slots and note.precision_ms != wheel.precision_ms:
        raise other_precision(wheel_path, note.precision_ms)
    if not timer_log.start <= flushed <= timer_log.segments.end:
        raise BrokenTimersError(f"the timer log should reach {flushed} and ends at {timer_log.segments.end}")
    if note is not None and timer_log.start > note.log_start:
        raise BrokenTimersError(f"the timer log begins at {timer_log.start}, and began at {note.log_start}")
    end = _cut_at(timer_log, checkpoint, queue_offset_of)
    try:
        _load(wheel, fs, wheel_path, checkpoint.read_ms)
        if note is None:
            _check_precision(timer_log, wheel, wheel_path, checkpoint.read_ms)
        _revise(timer_log, wheel, checkpoint, end)
        _check_whole(wheel, checkpoint, end)
    except BrokenTimersError as error:
        fill(wheel, timer_log, checkpoint.read_ms, end)
        _check_whole(wheel, checkpoint, end)
        return end, str(error)
    return end, None


def _load(wheel: TimerWheel, fs: FileSystem, path: Path, read_ms: int) -> None:
    if not fs.exists(path):
        raise BrokenTimersError("there is no timer wheel")
    try:
        wheel.load(fs, path, read_ms)
    except CorruptStoreError as error:
        raise BrokenTimersError(str(error)) from None


def _cut_at(timer_log: TimerLog, checkpoint: TimerCheckpoint, queue_offset_of: QueueOffsetOf) -> int:
    """Where the first unit begins whose message is to be parked again."""
    end = checkpoint.log_flushed
    for position, unit in timer_log.scan(end):
        place = queue_offset_of(unit.log_offset)
        if place is not None and place >= checkpoint.queue_offset:
            break
        end = position + UNIT_BYTES
    return end


def _revise(timer_log: TimerLog, wheel: TimerWheel, checkpoint: TimerCheckpoint, end: int) -> None:
    """The wheel may be newer than the cut, or older than the end of the log."""
    slots = {slot_ms: _before(timer_log, wheel, slot_ms, slot, end) for slot_ms, slot in wheel.items()}
    kept = {slot_ms: slot for slot_ms, slot in slots.items() if slot is not None}
    for position, unit in timer_log.scan(checkpoint.log_flushed):
        if position >= end:
            break
        if unit.slot_ms >= checkpoint.read_ms:
            _extend(kept, position, unit, timer_log.start)
    if kept != dict(wheel.items()):
        wheel.replace(kept)


def _before(timer_log: TimerLog, wheel: TimerWheel, slot_ms: int, slot: Slot, end: int) -> Slot | None:
    """The slot without its units from `end` on, None if it has no others. Raises `BrokenTimersError`."""
    last, count = slot.last, slot.waiting
    while True:
        unit = timer_log.at(last)
        if unit is None or unit.slot_ms != slot_ms:
            raise BrokenTimersError(f"the slot of {slot_ms} leads to {last}, where none of its units is")
        if last < end:
            return Slot(slot.first, last, count)
        last, count = unit.previous, count + (1 if unit.is_delete else -1)
        if last == NONE:
            return None


def _extend(slots: dict[int, Slot], position: int, unit: TimerUnit, start: int) -> None:
    """Add a unit to its slot, unless that has it already. Raises `BrokenTimersError`."""
    slot, count = slots.get(unit.slot_ms), -1 if unit.is_delete else 1
    if slot is None:
        if unit.previous >= start:
            raise BrokenTimersError(f"the unit at {position} follows one that is not there")
        slots[unit.slot_ms] = Slot(position, position, count)
    elif position > slot.last:
        if unit.previous != slot.last:
            raise BrokenTimersError(f"the unit at {position} follows {unit.previous}, and not {slot.last}")
        slots[unit.slot_ms] = Slot(slot.first, position, slot.waiting + count)


def fill(wheel: TimerWheel, timer_log: TimerLog, read_ms: int, end: int) -> None:
    """Make the wheel of the whole timer log. Raises `BrokenTimersError`, `OSError`."""
    slots: dict[int, Slot] = {}
    reached = timer_log.start
    for position, unit in timer_log.scan(timer_log.start):
        if position >= end:
            break
        if unit.slot_ms % wheel.precision_ms:
            raise BrokenTimersError(f"the unit at {position} is for {unit.slot_ms}, which is no slot's time")
        if unit.slot_ms >= read_ms:
            _extend(slots, position, unit, timer_log.start)
        reached = position + UNIT_BYTES
    if timer_log.place_from(reached) < end:
        raise BrokenTimersError(f"the timer log cannot be read at {reached}")
    wheel.replace(slots)


def _check_whole(wheel: TimerWheel, checkpoint: TimerCheckpoint, end: int) -> None:
    """A slot that is blank, or of a time that is over, looks as if nobody waited. Raises `BrokenTimersError`."""
    note = checkpoint.note
    if note is not None and end == checkpoint.log_flushed and (note.slots, note.waiting) != (len(wheel), wheel.count):
        there, noted = f"{wheel.count} messages wait in {len(wheel)} slots", f"{note.waiting} waited in {note.slots}"
        raise BrokenTimersError(f"{there}, and when it was saved {noted}")


def _check_precision(timer_log: TimerLog, wheel: TimerWheel, path: Path, read_ms: int) -> None:
    """A wheel that was made with other steps would be read wrongly, and messages delivered early or not at all.

    Its times are numbers of steps: those of another step seem to be long over, or far away.
    """
    for slot_ms, slot in wheel.items():
        unit = timer_log.at(slot.last)
        if unit is not None and unit.slot_ms == slot_ms:
            return
        break
    # Up to a second, a time of other steps differs by more than the wheel's length: what is there is surely over.
    over = range((read_ms - wheel.span_ms) // wheel.precision_ms, read_ms // wheel.precision_ms)
    for time, slot in wheel.entries(timer_log.fs, path):
        if wheel.precision_ms <= 1000 and time in over:
            continue
        unit = timer_log.at(slot.last)
        if unit is None or unit.slot_ms < read_ms:
            continue
        made_with_ms, rest = divmod(unit.slot_ms, time)
        if made_with_ms != wheel.precision_ms and not rest:
            raise other_precision(path, made_with_ms)


def other_precision(path: Path, precision_ms: int) -> CorruptStoreError:
    """The settings do not fit what is to be delivered."""
    problem = f"it was made with timerPrecisionMs={precision_ms}: set it so until its messages are delivered"
    return CorruptStoreError(str(path), problem)
