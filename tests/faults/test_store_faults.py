"""The disk fails at any one call of a store's life, once or for ever: nothing that was acknowledged is lost, nothing
doubtful is acknowledged, and the store says why it takes no more.

The run rolls log, queues and index, makes space for the log ahead and on the spot, flushes and closes; it is repeated
with the fault at each of its calls.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence

import pytest

from rocketline.errors import StoreError, StoreFullError
from rocketline.model.message import StoredMessage
from rocketline.store.config import FlushDiskType
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import SPACE_CALLS, FaultyFileSystem, Survival
from support.stores.small import (
    ROOT,
    catch_up,
    contents,
    die,
    find_keys,
    flush,
    flush_queues,
    message,
    open_store,
    reserve_ahead,
)

MESSAGES = 24
MORE = range(MESSAGES, MESSAGES + 12)
THOROUGH = [pytest.mark.interop, pytest.mark.thorough]
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
        self.work(store)
        store.close()

    def work(self, store: MessageStore, numbers: Sequence[int] = range(MESSAGES)) -> None:
        """Send messages with these numbers, and flush."""
        for number in numbers:
            self.clock.advance(0.7)
            self.send(store, number)
            if number < MESSAGES // 2:
                reserve_ahead(store)
            if number % 3 == 2:
                flush(store)
                self.hear(store)
            if number % 4 == 3:
                flush_queues(store, is_thorough=number % 8 == 7)

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
        assert (store.problem is None) == isinstance(error, StoreFullError)
        assert ("/store/" if store.problem is None else store.problem) in str(error)

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

    def check_readable(self, store: MessageStore) -> None:
        """What was acknowledged is found in its queue and by its offset in the log."""
        found = {one.log_offset for place in PLACES for one in contents(store, *place)}
        assert found >= {sent.log_offset for sent in self.acknowledged}
        find_keys(store, "k")

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


def catch_up_as_possible(store: MessageStore) -> None:
    """As the broker does: a step that finds no room is tried again later."""
    while store.catch_up(3) and store.shortage is None:
        pass


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


@pytest.mark.parametrize(
    "flush_type", [FlushDiskType.SYNC_FLUSH, pytest.param(FlushDiskType.ASYNC_FLUSH, marks=THOROUGH)]
)
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


@pytest.mark.parametrize(
    "survival",
    [
        Survival.NOTHING,
        Survival.SECTORS,
        pytest.param(Survival.STRETCH, marks=THOROUGH),
        pytest.param(Survival.EVERYTHING, marks=THOROUGH),
    ],
)
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


@pytest.mark.parametrize(
    ("flush_type", "error"), [(FlushDiskType.SYNC_FLUSH, errno.ENOSPC), (FlushDiskType.ASYNC_FLUSH, errno.EDQUOT)]
)
def test_a_disk_that_is_full_from_any_call_on_refuses_messages_until_there_is_room(
    flush_type: FlushDiskType, error: int
) -> None:
    """Nothing that was acknowledged is lost, all of it can be read meanwhile, and the store goes on by itself."""
    at, refusing = 1, 0
    while True:
        run = Run(flush_type)
        store = run.open()
        run.disk.fail(at=at, calls=SPACE_CALLS | {"write"}, error=error, lasting=True, torn=True)
        run.work(store)
        if run.disk.call_count < at:
            break
        assert store.problem is None
        refusing += bool(run.refused)
        run.check_readable(store)
        run.disk.heal()
        flush_queues(store)
        refused = len(run.refused)
        run.work(store, MORE)
        flush(store)
        run.hear(store)
        assert len(run.refused) == refused, "there is room again"
        run.check(store)
        store.close()
        assert not run.disk.exists(ROOT / "abort"), "a clean end"
        store = run.open()
        run.check(store)
        store.close()
        at += 1
    assert at > 50
    assert refusing > 20


def test_a_store_that_ends_on_a_full_disk_has_everything_at_its_next_start() -> None:
    at = 1
    while True:
        run = Run(FlushDiskType.SYNC_FLUSH)
        store = run.open()
        run.disk.fail(at=at, calls=SPACE_CALLS | {"write"}, error=errno.ENOSPC, lasting=True)
        run.work(store)
        flush(store)
        run.hear(store)
        store.close()
        if run.disk.call_count < at:
            break
        assert store.problem is None
        run.go_on()
        at += 1
    assert at > 50


@pytest.mark.parametrize("flush_type", FlushDiskType)
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_store_that_starts_on_a_full_disk_can_be_read_and_goes_on_when_there_is_room(
    flush_type: FlushDiskType, is_clean: bool
) -> None:
    """Full from the start's first call on, its second, and so on. What a kill left unwritten waits in memory."""
    at = 1
    while True:
        run = Run(flush_type)
        store = run.open()
        run.work(store)
        flush(store)
        run.hear(store)
        store.close() if is_clean else die(store)
        calls = SPACE_CALLS - {"create"} if is_clean else SPACE_CALLS  # the abort file, empty, finds its place
        run.disk.fail(at=at, calls=calls, error=errno.ENOSPC, lasting=True)
        store = run.open()
        run.check_readable(store)
        catch_up_as_possible(store)
        is_full = run.disk.call_count >= at
        run.disk.heal()
        flush_queues(store)
        run.work(store, MORE)
        flush(store)
        run.hear(store)
        assert not run.refused
        run.check(store)
        store.close()
        assert store.problem is None
        assert not run.disk.exists(ROOT / "abort"), "a clean end"
        run.go_on()
        if not is_full:
            break
        at += 1
    assert at > 1


def test_a_new_store_on_a_full_disk_says_where_there_is_no_room() -> None:
    for calls in ("make_folder", "create"):
        run = Run(FlushDiskType.ASYNC_FLUSH)
        run.disk.fail(at=1, calls=[calls], error=errno.ENOSPC, lasting=True)
        with pytest.raises(OSError, match="No space left on device: '/store"):
            run.open()


def test_a_store_whose_abort_file_finds_no_place_says_so() -> None:
    """Nothing may be changed before it is there."""
    run = Run(FlushDiskType.ASYNC_FLUSH)
    run.live()
    run.disk.fail(at=1, calls=["create"], error=errno.ENOSPC, lasting=True)
    with pytest.raises(OSError, match="No space left on device: '/store/abort'"):
        run.open()
    run.go_on()


def test_a_sync_that_fails_for_lack_of_room_makes_the_store_read_only() -> None:
    """The bytes were taken and then lost: room that is there later does not bring them back."""
    for calls in (["sync"], ["sync_folder"]):
        run = Run(FlushDiskType.SYNC_FLUSH)
        store = run.open()
        run.send(store, 0)
        run.disk.fail(at=1, calls=calls, error=errno.ENOSPC, lasting=True)
        run.work(store, range(1, MESSAGES))
        assert store.problem is not None
        assert "No space left on device" in store.problem
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
