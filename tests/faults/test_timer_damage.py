"""Seeded damages to the files of timers: whatever becomes of them, no message that waits is lost or early, and none
that was called back comes.

What was delivered comes again only if the checkpoint, which alone knows, was hurt, or if a unit of the slot that is
being delivered leads astray; then what was parked twice for its distance may come twice, too. `make test` looks at
some of them; `ROCKETLINE_DAMAGES=250` (`make damage`) at all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rocketline.store.config import StoreConfig
from rocketline.store.inspection.check import check_store
from rocketline.store.inspection.findings import Findings
from rocketline.store.inspection.repair import repair_store
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from support.brokers.connections import broker_settings
from support.brokers.tables import SMALL
from support.brokers.timers import SLOTS, TimerScene
from support.stores.damage import walk
from support.stores.small import ROOT, flush

COUNT = int(os.environ.get("ROCKETLINE_DAMAGES", "30")) * 3
SECTOR, STEP_MS, ROLLED_MS = 512, 1000, 500_000
LOG, WHEEL = ROOT / "timerlog", ROOT / "timerwheel"
CHECK, METRICS = ROOT / "config" / "timercheck", ROOT / "config" / "timermetrics"
KINDS = ("bit", "blank sector", "strange sector", "garbage", "missing", "empty", "cut", "swap")

pytestmark = pytest.mark.xdist_group("timer_damage")


@dataclass(frozen=True)
class Kept:
    """The files of a store, the moments of its messages, and which of them were delivered."""

    files: Mapping[Path, bytes]
    due: Mapping[str, int]
    recalled: frozenset[str]
    delivered: frozenset[str]
    begin_ms: int
    end_ms: int


@cache
def kept(is_clean: bool) -> Kept:
    """Six hundred messages for the next fifteen minutes, many of them for one moment, some called back; half a minute
    has passed. Stopped, or killed a moment after the last save."""
    clock = FakeClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    scene, chance, due, recalled = TimerScene(clock, files), random.Random(15), dict[str, int](), set[str]()
    begin_ms = clock.wall_ms()
    for number in range(600):
        key = f"{number}"
        after_ms = 60_500 if number % 3 == 0 else chance.randrange(1000, 900_000)
        due[key] = begin_ms + after_ms
        scene.send(key, due[key])
        if number % 10 == 9 and after_ms > 40_000:
            scene.send("marker", due[key], recalls=key)
            recalled.add(key)
    scene.pass_time(30)
    if is_clean:
        scene.close()
    else:
        scene.save()
        for number in range(600, 650):
            key = f"{number}"
            due[key] = clock.wall_ms() + 30_500
            scene.send(key, due[key])
        scene.work()
        flush(scene.store)
        scene.store.write_behind()
        scene.die()
    data = {path: files.read_file(path) or b"" for path in walk(files, ROOT)}
    return Kept(data, due, frozenset(recalled), frozenset(scene.keys()), begin_ms, clock.wall_ms())


def restored(before: Kept) -> tuple[FakeClock, MemoryFileSystem]:
    clock = FakeClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    for path, data in before.files.items():
        files.make_folder(path.parent)
        files.write_file(path, data)
    clock.advance((before.end_ms - clock.wall_ms()) / 1000 + 1)
    return clock, files


def paths(before: Kept, target: Path) -> list[Path]:
    return [path for path in before.files if path == target or path.parent == target]


def hurt(files: MemoryFileSystem, before: Kept, kind: str, target: Path, chance: random.Random) -> str:
    """Does it, and says what exactly."""
    path = chance.choice(paths(before, target))
    data = before.files[path]
    used = len(data.rstrip(b"\0"))
    at = chance.choice([at for at in range(used) if data[at]])
    if kind == "missing":
        files.remove(path)
    elif kind == "swap":
        other = chance.choice([one for one in before.files if one.parent in (path.parent, LOG) and one != path])
        files.write_file(path, before.files[other])
        files.write_file(other, data)
        return f"{path} and {other} swapped"
    elif kind in ("garbage", "empty", "cut"):
        sizes = {"garbage": len(data), "empty": 0, "cut": at}
        files.write_file(path, chance.randbytes(len(data)) if kind == "garbage" else data[: sizes[kind]])
    elif kind == "bit":
        files.open(path).write_at(at, bytes([data[at] ^ 1 << chance.randrange(8)]))
    else:
        begin = at - at % SECTOR
        size = min(SECTOR, len(data) - begin)
        files.open(path).write_at(begin, bytes(size) if kind.startswith("blank") else chance.randbytes(size))
    return f"{kind} of {path} at {at}"


@pytest.mark.parametrize("seed", range(COUNT))
def test_damaged_files_lose_no_message_and_bring_none_early(seed: int) -> None:
    chance = random.Random(seed)
    before, kind = kept(bool(seed % 2)), KINDS[seed // 2 % len(KINDS)]
    target = (WHEEL, LOG, LOG, CHECK, METRICS)[seed // 2 // len(KINDS) % 5]
    clock, files = restored(before)
    told = hurt(files, before, kind, target, chance)
    is_check_hurt = files.read_file(CHECK) != before.files[CHECK]
    scene = TimerScene(clock, files)
    scene.work()
    scene.close()  # what it has now must be as good after another start
    scene = scene.again()
    scene.pass_time(1000, step_s=5)
    keys = scene.keys()
    assert set(keys) >= set(before.due) - before.recalled, f"{told}: messages are lost"
    assert not set(keys) & before.recalled, f"{told}: messages come that were called back"
    early = [one for one in scene.delivered() if one.store_ms < before.due[one.properties["UNIQ_KEY"]]]
    assert not early, f"{told}: messages are early"
    if not is_check_hurt:
        twice = {key for key in before.delivered if keys.count(key) > 1}
        assert not twice, f"{told}: {len(twice)} messages come again"
        rolled = {key for key, due_ms in before.due.items() if due_ms > before.begin_ms + ROLLED_MS}
        slots = {(before.due[key] - 1) // STEP_MS for key in set(keys) - rolled if keys.count(key) > 1}
        assert len(slots) <= (target == LOG), f"{told}: messages of slots {slots} come twice"
    assert scene.waiting() == 0, told
    scene.close()


def check(files: MemoryFileSystem, clock: FakeClock) -> Findings:
    return check_store(files, clock, config(), timer_slots=SLOTS).findings


def config() -> StoreConfig:
    return broker_settings(storePathRootDir=str(ROOT), mappedFileSizeTimerLog="5200", **SMALL).value.store


@pytest.mark.parametrize("is_clean", [False, True])
def test_whole_files_are_found_whole(is_clean: bool) -> None:
    clock, files = restored(kept(is_clean))
    assert check(files, clock).is_clean


@pytest.mark.parametrize("size", [56, 61, 97, 100])
def test_a_checkpoint_that_was_cut_behind_its_numbers_is_named(size: int) -> None:
    clock, files = restored(kept(is_clean=True))
    files.write_file(CHECK, (files.read_file(CHECK) or b"")[:size])
    named = [(one.path, one.problem) for one in check(files, clock).kept if one.is_damage]
    assert named == [(CHECK, f"{size} bytes where a timer checkpoint has 4096")]


@pytest.mark.parametrize("seed", range(0, COUNT, 3))
def test_repaired_store_delivers_all_that_waits(seed: int) -> None:
    """Whatever the check names is mended; and what it does not name, a start gets over."""
    chance = random.Random(seed)
    before, kind = kept(bool(seed % 2)), KINDS[seed // 2 % len(KINDS)]
    target = (WHEEL, LOG, LOG, CHECK, METRICS)[seed // 2 // len(KINDS) % 5]
    clock, files = restored(before)
    told = hurt(files, before, kind, target, chance)
    is_check_hurt = files.read_file(CHECK) != before.files[CHECK]
    if kind in ("garbage", "missing", "empty", "cut", "strange sector"):
        is_parked_again = not seed % 2 and target == LOG  # what was parked since the last save
        assert not check(files, clock).is_clean or target is METRICS or is_parked_again, f"{told}: nobody says so"
    repaired = repair_store(files, clock, config(), timer_slots=SLOTS)
    assert repaired.after.findings.is_clean, f"{told}: {repaired.after.findings.kept[:3]}"
    scene = TimerScene(clock, files)
    scene.pass_time(1000, step_s=5)
    keys = scene.keys()
    assert set(keys) >= set(before.due) - before.recalled, f"{told}: messages are lost"
    assert not set(keys) & before.recalled, f"{told}: messages come that were called back"
    if not is_check_hurt:
        assert len(keys) == len(set(keys)), f"{told}: messages come twice"
    scene.close()
