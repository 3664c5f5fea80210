"""Two hundred seeded damages to a store with twenty thousand messages: each is mended or named, and none silently
changes or hides a message whose own bytes are whole.

`make test` looks at some of them; `ROCKETLINE_DAMAGES=250` (`make damage`) at all.
"""

from __future__ import annotations

import os
import random
from functools import cache

import pytest

from rocketline.errors import CorruptStoreError
from rocketline.store.inspection.check import CheckReport, check_store
from rocketline.store.inspection.repair import repair_store
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.message_codec import decode_record
from support.stores.damage import (
    DAMAGES,
    LOG_BYTES,
    MESSAGES,
    SIZES,
    Kept,
    build,
    config,
    is_uncovered,
    next_places,
    served,
    walk,
    whole_messages,
)
from support.stores.small import ROOT, die, open_store

COUNT = int(os.environ.get("ROCKETLINE_DAMAGES", "30"))

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("store_damage")]


@cache
def kept(is_clean: bool) -> Kept:
    return build(is_clean=is_clean)


def check(files: MemoryFileSystem) -> CheckReport:
    return check_store(files, FakeClock(), config())


@cache
def usual_notes(is_clean: bool) -> frozenset[str]:
    report = check(kept(is_clean).restore(FakeClock()))
    assert report.findings.is_clean
    assert report.records > MESSAGES
    return frozenset(str(finding) for finding in report.findings.kept)


@pytest.mark.parametrize("seed", range(COUNT))
def test_damage_is_mended_or_named(seed: int) -> None:
    chance = random.Random(seed)
    before, damage = kept(bool(seed % 2)), DAMAGES[seed // 2 % len(DAMAGES)]
    files = before.restore(FakeClock())
    told = f"{damage.name}: {damage.do(files, before, chance)}"
    whole = whole_messages(files, before)
    named = [str(one) for one in check(files).findings.kept if str(one) not in usual_notes(before.is_clean)]

    try:
        store = open_store(files, FakeClock(wall_ms=FakeClock().wall_ms() + 86_400_000), **SIZES)
    except CorruptStoreError:
        assert named, f"{told}: the start refuses it, the check does not"
        return
    found = served(store)
    reused = [place for place in next_places(store) if place in before.messages]
    die(store)

    hidden = whole - found
    changed = [record for record in found - {*before.messages.values()} if not is_uncovered(before, record)]
    assert named or len(found) == len(before.messages), f"{told}: messages are gone, and nobody says so"
    assert not reused, f"{told}: offsets are given out again: {reused}"
    if not named:
        assert not hidden, f"{told}: {len(hidden)} messages hidden"
        assert not changed, f"{told}: {len(changed)} messages changed"


@pytest.mark.parametrize("seed", range(0, COUNT, 1 if len(DAMAGES) * 2 < COUNT else 5))
def test_repaired_store_serves_every_whole_message_and_has_a_copy_of_the_rest(seed: int) -> None:
    before, damage = kept(bool(seed % 2)), DAMAGES[seed // 2 % len(DAMAGES)]
    files = before.restore(FakeClock())
    told = f"{damage.name}: {damage.do(files, before, random.Random(seed))}"
    whole = whole_messages(files, before)
    damaged = {path: files.read_file(path) or b"" for path in walk(files, ROOT)}
    clock = FakeClock(wall_ms=FakeClock().wall_ms() + 86_400_000)

    repaired = repair_store(files, clock, config())

    assert repaired.after.findings.is_clean, f"{told}: {repaired.after.findings.kept[:3]}"
    store = open_store(files, clock, **SIZES)
    found = served(store)
    store.close()
    assert whole <= found, f"{told}: {len(whole - found)} messages hidden, {repaired.steps}"
    strange = {record for record in found - {*before.messages.values()} if not is_uncovered(before, record)}
    assert all(decode_record(record).properties.get("DAMAGED") for record in strange if len(record) > 140), told
    copies = b"".join(files.read_file(path) or b"" for path in walk(files, ROOT / "damaged"))
    for step in repaired.steps:
        if step.copy is not None and step.path.parent.name == "commitlog" and step.path in damaged:
            assert files.read_file(step.copy), told
    for begin, end in repaired.before.damaged:
        path, at = ROOT / "commitlog" / f"{begin - begin % LOG_BYTES:020}", begin % LOG_BYTES
        lost = damaged.get(path, b"")[at : min(at + end - begin, LOG_BYTES)]
        assert lost.rstrip(b"\0") in copies or "swap" in damage.name, told
