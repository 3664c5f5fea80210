"""The disk fails at any one call of a store's life, once or for ever: nothing that was acknowledged is lost, nothing
doubtful is acknowledged, and the store says why it takes no more.

The run rolls log, queues and index, makes space for the log ahead and on the spot, flushes and closes; it is repeated
with the fault at each of its calls.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

import pytest

from rocketline.errors import StoreError, StoreFullError
from rocketline.model.message import StoredMessage
from rocketline.store.config import FlushDiskType
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from stores import catch_up, contents, die, find_keys, flush, flush_queues, message, open_store, reserve_ahead

MESSAGES = 24
PLACES = [("T", 0), ("T", 1), ("U", 0)]


class Run:
    """One life of a store, and what its senders were told."""

    def __init__(self, flush_type: FlushDiskType) -> None:
        self.clock = FakeClock()
        self.disk = FaultyFileSystem(self.clock)
        self.flush_type = flush_type
        self.store: MessageStore | None = None
        self.waiting: list[StoredMessage] = []
        self.acknowledged: list[StoredMessage] = []
        """Under SYNC_FLUSH: durable. Else: written, and safe while the system runs."""
        self.refused: list[bytes] = []

    def open(self) -> MessageStore:
        return open_store(self.disk, self.clock, flush_disk_type=self.flush_type)

    def live(self) -> None:
        """Open, send, flush, close. Raises `OSError` only while opening."""
        self.store = store = self.open()
        for number in range(MESSAGES):
            self.clock.advance(0.7)
            self.send(store, number)
            if number < MESSAGES // 2:
                reserve_ahead(store)
            if number % 3 == 2:
                flush(store)
                self.hear(store)
            if number % 4 == 3:
                flush_queues(store, is_thorough=number % 8 == 7)
        store.close()

    def send(self, store: MessageStore, number: int) -> None:
        topic, queue_id = PLACES[number % 3]
        body = f"{number}".encode().ljust(90, b".")
        made = message(topic, body, queue_id=queue_id, UNIQ_KEY=f"id-{number}", KEYS="k", TAGS="A")
        try:
            stored = store.append(made)
        except StoreError as error:
            self.refused.append(body)
            self.check_refusal(store, error)
        else:
            (self.waiting if store.is_sync else self.acknowledged).append(stored)

    def check_refusal(self, store: MessageStore, error: StoreError) -> None:
        """For lack of space, now; or for good, and then the store says why."""
        assert store.is_writable == isinstance(error, StoreFullError)
        assert ("/store/commitlog" if store.problem is None else store.problem) in str(error)

    def hear(self, store: MessageStore) -> None:
        """Those who wait are told that their messages are durable, unless the store has failed."""
        if store.problem is None:
            self.acknowledged += self.waiting
        self.waiting.clear()

    def check(self, store: MessageStore) -> None:
        """What was acknowledged is there, what was refused is not, and queues, log and index agree."""
        catch_up(store)
        bodies = set()
        for place in PLACES:
            found = contents(store, *place)
            bodies |= {one.body for one in found}
            assert store.problem is None
            for one in found:
                assert find_keys(store, one.properties["UNIQ_KEY"], place[0]) == [one.log_offset]
        for sent in self.acknowledged:
            here = store.message_at(sent.log_offset)
            assert here is not None, f"{sent.body!r} was acknowledged and is gone"
            assert (here.body, here.queue_offset) == (sent.body, sent.queue_offset)
        if self.flush_type is FlushDiskType.SYNC_FLUSH:
            assert bodies.isdisjoint(self.refused)

    def go_on(self) -> None:
        """The disk is well again: the store opens, has what it owes, takes a message in each queue, and closes."""
        self.disk.heal()
        store = self.open()
        self.check(store)
        ends = [store.max_offset(*place) for place in PLACES]
        for (topic, queue_id), end in zip(PLACES, ends, strict=True):
            assert (
                store.append(message(topic, b"later", queue_id=queue_id, UNIQ_KEY=f"later-{queue_id}")).queue_offset
                == end
            )
        flush(store)
        store.close()
        assert store.problem is None
        store = self.open()
        self.check(store)
        assert [store.max_offset(*place) for place in PLACES] == [end + 1 for end in ends]
        store.close()


def runs(flush_type: FlushDiskType, *, lasting: bool, torn: bool, error: int = errno.EIO) -> Iterator[Run]:
    """The same run with a fault at its first call, its second, and so on to the first that has no such call."""
    at = 1
    while True:
        run = Run(flush_type)
        run.disk.fail(at=at, lasting=lasting, torn=torn, error=error)
        try:
            run.live()
        except (OSError, StoreError):
            assert run.store is None, "only opening may fail"
        if run.disk.call_count < at:
            return
        yield run
        at += 1


@pytest.mark.parametrize("flush_type", FlushDiskType)
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
def test_a_failing_call_costs_nothing_that_was_acknowledged(
    flush_type: FlushDiskType, torn: bool, lasting: bool
) -> None:
    count = refusing = 0
    for run in runs(flush_type, lasting=lasting, torn=torn):
        count += 1
        refusing += bool(run.refused)
        run.go_on()
    assert count > 100
    assert refusing > 20


@pytest.mark.parametrize("survival", Survival)
def test_power_lost_for_good_at_any_call_costs_nothing_that_was_acknowledged(survival: Survival) -> None:
    for seed, run in enumerate(runs(FlushDiskType.SYNC_FLUSH, lasting=True, torn=True)):
        run.disk = run.disk.crash(survival, seed=seed)
        run.go_on()


@pytest.mark.parametrize("flush_type", FlushDiskType)
def test_a_process_that_dies_at_any_call_loses_nothing_that_was_written(flush_type: FlushDiskType) -> None:
    """kill -9: the disk is well, the system has every byte, and under SYNC_FLUSH nobody has seen the rest yet."""
    for run in runs(flush_type, lasting=True, torn=True):
        if run.store is not None:
            die(run.store)
        run.go_on()


def test_a_full_disk_refuses_messages_until_there_is_space() -> None:
    """What is refused for lack of space was not written; with space again the store goes on by itself."""
    run = Run(FlushDiskType.SYNC_FLUSH)
    store = run.open()
    run.send(store, 0)
    run.disk.fail(at=1, calls=["open", "allocate"], error=errno.ENOSPC, lasting=True)
    for number in range(1, 20):
        run.send(store, number)
    assert run.refused
    assert store.is_writable
    refused = len(run.refused)
    run.disk.heal()
    for number in range(20, 24):
        run.send(store, number)
    flush(store)
    run.hear(store)
    assert len(run.refused) == refused
    run.check(store)
    store.close()
    run.go_on()


def test_cleaning_that_fails_at_any_call_leaves_no_gap() -> None:
    at, was_reached = 1, True
    while was_reached:
        run = Run(FlushDiskType.SYNC_FLUSH)
        store = run.open()
        for number in range(MESSAGES):
            run.send(store, number)
        flush(store)
        flush_queues(store)
        run.clock.advance(73 * 3600)
        store.delete_expired()
        run.disk.fail(at=at)
        for _ in range(3):
            with contextlib.suppress(OSError):
                store.unlink(store.clean())
        was_reached = run.disk.call_count >= at
        assert store.min_log_offset == store.log.segments.starts[-1], "only the file being written is left"
        assert sum(len(contents(store, *place)) for place in PLACES) == sum(
            sent.log_offset >= store.min_log_offset for sent in run.waiting
        )
        die(store)
        run.disk.heal()
        store = run.open()
        assert store.min_log_offset % 1024 == 0
        for place in PLACES:
            assert [one.queue_offset for one in contents(store, *place)] == list(
                range(store.min_offset(*place), store.max_offset(*place))
            )
        store.close()
        at += 1
    assert at > 10
