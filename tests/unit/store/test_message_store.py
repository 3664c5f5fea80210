"""The store as a whole: when messages can be read, what failures do to it, and how old ones are deleted."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rocketline.errors import IllegalMessageError, StoreError, StoreFullError, StoreReadOnlyError
from rocketline.store.filesystem import DiskUsage
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.store_hooks import StoreHooks
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from support.stepping_clock import SteppingClock
from support.stores.slow_files import SlowFileSystem
from support.stores.small import (
    LOG_BYTES,
    ROOT,
    SYNC,
    append_batch,
    contents,
    die,
    fill,
    find_keys,
    flush,
    flush_queues,
    memory,
    message,
    open_store,
)


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def test_a_message_comes_back_with_its_places_and_store_time(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    first = store.append(message("T", b"a", TAGS="A"))
    second = store.append(message("T", b"b"))
    assert (first.queue_offset, first.log_offset, first.store_ms) == (0, 0, clock.wall_ms())
    assert (second.queue_offset, second.log_offset) == (1, store.units("T", 0, 0, 1)[0][1])
    assert contents(store) == [first, second]
    assert (files.read_file(ROOT / "lock"), files.read_file(ROOT / "abort")) == (b"lock", str(os.getpid()).encode())
    store.close()


def test_store_times_go_on_when_the_clock_is_set_back() -> None:
    clock = SteppingClock()
    store = open_store(memory(clock), clock)
    first = store.append(message("T", b"a"))
    clock.step(-8 * 3600)
    clock.advance(2)
    assert store.append(message("T", b"b")).store_ms == first.store_ms + 2000
    store.close()


def test_whoever_waits_is_told_of_each_queue_and_its_tags(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    told: list[tuple[str, int, list[int]]] = []
    store.connect(
        StoreHooks(
            on_arrival=lambda arrivals: told.extend((q.topic, q.queue_id, codes) for q, codes in arrivals.items())
        )
    )
    append_batch(store, [message("T", b"a", TAGS="A"), message("T", b"b")])
    store.append(message("U", b"c", queue_id=3))
    assert told == [("T", 0, [65, 0]), ("U", 3, [0])]
    store.close()


def test_a_delayed_message_is_kept_under_the_time_at_which_it_is_due(files: MemoryFileSystem, clock: FakeClock) -> None:
    """The same when it is derived anew."""
    store = open_store(files, clock)
    store.append(message("SCHEDULE_TOPIC_XXXX", queue_id=2, DELAY="3", TAGS="A"))
    assert store.units("SCHEDULE_TOPIC_XXXX", 2, 0, 1)[0][2] == clock.wall_ms() + 10_000
    store.close()
    files.remove_tree(ROOT / "consumequeue")
    store = open_store(files, clock)
    assert store.units("SCHEDULE_TOPIC_XXXX", 2, 0, 1)[0][2] == clock.wall_ms() + 10_000
    store.close()


def test_with_sync_flush_nothing_is_read_or_found_before_it_is_flushed(clock: FakeClock) -> None:
    store = open_store(memory(clock), clock, flush_disk_type=SYNC)
    [sent] = fill(store, 1)
    assert (store.max_offset("T", 0), store.confirm_log_offset) == (0, 0)
    assert store.record_at(sent.log_offset) is None
    assert find_keys(store, "k0") == []
    assert store.undispatched_bytes == store.max_log_offset
    job = store.begin_flush()
    assert job is not None
    fill(store, 1)
    job.run()
    store.finish_flush(job)
    assert [found.queue_offset for found in contents(store)] == [0]
    assert find_keys(store, "k0") == [0]
    flush(store)
    assert len(contents(store)) == 2
    assert store.undispatched_bytes == 0
    store.close()


def test_a_batch_is_stored_as_neighbours_or_not_at_all(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    fill(store, 4)
    batch = [message("T", b"b" * 100) for _ in range(3)]
    append_batch(store, batch)
    assert batch[0].log_offset == LOG_BYTES
    assert [sent.queue_offset for sent in batch] == [4, 5, 6]
    end = store.max_log_offset
    with pytest.raises(IllegalMessageError):
        append_batch(store, [message("T", b"b" * 400) for _ in range(3)])
    with pytest.raises(IllegalMessageError, match="zero bytes"):
        append_batch(store, [message("T"), message("T", X="\0" * 512)])
    assert store.max_log_offset == end
    assert store.append(message("T", b"next")).queue_offset == 7
    store.close()


def test_a_failed_write_makes_the_store_read_only_and_it_says_why(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock)
    fill(store, 2)
    disk.fail(at=1, calls=["write"], torn=True)
    with pytest.raises(
        StoreReadOnlyError, match="writing to the log failed: /store/commitlog/00000000000000000000: Input/output error"
    ):
        fill(store, 1)
    assert not store.is_writable
    with pytest.raises(StoreReadOnlyError, match="writing to the log failed"):
        fill(store, 1)
    assert len(contents(store)) == 2
    assert store.begin_flush() is None
    store.close()
    assert disk.exists(ROOT / "abort")
    store = open_store(disk, clock)
    assert store.is_writable
    assert len(contents(store)) == 2
    assert fill(store, 1)[0].queue_offset == 2
    store.close()


def test_a_failed_sync_is_never_tried_again(clock: FakeClock) -> None:
    """The system has dropped the bytes, and a second sync would say that all is well."""
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock, flush_disk_type=SYNC)
    fill(store, 2)
    disk.fail(at=1, calls=["sync"])
    flush(store)
    assert store.problem == "syncing the log failed: /store/commitlog/00000000000000000000: Input/output error"
    assert contents(store) == []
    assert (store.flushed_log_offset, store.begin_flush()) == (0, None)
    store.close()


def test_messages_count_though_queues_and_index_cannot_follow(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock)
    sent = fill(store, 2)
    disk.fail(at=1, calls=["write"])
    store.write_behind()
    assert store.problem == (
        "writing to queues or index failed: /store/consumequeue/T/0/00000000000000000000: Input/output error"
    )
    assert contents(store) == sent
    store.close()
    store = open_store(disk, clock)
    assert contents(store) == sent
    store.close()


def test_closing_survives_a_disk_that_fails_and_lets_go_of_the_store(clock: FakeClock) -> None:
    at = 0
    while True:
        at += 1
        disk = FaultyFileSystem(clock)
        store = open_store(disk, clock)
        sent = fill(store, 5)
        disk.fail(at=at, lasting=True)
        store.close()
        if disk.call_count < at:
            break
        disk.heal()
        assert store.problem is not None
        store = open_store(disk, clock)
        assert contents(store) == sent
        store.close()
    assert at > 5


def test_a_write_that_takes_too_long_marks_what_was_read_before_as_stale(clock: FakeClock) -> None:
    files = SlowFileSystem(clock)
    store = open_store(files, clock)
    fill(store, 1)
    assert store.stall_end_s == float("-inf")
    files.seconds = 1.5
    fill(store, 1)
    assert store.stall_end_s == clock.monotonic()
    store.close()


# --- deleting


def names(files: MemoryFileSystem) -> list[int]:
    return [int(name) // LOG_BYTES for name in files.list(ROOT / "commitlog")]


def hour_of(clock: FakeClock, hours_later: int) -> str:
    return f"{(time.localtime(clock.wall_ms() / 1000).tm_hour + hours_later) % 24}"


class UnmeasuredFileSystem(MemoryFileSystem):
    """Does not say how full it is."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, capacity=1 << 30)

    def usage(self, path: Path) -> DiskUsage:
        raise OSError(errno.EIO, "it cannot be measured", str(path))


def test_expired_files_are_deleted_oldest_first_and_never_the_last(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, delete_when=hour_of(clock, 72))
    fill(store, 10)
    clock.advance(3600)
    fill(store, 10)
    flush(store)
    assert names(files) == [0, 1, 2, 3]
    clock.advance(71 * 3600)
    paths = store.clean()
    assert [path.name for path in paths] == [f"{0:020}"], "the second file was changed an hour later"
    assert store.min_log_offset == LOG_BYTES
    assert store.min_offset("T", 0) == next(offset for offset in range(20) if store.store_ms_at("T", 0, offset) != -1)
    store.unlink(paths)
    assert names(files) == [1, 2, 3]
    store.delete_expired()
    clock.advance(3600)
    store.unlink(store.clean())
    assert names(files) == [3]
    assert [found.queue_offset for found in contents(store)] == list(range(store.min_offset("T", 0), 20))
    assert find_keys(store, "k0") == []
    assert store.clean() == []
    store.close()


def test_one_round_deletes_so_many_files(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, delete_file_batch_max=2)
    fill(store, 30)
    flush(store)
    clock.advance(73 * 3600)
    store.delete_expired()
    assert len(store.clean()) == 2
    store.close()


def test_files_that_are_not_flushed_are_not_deleted(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    fill(store, 20)
    clock.advance(73 * 3600)
    store.delete_expired()
    assert store.clean() == []
    store.close()


def test_a_file_that_could_not_be_unlinked_is_named_again_before_the_next(clock: FakeClock) -> None:
    """Were the next one unlinked first, the gap would keep the store from opening."""
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock, delete_file_batch_max=1)
    fill(store, 20)
    flush(store)
    clock.advance(73 * 3600)
    store.delete_expired()
    disk.fail(at=1, calls=["remove"])
    with pytest.raises(OSError, match="Input/output"):
        store.unlink(store.clean())
    paths = store.clean()
    assert [path.name for path in paths] == [f"{0:020}", f"{LOG_BYTES:020}"]
    store.unlink(paths)
    assert len(store.clean()) == 1
    store.close()


def test_queue_files_and_index_files_go_with_their_records(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    fill(store, 30)
    flush(store)
    flush_queues(store)
    clock.advance(73 * 3600)
    store.delete_expired()
    queue_files, index_files = (len(files.list(ROOT / name)) for name in ("consumequeue/T/0", "index"))
    store.unlink(store.clean())
    assert len(files.list(ROOT / "consumequeue/T/0")) < queue_files
    assert len(files.list(ROOT / "index")) < index_files
    store.close()


def test_a_disk_that_is_too_full_refuses_messages_until_it_has_room(clock: FakeClock) -> None:
    """S227: over 90 percent messages are refused, and files are deleted whatever their age."""
    files = MemoryFileSystem(clock, capacity=20_000)
    store = open_store(files, clock)
    with pytest.raises(StoreFullError, match="used up"):
        fill(store, 1000)
    flush(store)
    paths = store.clean()
    assert paths
    with pytest.raises(StoreFullError, match="fuller than diskSpaceWarningLevelRatio allows"):
        fill(store, 1)
    store.unlink(paths)
    store.clean()
    assert store.is_writable
    fill(store, 1)
    store.close()


def test_a_disk_that_cannot_be_measured_loses_what_has_expired_and_takes_messages(clock: FakeClock) -> None:
    disk = UnmeasuredFileSystem(clock)
    store = open_store(disk, clock, delete_when=hour_of(clock, 74))
    fill(store, 20)
    flush(store)
    assert store.clean() == [], "nothing has expired"
    clock.advance(73 * 3600)
    assert store.clean() != []
    assert store.is_writable
    store.close()


# --- topics


def test_a_deleted_topic_begins_anew(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock)
    fill(store, 5)
    fill(store, 5, topic="U")
    store.write_behind()
    store.delete_topics(["T", "missing"])
    assert (store.max_offset("T", 0), store.max_offset("U", 0)) == (0, 5)
    assert fill(store, 1)[0].queue_offset == 0
    store.close()


def test_a_topic_that_cannot_be_deleted_is_told_by_name(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock)
    fill(store, 1)
    store.write_behind()
    disk.fail(at=1, calls=["rename"], error=errno.EACCES)
    with pytest.raises(StoreError, match="queues of T cannot be deleted: Permission denied"):
        store.delete_topics(["T"])
    store.close()


@pytest.mark.parametrize("is_tried_again", [True, False])
def test_a_topic_that_could_not_be_deleted_begins_anew_all_the_same(clock: FakeClock, is_tried_again: bool) -> None:
    """Whether it is deleted once more, or made again at once."""
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock)
    for queue_id in (0, 1):
        fill(store, 12, queue_id=queue_id)
    fill(store, 12, topic="U")
    flush_queues(store)
    disk.fail(at=1, calls=["rename"])
    with pytest.raises(StoreError, match="queues of T cannot be deleted"):
        store.delete_topics(["T", "U"])
    assert store.max_offset("U", 0) == 0, "one topic that stays does not keep the next"
    if is_tried_again:
        store.delete_topics(["T"])
        assert not disk.exists(ROOT / "consumequeue/T")
    store.queues.make_way("T", is_batched=False)
    new = fill(store, 2)
    assert contents(store) == new
    store.close()
    again = open_store(disk, clock)
    assert contents(again) == new
    assert contents(again, queue_id=1) == []
    again.close()


def test_a_topic_of_many_queues_is_deleted_by_one_call_of_the_disk(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files go later, off the loop and a part at a time; what a crash leaves of them goes after the next start."""
    store = open_store(files, clock)
    for queue_id in range(300):
        fill(store, 1, queue_id=queue_id)
    flush_queues(store)
    calls = Counter[str]()
    for call in ("remove", "remove_tree", "rename"):
        monkeypatch.setattr(files, call, partial(_counted, calls, call, getattr(files, call)))
    store.delete_topics(["T"])
    assert calls == {"rename": 1}
    assert fill(store, 1)[0].queue_offset == 0, "and can be made again at once"
    job = store.begin_sweep()
    assert job is not None
    job.run()
    assert len(files.list(job.folder)) == 44
    die(store)
    again = open_store(files, clock)
    job = again.begin_sweep()
    assert job is not None
    job.run()
    assert (again.begin_sweep(), len(contents(again))) == (None, 1)
    again.close()


def _counted(calls: Counter[str], name: str, call: Callable[..., None], *arguments: object) -> None:
    calls[name] += 1
    call(*arguments)


def test_a_topic_that_still_cannot_be_deleted_cannot_be_made_again(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock)
    fill(store, 1)
    flush_queues(store)
    disk.fail(at=1, calls=["rename"], lasting=True)
    with pytest.raises(StoreError, match="queues of T cannot be deleted"):
        store.delete_topics(["T"])
    with pytest.raises(OSError, match="Input/output"):
        store.queues.make_way("T", is_batched=False)
    disk.heal()
    store.close()


def test_messages_under_way_to_a_deleted_topic_are_not_seen_in_its_next_life(clock: FakeClock) -> None:
    store = open_store(memory(clock), clock, flush_disk_type=SYNC)
    fill(store, 2)
    store.delete_topics(["T"])
    fill(store, 1)
    flush(store)
    assert len(contents(store)) == 1
    store.close()
