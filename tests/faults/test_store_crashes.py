"""Power goes, or a call fails, at any moment of a store's life: what was acknowledged is there afterwards.

Segments, queue files and index files are tiny, so that a few dozen messages roll all of them. The moments are the calls
that change something on disk; a crash keeps of the unsynced rest nothing, all, a stretch, or any mixture of sectors.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketline.errors import StoreError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.store.config import FlushDiskType, StoreConfig
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from support.stores.small import reserve_ahead

HOST = HostAddress(bytes([127, 0, 0, 1]), 10911)
STRIDE = 17
"""Every so many calls the power goes. The first differs by the way of surviving, so that other calls are met."""


class Life:
    """What happened to a store over several starts, and what it owes since."""

    def __init__(self, disk: FaultyFileSystem, flush: FlushDiskType, clock: FakeClock) -> None:
        self.disk, self._clock = disk, clock
        self._config = StoreConfig(
            store_path_root_dir=Path("store"),
            mapped_file_size_commit_log=4096,
            mapped_file_size_consume_queue=200,
            max_hash_slot_num=10,
            max_index_num=12,
            flush_disk_type=flush,
        )
        self.sent = 0
        self.owed: dict[int, StoredMessage] = {}
        """Messages that are durable, by their numbers."""

    def open(self) -> MessageStore:
        return MessageStore.open(lambda: self._config, self.disk, self._clock, HOST, 1 << 30)

    def send(self, store: MessageStore, count: int) -> None:
        """Append and flush messages, now and then queues and checkpoint. Raises `OSError`, `StoreError`."""
        waiting: dict[int, StoredMessage] = {}
        for number in range(self.sent, self.sent + count):
            self.sent += 1
            self._clock.advance(0.7)
            waiting[number] = store.append(message(number, self._clock.wall_ms()))
            if number % 5 < 3:
                reserve_ahead(store)
            if number % 3 == 0 and (job := store.begin_flush()) is not None:
                finish(job.run, lambda error, job=job: store.finish_flush(job, error))  # type: ignore[misc]
                self.owed.update(waiting)
                waiting.clear()
            if number % 4 == 0:
                store.write_behind()
                queues = store.begin_queue_flush(is_thorough=number % 8 == 0)
                finish(queues.run, lambda error, job=queues: store.finish_queue_flush(job, error))  # type: ignore[misc]

    def check(self, store: MessageStore) -> None:
        """All that is owed can be read by its place, through its queue, and by its key; and all else that queues have
        is in its place, or was named as damaged."""
        while store.catch_up(10):
            pass
        for number, owed in self.owed.items():
            found = store.message_at(owed.log_offset)
            assert found is not None, f"message {number} is gone"
            assert (found.body, found.queue_offset) == (owed.body, owed.queue_offset)
            [unit] = store.units(owed.topic, owed.queue_id, owed.queue_offset, 1)
            assert unit[0] == owed.log_offset
            assert len(store.query(owed.topic, f"id-{number}", 64, 0, 1 << 60)) == 1, f"message {number} has no key"
        for topic in ("T0", "T1"):
            for queue_id, queue in store.queues_of(topic).items():
                assert queue.min_offset == 0
                for offset, unit in enumerate(store.units(topic, queue_id, 0, queue.max_offset)):
                    if store.log.damage.at(unit[0]) is not None:  # a torn message, which nobody was promised
                        continue
                    found = store.message_at(LogOffset(unit[0]))
                    assert found is not None
                    assert (found.topic, found.queue_id, found.queue_offset) == (topic, queue_id, offset)

    def crash(self, survival: Survival, seed: int) -> None:
        self.disk = self.disk.crash(survival, seed=seed)

    def go_on(self) -> None:
        """The store opens, owes nothing it does not have, takes more, and closes; twice."""
        for _ in range(2):
            store = self.open()
            self.check(store)
            self.send(store, 7)
            self.check(store)
            store.close()


def message(number: int, born_ms: int) -> StoredMessage:
    properties = {"UNIQ_KEY": f"id-{number}", "KEYS": f"k{number % 5}", "TAGS": "A"}
    body = f"body-{number}".encode() * (number % 20 + 1)
    places = QueueOffset(0), LogOffset(0)
    return StoredMessage(f"T{number % 2}", body, properties, 0, number % 3, *places, 0, born_ms, HOST, 0, HOST)


def finish(run: Callable[[], None], tell: Callable[[OSError | None], None]) -> None:
    """Run a job as the broker does off the loop, and tell the store how it went."""
    try:
        run()
    except OSError as error:
        tell(error)
        raise
    tell(None)


def live(life: Life) -> bool:
    """Two starts with work; whether nothing failed."""
    try:
        for _ in range(2):
            store = life.open()
            life.send(store, 25)
            store.close()
            if store.problem is not None:
                return False
    except (OSError, StoreError):
        return False
    return True


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("survival", Survival)
def test_what_was_flushed_survives_a_power_cut_at_any_call(survival: Survival, flush: FlushDiskType) -> None:
    chance = random.Random(survival.value)
    is_over, at = False, survival.value
    while not is_over:
        clock = FakeClock()
        life = Life(FaultyFileSystem(clock, seed=at), flush, clock)
        life.disk.fail(at=at, lasting=True, torn=True)
        is_over = live(life)
        life.crash(survival, seed=at)
        # Recovery itself is cut short as well, before it may come to its end.
        life.disk.fail(at=chance.randint(1, 60), lasting=True, torn=True)
        live(life)
        life.crash(chance.choice(list(Survival)), seed=at + 1)
        life.go_on()
        at += STRIDE
    assert at > 300


@pytest.mark.parametrize("call", ["write", "sync", "allocate", "open", "sync_folder"])
def test_a_call_that_fails_once_costs_nothing_that_was_flushed(call: str) -> None:
    is_over, at = False, 1
    while not is_over:
        clock = FakeClock()
        life = Life(FaultyFileSystem(clock), FlushDiskType.SYNC_FLUSH, clock)
        life.disk.fail(at=at, calls=[call], torn=True)
        is_over = live(life)
        life.crash(Survival.SECTORS, seed=at)
        life.go_on()
        at += 5
    assert at > 3
