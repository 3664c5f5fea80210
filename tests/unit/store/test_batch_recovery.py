"""Batch queues after a crash: each record has one unit, and the files have it."""

from __future__ import annotations

import pytest

from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from stores import BATCHED, ROOT, contents, die, fill, flush, inner_batch, memory, open_store

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
