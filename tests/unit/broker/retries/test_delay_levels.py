"""Delayed messages: never early, each once, and none lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from rocketline.broker.retries.delay_levels import DelayedDelivery
from rocketline.errors import StoreFullError
from rocketline.model.message import StoredMessage
from rocketline.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from rocketline.store.files.json_files import load_json
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.offsets import DelayOffsetTable
from rocketline.wire.message_codec import decode_records
from support.brokers.tables import ROOT, Tables, message, tables
from support.stepping_clock import SteppingClock
from support.stores.small import flush

PATH = ROOT / "config" / "delayOffset.json"


class Scene:
    """A store with a schedule, and messages as the put path parks them."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.clock = tables, tables.clock
        self.schedule = DelayedDelivery(
            tables.store, tables.files, PATH, tables.stats, tables.settings, tables.clock, tables.log
        )

    def park(self, level: int, body: bytes = b"x", *, topic: str = "T", queue_id: str = "1", **more: str) -> None:
        properties = {"DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": queue_id, "TAGS": "A", **more}
        parked = message(SCHEDULE_TOPIC, body, queue_id=level - 1, **properties)
        parked.flag, parked.reconsume_times = 3, 2
        self.tables.store.append(parked)

    def delivered(self, topic: str = "T", queue_id: int = 1) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while records := self.tables.store.read(topic, queue_id, len(found), 1000, None).records:
            found += decode_records(b"".join(records))
        return found

    def bodies(self) -> list[bytes]:
        return [found.body for found in self.delivered()]

    def after(self, seconds: float) -> float:
        self.clock.advance(seconds)
        return self.schedule.deliver()


@contextmanager
def started(clock: FakeClock, files: FileSystem | None = None, **settings: str) -> Iterator[Scene]:
    with tables(clock, files, **settings) as made:
        yield Scene(made)


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[Scene]:
    with started(clock) as made:
        yield made


def test_message_comes_when_it_is_due_and_not_before(scene: Scene) -> None:
    """S146."""
    scene.park(1)
    assert scene.after(0.999) == pytest.approx(0.001)
    assert not scene.delivered()
    scene.after(0.001)
    (found,) = scene.delivered()
    assert (found.body, found.queue_offset, found.store_ms) == (b"x", 0, scene.clock.wall_ms())
    scene.after(1)
    assert len(scene.delivered()) == 1


def test_delivered_message_keeps_all_that_was_said_of_it(scene: Scene) -> None:
    scene.park(1, own="value")
    scene.after(1)
    (found,) = scene.delivered()
    assert found.properties == {
        "DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "1", "TAGS": "A", "own": "value",
    }  # fmt: skip
    assert (found.flag, found.reconsume_times, found.born_ms) == (3, 2, 1_700_000_000_000)
    assert str(found.born_host) == "10.0.0.7:50000"


def test_levels_do_not_wait_for_each_other(scene: Scene) -> None:
    scene.park(2, b"five seconds")
    scene.park(1, b"one second")
    scene.after(1)
    assert scene.bodies() == [b"one second"]
    scene.after(4)
    assert scene.bodies() == [b"one second", b"five seconds"]


def test_many_due_messages_are_delivered_over_several_turns(scene: Scene) -> None:
    for number in range(1000):
        scene.park(1, b"%d" % number)
    assert scene.after(1) == 0
    assert 0 < len(scene.delivered()) < 200
    while scene.schedule.deliver() == 0:
        pass
    assert scene.bodies() == [b"%d" % number for number in range(1000)]


def test_large_messages_of_all_levels_are_delivered_some_in_a_turn(clock: FakeClock) -> None:
    """16 of 4 MB in each of 18 levels held everybody up for a second."""
    with started(clock, mappedFileSizeCommitLog=str(2**25)) as scene:
        for level in range(1, 19):
            for _ in range(4):
                scene.park(level, bytes(100_000))
        turns, before, waits = 0, scene.tables.store.max_log_offset, [scene.after(10_000)]
        while (end := scene.tables.store.max_log_offset) != before:
            assert end - before <= 256 * 1024 + 101_000
            turns, before = turns + 1, end
            waits.append(scene.schedule.deliver())
        assert (turns, set(waits[:-1]), len(scene.delivered())) == (24, {0.0}, 72)


def test_nothing_to_do_means_a_look_every_tenth_of_a_second(scene: Scene) -> None:
    assert scene.schedule.deliver() == pytest.approx(0.1)
    scene.park(18)
    assert scene.schedule.deliver() == pytest.approx(0.1)


def test_clock_set_back_does_not_delay_a_message_twice(clock: FakeClock) -> None:
    """The time it is due lies further ahead than a whole delay: it is delivered now."""
    with started(clock) as scene:
        scene.park(3)
        clock.advance(-1)
        scene.schedule.deliver()
        assert scene.bodies() == [b"x"]


def test_clock_set_back_leaves_delays_as_long_as_they_are() -> None:
    """Both for what waits already and for what comes afterwards: retries must not run into the dead letters."""
    clock = SteppingClock()
    with started(clock) as scene:
        scene.park(3, b"before")
        clock.advance(1)
        clock.step(-8 * 3600)
        scene.park(3, b"after")
        scene.after(8.5)
        assert scene.bodies() == []
        scene.after(0.5)
        assert scene.bodies() == [b"before"]
        scene.after(1)
        assert scene.bodies() == [b"before", b"after"]


def test_clock_set_back_between_two_starts_leaves_delays_as_long_as_they_are() -> None:
    clock = SteppingClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    with started(clock, files) as scene:
        scene.park(1, b"before")
    clock.step(-8 * 3600)
    with started(clock, files) as scene:
        scene.park(1, b"after")
        scene.after(0.5)
        assert scene.bodies() == []
        scene.after(0.5)
        assert scene.bodies() == [b"before", b"after"]


def test_message_of_a_level_that_is_shorter_since_the_start_does_not_wait_longer(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    with started(clock, files, messageDelayLevel="1h") as scene:
        scene.park(1)
    with started(clock, files, messageDelayLevel="1m") as scene:
        scene.schedule.deliver()
        assert scene.bodies() == [b"x"]


def test_store_that_takes_nothing_gets_the_message_later(scene: Scene) -> None:
    scene.park(1)
    with patch.object(scene.tables.store, "append", side_effect=StoreFullError("full")):
        assert scene.after(1) == pytest.approx(0.1)
    assert not scene.delivered()
    assert scene.schedule.table.offset_table == {1: 0}
    scene.schedule.deliver()
    assert scene.bodies() == [b"x"]


def test_failure_in_the_middle_brings_nothing_twice(scene: Scene) -> None:
    scene.park(1, b"first")
    scene.park(1, b"second")
    found = scene.tables.store.message_at
    scene.clock.advance(1)
    with (
        patch.object(scene.tables.store, "message_at", side_effect=[found(0), OSError("the disk is gone")]),
        pytest.raises(OSError, match="gone"),
    ):
        scene.schedule.deliver()
    scene.schedule.deliver()
    assert scene.bodies() == [b"first", b"second"]


@pytest.mark.parametrize(
    "bad", [{"topic": ""}, {"queue_id": ""}, {"queue_id": "x"}, {"queue_id": "9" * 12}, {"queue_id": "9" * 5000}]
)
def test_message_without_a_place_to_go_to_is_left_behind(scene: Scene, bad: dict[str, str]) -> None:
    scene.park(1, **bad)  # type: ignore[arg-type]
    scene.park(1, b"good")
    scene.after(1)
    assert scene.bodies() == [b"good"]


def test_half_message_is_never_delivered(scene: Scene) -> None:
    scene.park(1, topic=HALF_TOPIC, queue_id="0")
    scene.after(1)
    assert not scene.delivered(HALF_TOPIC, 0)
    assert scene.schedule.table.offset_table == {1: 1}


def test_place_without_a_message_is_passed_by(scene: Scene) -> None:
    """A queue has units for what its log lacks; they lead to the log's beginning, where any message may be: one that
    was delayed before came once more."""
    scene.tables.append(b"plain", REAL_TOPIC="T", REAL_QID="1")
    scene.park(1, b"before")
    queue = scene.tables.store.queues.make(SCHEDULE_TOPIC, 0)
    assert isinstance(queue, ConsumeQueue)
    queue.end_at(3, None)
    scene.park(1, b"behind")
    scene.after(1)
    assert scene.bodies() == [b"before", b"behind"]


def test_progress_tells_next_and_end_of_the_levels_in_use(scene: Scene) -> None:
    scene.park(1)
    scene.park(1)
    scene.park(5)
    scene.schedule.deliver()
    assert scene.schedule.progress() == {1: (0, 2), 5: (0, 1)}
    scene.after(1)
    assert scene.schedule.progress() == {1: (2, 2), 5: (0, 1)}


def test_delivery_goes_on_after_a_restart(clock: FakeClock) -> None:
    """S155."""
    files = MemoryFileSystem(clock, capacity=2**30)
    with started(clock, files) as scene:
        scene.park(1, b"first")
        scene.park(3, b"second")
        scene.after(1)
        flush(scene.tables.store)
        scene.schedule.save()
    clock.advance(100)
    with started(clock, files) as scene:
        scene.schedule.deliver()
        assert scene.bodies() == [b"first", b"second"]


def test_offset_beyond_the_queue_is_brought_back_to_its_end(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    files.make_folder(PATH.parent)
    files.write_file(PATH, b'{"offsetTable":{1:99}}')
    with started(clock, files) as scene:
        scene.park(1, b"there when it starts")
        scene.schedule.deliver()
        assert scene.schedule.table.offset_table == {1: 1}
        scene.park(1, b"new")
        scene.after(1)
        assert scene.bodies() == [b"new"]


def test_saved_offset_waits_for_the_log_to_reach_the_disk(scene: Scene) -> None:
    """What was delivered and not flushed is gone after a power failure: the file must not say that it was delivered."""
    files, store = scene.tables.files, scene.tables.store
    scene.park(1)
    scene.after(1)
    scene.schedule.save()
    scene.schedule.save()
    assert load_json(files, PATH, DelayOffsetTable) is None
    job = store.begin_flush()
    assert job is not None
    job.run()
    scene.park(1)
    scene.after(1)  # this one is not in the flush that runs
    store.finish_flush(job)
    scene.schedule.save()
    saved = load_json(files, PATH, DelayOffsetTable)
    assert saved is not None
    assert saved.offset_table == {1: 1}


def test_offset_is_saved_at_once_when_all_is_on_disk(scene: Scene) -> None:
    store = scene.tables.store
    scene.park(1)
    scene.after(1)
    flush(store)
    scene.schedule.save()
    saved = load_json(scene.tables.files, PATH, DelayOffsetTable)
    assert saved is not None
    assert saved.offset_table == {1: 1}


def test_version_of_the_table_grows_with_every_so_many_deliveries(clock: FakeClock) -> None:
    with started(clock, delayOffsetUpdateVersionStep="10") as scene:
        for _ in range(25):
            scene.park(1)
        scene.after(1)
        version = scene.schedule.table.data_version
        assert version is not None
        assert version.counter >= 1


def test_deliveries_are_counted_like_those_of_a_consumer(scene: Scene) -> None:
    scene.park(1)
    scene.after(1)
    stats = scene.tables.stats
    assert stats.data("TOPIC_PUT_NUMS", "T") is not None
    assert stats.data("GROUP_GET_NUMS", f"{SCHEDULE_TOPIC}@SCHEDULE_CONSUMER") is not None
