"""Syncing queues and index off the loop: everything that was written, once, and the checkpoint last."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketline.store.files.checkpoint import Checkpoint
from rocketline.store.queue_flush import QueueFlushJob
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from support.long_steps import counted
from support.stores.small import ROOT, contents, die, fill, flush, flush_queues, open_store

QUEUE = ROOT / "consumequeue" / "T" / "0"


@pytest.fixture
def disk(clock: FakeClock) -> FaultyFileSystem:
    return FaultyFileSystem(clock)


def saved(disk: FaultyFileSystem) -> Checkpoint:
    checkpoint = Checkpoint(disk, ROOT / "checkpoint")
    checkpoint.load()
    return checkpoint


def test_thorough_job_makes_units_durable_with_their_folders(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = open_store(disk, clock)
    sent = fill(store, 7)
    flush(store)
    store.write_behind()
    job = store.begin_queue_flush(is_thorough=True)
    assert [path.name for path in job.paths] == [f"{0:020}", f"{100:020}"]
    job.run()
    store.finish_queue_flush(job)
    after = disk.crash(Survival.NOTHING, seed=0)
    assert after.list(QUEUE) == [f"{0:020}", f"{100:020}"]
    assert (store.checkpoint.logics_log_offset, store.checkpoint.logics_msg_timestamp) == (
        sent[-1].log_offset,
        sent[-1].store_ms,
    )
    assert store.begin_queue_flush(is_thorough=True).paths == [], "nothing was written since"


@pytest.mark.parametrize("survival", Survival)
def test_what_comes_while_units_are_written_in_steps_counts_the_next_time(
    disk: FaultyFileSystem, clock: FakeClock, survival: Survival
) -> None:
    store = open_store(disk, clock, mapped_file_size_commit_log=65536)
    sent = [fill(store, 1, queue_id=queue_id)[0] for queue_id in range(100)]
    flush(store)
    steps = store.beginning_queue_flush(is_thorough=True)
    next(steps)
    assert 0 < sum(queue.is_behind for queue in store.queues.awake) < 100
    later = [fill(store, 1, queue_id=queue_id)[0] for queue_id in (0, 50, 200)]
    store.delete_topics(["gone"])
    flush(store)
    job, pauses = counted(steps)
    assert pauses == 2
    assert job.last == (sent[-1].log_offset, sent[-1].store_ms)
    job.run()
    store.finish_queue_flush(job)
    die(store)
    store = open_store(disk.crash(survival, seed=7), clock, mapped_file_size_commit_log=65536)
    found = [store.units("T", one.queue_id, one.queue_offset, 1)[0][0] for one in (*sent, *later)]
    assert found == [one.log_offset for one in (*sent, *later)]
    store.close()


def test_a_topic_that_is_made_anew_while_queues_are_cleaned_keeps_its_messages(
    disk: FaultyFileSystem, clock: FakeClock
) -> None:
    store = open_store(disk, clock)
    for queue_id in range(40):
        fill(store, 1, queue_id=queue_id)
    fill(store, 12, topic="U")
    flush(store)
    flush_queues(store)
    store.log.drop_first()
    steps = store.cleaning_queues()
    next(steps)
    store.delete_topics(["T", "U"])
    sent = fill(store, 1, topic="U")
    flush_queues(store)
    assert list(steps) == []
    assert contents(store, "U") == sent
    assert store.min_offset("U", 0) == 0
    store.close()


def test_other_job_saves_the_checkpoint_only(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = open_store(disk, clock)
    fill(store, 2)
    flush(store)
    store.write_behind()
    job = store.begin_queue_flush(is_thorough=False)
    job.run()
    store.finish_queue_flush(job)
    assert (job.paths, job.last) == ([], None)
    assert store.checkpoint.logics_msg_timestamp == 0
    assert saved(disk).physic_msg_timestamp == store.checkpoint.physic_msg_timestamp > 0
    die(store)


def test_files_that_were_deleted_meanwhile_need_no_sync(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = open_store(disk, clock)
    fill(store, 2)
    store.write_behind()
    job = store.begin_queue_flush(is_thorough=True)
    store.delete_topics(["T"])
    job.run()
    store.finish_queue_flush(job)
    assert store.problem is None
    store.close()


def test_job_that_fails_saves_no_checkpoint_and_makes_the_store_read_only(
    disk: FaultyFileSystem, clock: FakeClock
) -> None:
    store = open_store(disk, clock)
    fill(store, 2)
    flush(store)
    store.write_behind()
    job = store.begin_queue_flush(is_thorough=True)
    disk.fail(at=1, calls=["sync"])
    with pytest.raises(OSError) as caught:
        job.run()
    store.finish_queue_flush(job, caught.value)
    assert caught.value.errno == errno.EIO
    assert saved(disk).physic_msg_timestamp == 0
    assert "syncing the queues failed" in (store.problem or "")
    assert len(contents(store)) == 2, "what is there can be read"
    store.close()


def test_file_that_cannot_be_synced_is_closed_all_the_same(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    disk.make_folder(Path("/q/T/0"))
    disk.open(Path("/q/T/0/file"), size=10).close()
    checkpoint = Checkpoint(disk, Path("/q/checkpoint"))
    checkpoint.load()
    job = QueueFlushJob(disk, [Path("/q/T/0/file")], checkpoint, None, None)
    disk.fail(at=1, calls=["sync"])
    with pytest.raises(OSError):
        job.run()
    job.run()
    checkpoint.close()
    assert disk.exists(Path("/q/checkpoint"))
