"""A repair is cut short at any of its calls, by an error or with the power: a second one ends where the first would."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from rocketline.errors import StoreError
from rocketline.model.topic_config import TopicConfig
from rocketline.store.files.json_files import save_json
from rocketline.store.inspection.repair import repair_store
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from rocketline.wire.bodies.topics import TopicConfigTable
from support.stores.damage import walk
from support.stores.small import LOG_BYTES, ROOT, catch_up, contents, fill, store_config
from support.stores.small import open_store as opened

LOG = ROOT / "commitlog"
MESSAGES = 30
CLOSE, STRIDE = 30, 11
"""Files are moved and copied at the first calls, at each of which the repair is cut; later ones derive queues and
index, as every start does."""


def log_file(number: int) -> str:
    return f"{number * LOG_BYTES:020}"


def swap(files: FaultyFileSystem) -> None:
    """Two files of the log have each other's name."""
    first, second = LOG / log_file(1), LOG / log_file(2)
    files.rename(first, LOG / "first")
    files.rename(second, first)
    files.rename(LOG / "first", second)


def rotate(files: FaultyFileSystem) -> None:
    """So do three, and one is missing."""
    files.remove(LOG / log_file(3))
    swap(files)
    files.rename(LOG / log_file(2), LOG / log_file(3))
    files.rename(LOG / log_file(0), LOG / log_file(2))


def break_record(files: FaultyFileSystem) -> None:
    """One is damaged, and so is the queue."""
    files.open(LOG / log_file(1)).write_at(100, b"damage")
    files.open(ROOT / "consumequeue" / "T" / "0" / log_file(0)).write_at(20, b"damage")


def filled(hurt: Callable[[FaultyFileSystem], None]) -> FaultyFileSystem:
    clock = FakeClock()
    files = FaultyFileSystem(clock)
    store = opened(files, clock)
    fill(store, MESSAGES)
    catch_up(store)
    store.close()
    save_json(
        files, ROOT / "config" / "topics.json", TopicConfigTable(topic_config_table={"T": TopicConfig("T", 1, 1)})
    )
    hurt(files)
    for folder in {LOG, ROOT}:
        files.sync_folder(folder)
    return files.crash(Survival.EVERYTHING, seed=0)


def repaired(files: FaultyFileSystem) -> list[tuple[int, bytes]]:
    """What a consumer gets after a repair that nothing stops."""
    clock = FakeClock()
    assert repair_store(files, clock, store_config()).after.findings.is_clean
    store = opened(files, clock)
    found: list[tuple[int, bytes]] = [(one.queue_offset, one.body) for one in contents(store)]
    store.close()
    return found


@pytest.mark.parametrize("survival", [None, Survival.NOTHING, Survival.EVERYTHING])
@pytest.mark.parametrize("hurt", [swap, rotate, break_record])
def test_a_second_repair_ends_where_the_first_would_have(
    hurt: Callable[[FaultyFileSystem], None], survival: Survival | None
) -> None:
    """`survival` of None: a call fails, and the power stays."""
    whole = filled(hurt)
    expected = repaired(whole)
    at = 0
    while True:
        at += 1 if at < CLOSE else STRIDE
        files = filled(hurt)
        before = b"".join(files.read_file(path) or b"" for path in walk(files, LOG))
        files.fail(at=at, lasting=survival is not None)
        with contextlib.suppress(OSError, StoreError):
            repair_store(files, FakeClock(), store_config())
        if files.call_count < at:
            break  # nothing was left to fail
        files.heal()
        files = files if survival is None else files.crash(survival, seed=at)
        assert repaired(files) == expected, f"cut at call {at}"
        after = b"".join(files.read_file(path) or b"" for path in walk(files, ROOT))
        assert all(before[begin : begin + 64] in after for begin in range(0, len(before), 512)), "nothing went for good"
    assert at > 20
