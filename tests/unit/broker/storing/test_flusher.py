"""Group commit: who is told, when, and what if the disk is slow, broken, or not waited for."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketline.broker.storing.flusher import Flushed, Flusher
from rocketline.errors import QueueNotReadyError
from rocketline.store.filesystem import File, FileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFile, FaultyFileSystem
from support.stores.gated_files import GatedFileSystem
from support.stores.small import ROOT, SYNC, contents, die, fill, memory, message, open_store, store_config


class Flushing:
    """A store with its flusher, and what those who waited were told."""

    def __init__(self, store: MessageStore, flusher: Flusher) -> None:
        self.store, self.flusher = store, flusher
        self.told: list[tuple[bytes, Flushed]] = []

    def send(self, body: bytes) -> None:
        self.store.append(message("T", body))
        self.flusher.wait(self.store.max_log_offset, lambda flushed: self.told.append((body, flushed)))

    def readable(self) -> list[bytes]:
        return [found.body for found in contents(self.store)]

    @property
    def is_flushed(self) -> bool:
        return self.store.flushed_log_offset == self.store.max_log_offset

    async def until_told(self, count: int) -> None:
        await until(lambda: len(self.told) >= count)


async def until(condition: Callable[[], bool]) -> None:
    """What threads and timers bring about; the test's timeout is the bound."""
    while not condition():  # noqa: ASYNC110  # the flusher has no event for it
        await asyncio.sleep(0.001)


@asynccontextmanager
async def flushing(files: FileSystem, clock: FakeClock, **changes: Any) -> AsyncIterator[Flushing]:
    changes = {"flush_disk_type": SYNC, "mapped_file_size_commit_log": 65536} | changes
    store = open_store(files, clock, **changes)
    config = store_config(**changes)
    try:
        flusher = Flusher(store, lambda: config, clock)
        store.connect(flusher.hooks)
        async with flusher:
            yield Flushing(store, flusher)
    finally:
        store.close()


async def test_a_message_is_acknowledged_and_readable_once_its_flush_has_ended(clock: FakeClock) -> None:
    files = GatedFileSystem(clock)
    async with flushing(files, clock) as run:
        arrived: list[int] = []
        run.store.connect(
            replace(
                run.flusher.hooks,
                on_arrival=lambda arrivals: arrived.append(sum(len(codes) for codes in arrivals.values())),
            )
        )
        run.send(b"a")
        await files.gate.begun()
        assert (run.told, run.readable(), arrived, run.flusher.waiting) == ([], [], [], 1)
        assert run.store.confirm_log_offset == 0
        files.gate.let()
        await run.until_told(1)
        assert (run.told, run.readable(), arrived) == ([(b"a", Flushed.OK)], [b"a"], [1])
        assert run.flusher.waiting == 0


async def test_a_flush_that_began_before_a_message_does_not_release_it(clock: FakeClock) -> None:
    files = GatedFileSystem(clock)
    async with flushing(files, clock) as run:
        run.send(b"a")
        await files.gate.begun()
        run.send(b"b")
        run.send(b"c")
        files.gate.let()
        await files.gate.begun()
        assert run.told == [(b"a", Flushed.OK)]
        assert run.readable() == [b"a"]
        files.gate.let()
        await run.until_told(3)
        assert run.told[1:] == [(b"b", Flushed.OK), (b"c", Flushed.OK)]


async def test_thousands_who_waited_for_one_flush_are_told_over_several_turns(clock: FakeClock) -> None:
    """After a disk stood still for a second."""
    async with flushing(memory(clock), clock, mapped_file_size_commit_log=1 << 20) as run:
        for _ in range(2000):
            run.send(b"x")
        assert await most_in_a_turn(lambda: 2000 - len(run.told)) <= 256
        assert {flushed for _, flushed in run.told} == {Flushed.OK}


@pytest.mark.parametrize("is_late", [True, False])
async def test_those_whose_turn_has_not_come_are_told_what_is_true(clock: FakeClock, is_late: bool) -> None:
    async with flushing(memory(clock), clock, mapped_file_size_commit_log=1 << 20) as run:
        for _ in range(600):
            run.send(b"x")
        await until(lambda: run.is_flushed)
        if is_late:
            clock.advance(6)
            run.flusher._check_deadlines()
        else:
            await run.flusher.drain()
        assert [flushed for _, flushed in run.told] == [Flushed.OK] * 600


async def test_a_message_that_nobody_waits_for_is_flushed_as_well(clock: FakeClock) -> None:
    """WAIT=false."""
    files = GatedFileSystem(clock)
    async with flushing(files, clock) as run:
        run.store.append(message("T", b"unwatched"))
        await files.gate.begun()
        files.gate.open()
        await until(lambda: run.readable() == [b"unwatched"])


async def test_who_waits_for_what_is_flushed_is_told_at_once(clock: FakeClock) -> None:
    files = GatedFileSystem(clock)
    async with flushing(files, clock) as run:
        files.gate.open()
        run.send(b"a")
        await run.until_told(1)
        told: list[Flushed] = []
        run.flusher.wait(run.store.max_log_offset, told.append)
        assert told == [Flushed.OK]


async def test_a_flush_of_over_five_seconds_is_a_timeout_and_the_message_is_stored(clock: FakeClock) -> None:
    """S144."""
    files = GatedFileSystem(clock)
    async with flushing(files, clock) as run:
        run.send(b"a")
        await files.gate.begun()
        clock.advance(4.9)
        run.send(b"b")
        clock.advance(0.2)
        await run.until_told(1)
        assert run.told == [(b"a", Flushed.TIMEOUT)]
        files.gate.open()
        await run.until_told(2)
        assert run.told[1:] == [(b"b", Flushed.OK)]
        assert run.readable() == [b"a", b"b"]


async def test_a_failed_flush_acknowledges_nothing_now_and_later(clock: FakeClock) -> None:
    files = GatedFileSystem(clock)
    async with flushing(files, clock) as run:
        run.send(b"a")
        await files.gate.begun()
        run.send(b"b")
        files.gate.let(OSError(errno.EIO, "Input/output error"))
        await run.until_told(2)
        assert run.told == [(b"a", Flushed.FAILED), (b"b", Flushed.FAILED)]
        assert run.store.problem == "syncing the log failed: Input/output error"
        assert run.readable() == []
        run.flusher.wait(run.store.max_log_offset, lambda flushed: run.told.append((b"", flushed)))
        assert run.told[2:] == [(b"", Flushed.FAILED)]
        files.gate.open()


async def test_closing_finishes_the_running_flush_and_fails_the_rest_which_the_store_then_keeps(
    clock: FakeClock,
) -> None:
    files = GatedFileSystem(clock)
    async with flushing(files, clock) as run:
        run.send(b"a")
        await files.gate.begun()
        run.send(b"b")
        files.gate.let()
    assert run.told == [(b"a", Flushed.OK), (b"b", Flushed.FAILED)]
    store = open_store(files, clock, mapped_file_size_commit_log=65536)
    assert [found.body for found in contents(store)] == [b"a", b"b"]
    store.close()


async def test_asynchronous_flushes_wait_for_four_pages_or_ten_seconds(clock: FakeClock) -> None:
    files = GatedFileSystem(clock)
    async with flushing(
        files, clock, flush_disk_type=store_config().flush_disk_type, flush_interval_commit_log=1
    ) as run:
        files.gate.open()
        run.store.append(message("T", b"x" * 20_000))
        await until(lambda: run.is_flushed)
        flushed = run.store.flushed_log_offset
        run.store.append(message("T", b"little"))
        assert len(run.readable()) == 2, "nobody waits for a flush to read"
        await asyncio.sleep(0.02)  # many rounds of the timer
        assert run.store.flushed_log_offset == flushed
        clock.advance(10)
        await until(lambda: run.is_flushed)


async def test_queues_and_checkpoint_follow_by_themselves(clock: FakeClock) -> None:
    files = GatedFileSystem(clock)
    async with flushing(files, clock, flush_interval_consume_queue=1) as run:
        files.gate.open()
        run.send(b"a")
        await run.until_told(1)
        clock.advance(60)
        await until(lambda: run.store.checkpoint.logics_msg_timestamp > 0)
        assert files.size_of(Path("/store/consumequeue/T/0/00000000000000000000")) == 100


QUEUES = 200


def fill_queues(store: MessageStore, count: int) -> None:
    """So many messages for each of many queues."""
    for number in range(count * QUEUES):
        store.append(message("T", bytes(100), queue_id=number % QUEUES))


async def most_in_a_turn(left: Callable[[], int]) -> int:
    """How much of it at most goes in one turn of the loop, until nothing is left."""
    most, before = 0, left()
    while before:
        await asyncio.sleep(0)
        most, before = max(most, before - left()), left()
    return most


async def test_new_units_of_many_queues_are_written_some_in_a_turn_of_the_loop(clock: FakeClock) -> None:
    """A message for each queue of a topic once held everybody up for a second."""
    async with flushing(memory(clock), clock, flush_interval_consume_queue=1) as run:
        fill_queues(run.store, 1)
        await until(lambda: run.is_flushed and any(queue.is_behind for queue in run.store.queues.awake))
        assert await most_in_a_turn(lambda: sum(queue.is_behind for queue in run.store.queues.awake)) <= 32
        clock.advance(60)
        await until(lambda: run.store.checkpoint.logics_msg_timestamp > 0)


async def test_many_queues_forget_expired_messages_some_in_a_turn_of_the_loop(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.broker.storing.flusher._CLEAN_FIRST_S", 0.001)
    async with flushing(memory(clock), clock, clean_resource_interval=1, mapped_file_size_commit_log=4096) as run:
        fill_queues(run.store, 1)
        await until(lambda: run.is_flushed)
        clock.advance(73 * 3600)
        fill_queues(run.store, 1)
        await until(lambda: run.is_flushed)
        run.store.delete_expired()
        few = 40  # whose messages are in one file with later ones
        queues = run.store.queues
        most = await most_in_a_turn(lambda: max(QUEUES - few - sum(queue.min_offset > 0 for queue in queues.awake), 0))
        assert most <= 32


async def test_a_queue_that_cannot_be_synced_makes_the_store_read_only(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    async with flushing(disk, clock, flush_interval_consume_queue=1) as run:
        run.send(b"a")
        await run.until_told(1)
        await until(lambda: disk.exists(Path("/store/consumequeue/T/0/00000000000000000000")))
        disk.fail(at=1, calls=["sync"], lasting=True)
        clock.advance(60)
        await until(lambda: run.store.problem is not None)
        assert "syncing the queues failed: /store/" in (run.store.problem or "")
        assert run.readable() == [b"a"]
        disk.heal()


async def test_old_files_are_deleted_and_one_that_cannot_be_is_tried_again(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rocketline.broker.storing.flusher._CLEAN_FIRST_S", 0.001)
    disk = FaultyFileSystem(clock)
    folder = Path("/store/commitlog")
    async with flushing(disk, clock, mapped_file_size_commit_log=1024, clean_resource_interval=1) as run:
        fill(run.store, 20)
        await until(lambda: run.is_flushed)
        disk.fail(at=1, calls=["remove"])
        clock.advance(73 * 3600)
        run.store.delete_expired()
        await until(lambda: len(disk.list(folder)) == 1)
    assert "old files of the log cannot be deleted" in caplog.text


LOG = Path("/store/commitlog")


async def test_the_next_file_of_the_log_is_there_before_the_last_is_full(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    async with flushing(disk, clock) as run:
        while len(run.store.log.segments.starts) < 4:
            fill(run.store, 1, size=1000)
            await asyncio.sleep(0)  # it begins in the next turn
            await until(lambda: run.flusher._reserving is None)
            is_due = run.store.log.room() < 65536 // 4
            assert len(disk.list(LOG)) == len(run.store.log.segments.starts) + is_due
    assert len(disk.list(LOG)) == 4


async def test_closing_waits_for_space_that_is_being_made_and_leaves_no_unused_file(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, begun, may_end = FaultyFileSystem(clock), threading.Event(), threading.Event()

    def allocate(*_: object) -> bool:
        begun.set()
        return may_end.wait()

    monkeypatch.setattr(FaultyFile, "try_allocate", allocate)
    async with flushing(disk, clock) as run:
        fill(run.store, 52, size=900)
        await until(begun.is_set)
        assert len(disk.list(LOG)) == 2
        asyncio.get_running_loop().call_later(0.02, may_end.set)
    assert len(disk.list(LOG)) == 1
    assert not disk.exists(Path("/store/abort"))


async def test_space_that_cannot_be_made_ahead_does_no_harm(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyFileSystem(clock)
    async with flushing(disk, clock) as run:
        fill(run.store, 1)
        disk.fail(at=1, calls=["allocate"], error=errno.ENOSPC)
        fill(run.store, 52, size=900)
        await until(lambda: "no space could be reserved ahead" in caplog.text)
        fill(run.store, 80, size=900)
        await until(lambda: run.is_flushed)
        assert run.store.is_writable
        assert len(run.readable()) == 133
    assert caplog.text.count("no space could be reserved ahead") == 1


async def test_space_that_no_thread_can_make_does_not_break_an_append(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    async with flushing(FaultyFileSystem(clock), clock) as run:
        monkeypatch.setattr(run.flusher._slow_thread, "submit", refuse)
        fill(run.store, 400)
        await until(lambda: "no space could be reserved ahead" in caplog.text)
        fill(run.store, 400)
        monkeypatch.undo()
        await until(lambda: run.is_flushed)
        assert [one.queue_offset for one in contents(run.store)] == list(range(800))


async def test_space_that_the_disk_could_not_spare_is_made_when_it_can(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.broker.storing.flusher._CLEAN_FIRST_S", 0.001)
    disk = FaultyFileSystem(clock, capacity=1 << 20)
    disk.make_folder(Path("/store"))
    disk.write_file(Path("/store/ballast"), bytes(800_000))
    async with flushing(disk, clock, clean_resource_interval=1) as run:
        fill(run.store, 55, size=900)
        await asyncio.sleep(0.01)
        assert len(disk.list(LOG)) == 1
        disk.remove(Path("/store/ballast"))
        await until(lambda: len(disk.list(LOG)) == 2)


async def test_an_index_that_is_behind_is_rebuilt_while_messages_come(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = open_store(disk, clock, mapped_file_size_commit_log=1 << 20)
    fill(store, 1500)
    die(store)
    async with flushing(disk, clock, mapped_file_size_commit_log=1 << 20) as run:
        before = run.store.max_offset("T", 0)
        while run.store.index.is_behind:
            fill(run.store, 1)
            await asyncio.sleep(0)
        await until(lambda: run.is_flushed)
        assert run.store.max_offset("T", 0) > before == 1500
        for number in (0, 750, 1499, run.store.max_offset("T", 0) - 1):
            assert len(run.store.query("T", f"k{number}", 64, 0, 1 << 60)) == 1


async def test_a_damaged_queue_is_derived_anew_behind_the_running_broker(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for it is told to come back; nobody else notices."""
    monkeypatch.setattr("rocketline.store.message_store._QUEUES_AT_START", 0)
    monkeypatch.setattr("rocketline.store.queue_doctor._EFFORT_MAX", 1)
    files = FaultyFileSystem(clock)
    store = open_store(files, clock, mapped_file_size_commit_log=65536)
    fill(store, 12, topic="IDLE")
    fill(store, 3)
    store.close()
    files.remove(ROOT / "consumequeue" / "IDLE" / "0" / f"{200:020}")
    async with flushing(files, clock) as both:
        with pytest.raises(QueueNotReadyError):
            both.store.append(message("IDLE", b"x"))
        assert [found.queue_offset for found in contents(both.store)] == [0, 1, 2]
        assert both.store.queues.looks.is_broken
        await until(lambda: not both.store.queues.looks.is_broken)
        assert both.store.append(message("IDLE", b"x")).queue_offset == 12


async def test_the_log_is_compared_with_its_queues_behind_the_running_broker(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Apache's broker. What has lost something is derived anew, and that is written down."""
    monkeypatch.setattr("rocketline.store.message_store._STEPS_AT_START", 0)
    monkeypatch.setattr("rocketline.store.end_proof._EFFORT_MAX", 1)
    files = FaultyFileSystem(clock)
    store = open_store(files, clock, mapped_file_size_commit_log=65536)
    fill(store, 12, topic="IDLE")
    fill(store, 3)
    store.close()
    files.remove(ROOT / "consumequeue" / "IDLE" / "0" / f"{200:020}")
    files.remove(ROOT / "queue_ends.json")
    async with flushing(files, clock) as both:
        looks = both.store.queues.looks
        with pytest.raises(QueueNotReadyError):
            both.store.append(message("IDLE", b"x"))
        await until(lambda: looks.is_proven and not looks.is_broken)
        assert both.store.append(message("IDLE", b"x")).queue_offset == 12
    both.store.close()
    assert files.exists(ROOT / "queue_ends.json")


async def test_a_queue_that_could_not_be_read_is_looked_at_again(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FaultyFileSystem(clock)
    store = open_store(files, clock, mapped_file_size_commit_log=65536)
    fill(store, 3)
    store.close()
    real_open, is_bad = files.open, [True]

    def failing_open(path: Path, *, size: int | None = None) -> File:
        if is_bad and "consumequeue" in path.parts:
            raise OSError(errno.EIO, "input/output error", str(path))
        return real_open(path, size=size)

    monkeypatch.setattr(files, "open", failing_open)
    async with flushing(files, clock) as both:
        both.flusher._clean()
        assert list(both.store.queues.looks.failures) == [("T", 0)]
        is_bad.clear()
        both.flusher._clean()
        assert not both.store.queues.looks.failures
        assert both.store.max_offset("T", 0) == 3
