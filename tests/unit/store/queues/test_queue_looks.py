"""Waking queues and mending broken ones, with a doctor who says what the test wants."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from rocketline.errors import QueueNotReadyError
from rocketline.store.files.segments import OpenFiles
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.store.queues.queue_ends import KnownQueue
from rocketline.store.queues.queue_looks import QueueLooks
from rocketline.store.queues.queue_places import Queue, QueuePlaces
from rocketline.testing.fake_clock import FakeClock

EIO = OSError(errno.EIO, "input/output error")


class Told:
    """A doctor. Topics that are `ill` do not agree with the log, those that are `unreadable` cannot be opened."""

    def __init__(self) -> None:
        self.ill: set[str] = set()
        self.unreadable: set[str] = set()
        self.cures: list[list[str]] = []
        self.fails_after: int | None = None
        """So many steps of the next cure are taken."""

    def examine(self, queue: Queue, known: KnownQueue) -> str | None:
        if queue.topic in self.unreadable:
            raise EIO
        queue.load(is_clean=True)
        return "does not agree" if queue.topic in self.ill else None

    def settle(self, queue: ConsumeQueue) -> str | None:
        return None

    def reopen(self, queue: BatchConsumeQueue, offset: int, begin: int) -> str | None:
        return None

    def gap_before(self, queue: Queue, offset: int, begin: int) -> str | None:
        return None

    def expected(self, queue: Queue, known: KnownQueue) -> KnownQueue:
        return known

    def derive_anew(self, damaged: Mapping[Queue, str], known: Mapping[Queue, KnownQueue]) -> Iterator[None]:
        self.cures.append([queue.topic for queue in damaged])
        for number in range(3):
            if self.fails_after == number:
                self.fails_after = None
                raise EIO
            yield

    def check_units(self, queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        return units

    def problem_of_batches(self, queue: BatchConsumeQueue, units: Sequence[BatchUnit]) -> str | None:
        return None


class Scene:
    """Sleeping queues, one of each topic."""

    def __init__(self, clock: FakeClock, *topics: str) -> None:
        files = OpenFiles(MemoryFileSystem(clock, capacity=1 << 20))
        self.places, self.doctor = QueuePlaces(), Told()
        self.looks = QueueLooks(
            self.places, lambda topic, queue_id, _: ConsumeQueue(files, Path("/store") / topic, 80, topic, queue_id)
        )
        self.looks.doctor = self.doctor
        for topic in topics:
            self.places.sleeping[topic] = {0: KnownQueue(is_batched=False)}
        self.looks.unseen = self.places.unawake()

    def look(self) -> None:
        while self.looks.look_on(1):
            pass


def test_queue_that_agrees_is_awake_once_it_is_asked_for_and_sleeps_on_if_it_is_only_looked_at(
    clock: FakeClock,
) -> None:
    scene = Scene(clock, "A", "B")
    queue = scene.looks.wake("A", 0)
    assert scene.places.is_awake(queue)
    scene.look()
    assert list(scene.places.sleeping) == ["B"]


def test_broken_queues_are_given_to_nobody_before_all_of_them_are_derived_together(clock: FakeClock) -> None:
    scene = Scene(clock, "A", "B", "C")
    told: list[None] = []
    scene.looks.on_broken = lambda: told.append(None)
    scene.doctor.ill = {"A", "C"}
    for _ in range(2):
        with pytest.raises(QueueNotReadyError):
            scene.looks.wake("A", 0)
    assert len(told) == 2
    assert scene.places.is_unawake("A", 0)
    scene.look()
    assert [sorted(cure) for cure in scene.doctor.cures] == [["A", "C"]]
    assert not scene.looks.is_broken
    assert scene.looks.mend_count == 1
    assert {queue.topic for queue in scene.places.behind} == {"A", "C"}, "what was derived is to be written"


def test_without_anybody_to_tell_who_asks_waits_until_all_are_mended(clock: FakeClock) -> None:
    scene = Scene(clock, "A", "B", "C")
    scene.doctor.ill, scene.doctor.unreadable = {"A", "C"}, {"B"}
    assert scene.places.is_awake(scene.looks.wake("A", 0))
    assert [sorted(cure) for cure in scene.doctor.cures] == [["A", "C"]]
    assert scene.looks.failures == {("B", 0): EIO}
    assert scene.looks.failure_count == 1


def test_cure_that_fails_leaves_queues_as_broken_as_before_and_the_next_begins_anew(clock: FakeClock) -> None:
    scene = Scene(clock, "A")
    scene.doctor.ill = {"A"}
    scene.doctor.fails_after = 2
    with pytest.raises(OSError, match="input/output"):
        scene.looks.wake("A", 0)
    assert scene.looks.is_broken
    assert scene.places.is_awake(scene.looks.wake("A", 0))
    assert (len(scene.doctor.cures), scene.looks.mend_count) == (2, 2)


def test_failed_cure_behind_the_broker_waits_until_failures_are_tried_again(clock: FakeClock) -> None:
    scene = Scene(clock, "A")
    scene.doctor.ill = {"A"}
    scene.doctor.fails_after = 0
    scene.look()
    assert scene.looks.is_broken
    assert not scene.looks.look_on(1)
    scene.looks.retry_failures()
    scene.look()
    assert not scene.looks.is_broken


def test_queue_that_could_not_be_read_is_looked_at_when_failures_are_tried_again(clock: FakeClock) -> None:
    scene = Scene(clock, "A")
    scene.doctor.unreadable, scene.doctor.ill = {"A"}, {"A"}
    scene.look()
    scene.doctor.unreadable = set()
    scene.look()
    assert scene.doctor.cures == []
    scene.looks.retry_failures()
    scene.look()
    assert scene.doctor.cures == [["A"]]


def test_disk_that_reads_nothing_ends_the_looks(clock: FakeClock) -> None:
    scene = Scene(clock, *map(str, range(200)))
    scene.doctor.unreadable = set(map(str, range(200)))
    scene.look()
    assert len(scene.looks.failures) == 101
    assert len(scene.places.sleeping) == 200


def test_topic_that_is_deleted_while_it_is_mended_stays_gone(clock: FakeClock) -> None:
    scene = Scene(clock, "A", "B")
    scene.doctor.ill = {"A", "B"}
    scene.looks.look_on(2, 1)
    for table in scene.places.tables:
        table.pop("A", None)
    scene.look()
    assert list(scene.places.awake) == ["B"]
