"""Batch queues after a crash: each record has one unit, and the files have it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import (
    BATCHED,
    ROOT,
    contents,
    die,
    fill,
    flush,
    flush_queues,
    inner_batch,
    memory,
    open_store,
)

FOLDER = ROOT / "batchconsumequeue" / BATCHED / "0"


def units_in_files(files: MemoryFileSystem) -> int:
    data = b"".join(files.read_file(FOLDER / name) or b"" for name in files.list(FOLDER))
    return sum(any(data[at : at + 46]) for at in range(0, len(data), 46))


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("is_clean", [True, False])
def test_each_record_has_one_unit_in_the_files(clock: FakeClock, has_checkpoint: bool, is_clean: bool) -> None:
    files = memory(clock)
    store = open_store(files, clock)
    for _ in range(10):
        fill(store, 3)
        store.append(inner_batch(4))
        clock.advance(1)
    store.close()
    files.write_file(ROOT / "abort", b"0")
    if not has_checkpoint:
        files.remove(ROOT / "checkpoint")
    store = open_store(files, clock)
    assert [one.queue_offset for one in contents(store, BATCHED)] == list(range(0, 40, 4))
    if is_clean:
        store.close()
    else:
        flush(store)
        store.queues.write_behind()
        die(store)
    assert units_in_files(files) == 10


def no_unit(files: MemoryFileSystem, name: str) -> None:
    files.open(FOLDER / name).write_at(46, bytes(46))


def other_place(files: MemoryFileSystem, name: str) -> None:
    files.open(FOLDER / name).write_at(4 * 46, bytes(7) + b"\x05")


def no_file(files: MemoryFileSystem, name: str) -> None:
    files.remove(FOLDER / name)


@pytest.mark.parametrize("damage", [no_unit, other_place, no_file])
@pytest.mark.parametrize("is_idle", [True, False])
def test_a_batch_queue_that_is_damaged_when_the_process_is_killed_loses_nothing(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, damage: Callable[[MemoryFileSystem, str], None], is_idle: bool
) -> None:
    """Whether or not the recovery has units for it."""
    files = memory(clock)
    store = open_store(files, clock)
    for _ in range(5):
        store.append(inner_batch(4))
    clock.advance(10)
    for _ in range(6):
        fill(store, 6)
        clock.advance(10)
        flush(store)
        flush_queues(store)
    count = 5
    if not is_idle:
        store.append(inner_batch(4))
        count = 6
    flush(store)
    die(store)
    damage(files, f"{0:020}")
    store = open_store(files, clock)
    while store.look_on(20):
        pass
    assert [one.queue_offset for one in contents(store, BATCHED)] == list(range(0, 4 * count, 4))
    assert store.append(inner_batch(4)).queue_offset == 4 * count
    assert "queue is derived anew from the log topic=B" in caplog.text
    store.close()
