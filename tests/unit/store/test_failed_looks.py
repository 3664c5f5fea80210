"""A queue whose files cannot be read holds up nobody but those who ask for it; and a record's queue offset that has
changed hides no other message."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketline.store.filesystem import File
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import ROOT, contents, die, fill, flush, flush_queues, memory
from support.stores.small import open_store as opened


class BadSector(MemoryFileSystem):
    """Files of one topic's queues cannot be opened while it `is_bad`."""

    is_bad = False

    def open(self, path: Path, *, size: int | None = None) -> File:
        if self.is_bad and "A" in path.parts:
            raise OSError(errno.EIO, "input/output error", str(path))
        return super().open(path, size=size)


@pytest.fixture
def files(clock: FakeClock) -> BadSector:
    return BadSector(clock, capacity=1 << 30)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_queue_that_cannot_be_read_holds_up_neither_start_nor_looks_nor_checkpoint(
    files: BadSector, clock: FakeClock, caplog: pytest.LogCaptureFixture, is_clean: bool, is_known: bool
) -> None:
    store = opened(files, clock)
    for topic in ("A", "C", "D"):
        fill(store, 3, topic=topic)
    fill(store, 12)
    flush(store)
    flush_queues(store)
    store.close() if is_clean else die(store)
    if not is_known and not is_clean:
        files.remove(ROOT / "queue_ends.json")
    files.is_bad = True
    store = opened(files, clock)
    while store.look_on(20):
        pass
    assert caplog.text.count("queues cannot be compared with the log") == 1
    assert not store.queues.looks.is_unsettled
    with pytest.raises(OSError, match="input/output"):
        store.max_offset("A", 0)
    fill(store, 20, topic="X")
    flush(store)
    for _ in range(2):
        clock.advance(60)
        flush_queues(store)
    assert store.checkpoint.logics_log_offset == store._last_dispatched[0]
    die(store)
    store = opened(files, clock)
    files.is_bad = False
    assert store.retry_looks()
    while store.look_on(20):
        pass
    assert not store.retry_looks()
    assert store.max_offset("A", 0) == 3
    assert [one.queue_offset for one in contents(store, "A")] == [0, 1, 2]
    store.close()


@pytest.mark.parametrize("bit", [3, 6, 8])
@pytest.mark.parametrize("number", [5, 8])
def test_a_record_whose_queue_offset_has_jumped_hides_no_message(clock: FakeClock, bit: int, number: int) -> None:
    """The queue's next record tells that nothing is missing, and that the queue was not begun anew."""
    files = memory(clock)
    sizes = {"mapped_file_size_commit_log": 1 << 18, "mapped_file_size_consume_queue": 1000 * 20}
    store = opened(files, clock, **sizes)
    sent = fill(store, 5, topic="A")
    fill(store, 200)
    sent += fill(store, 5, topic="A")
    flush(store)
    flush_queues(store)
    die(store)
    file = files.open(ROOT / "commitlog" / f"{0:020}")
    at = sent[number].log_offset + 20
    file.write_at(at, (int.from_bytes(file.read_at(at, 8), "big") ^ 1 << bit).to_bytes(8, "big"))
    store = opened(files, clock, **sizes)
    assert store.max_offset("A", 0) == 10
    assert [place for place, _, _ in store.units("A", 0, 0, 10)] == [one.log_offset for one in sent]
    store.close()
