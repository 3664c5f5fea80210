"""Timer messages: never early, at most a step late, each once, and none lost, whatever becomes of the files."""

from __future__ import annotations

import errno
import itertools
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from rocketline.broker.storing.timer_properties import slot_before
from rocketline.errors import CorruptStoreError, QueueNotReadyError
from rocketline.model.ids import LogOffset
from rocketline.model.message import StoredMessage
from rocketline.model.names import HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.store.timers.checkpoint import UNUSABLE, TimerCheckpoint, lock_ms_of
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import SPACE_CALLS, FaultyFileSystem, Survival
from rocketline.wire.properties import encode_properties
from support.brokers.tables import ROOT, message
from support.brokers.timers import TimerScene
from support.stepping_clock import SteppingClock
from support.stores.damage import walk
from support.stores.small import flush

WHEEL, LOG, CHECK = ROOT / "timerwheel", ROOT / "timerlog", ROOT / "config" / "timercheck"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return MemoryFileSystem(clock, capacity=2**30)


@pytest.fixture
def scene(clock: FakeClock, files: MemoryFileSystem) -> Iterator[TimerScene]:
    made = TimerScene(clock, files)
    yield made
    made.close()


def test_each_comes_within_a_step_after_its_moment(scene: TimerScene) -> None:
    """S149."""
    now_ms = scene.clock.wall_ms()
    due = {f"{ms}": now_ms + ms for ms in (1, 999, 1000, 1001, 1500, 2000, 59_999, 60_000, 500_000)}
    for key, deliver_ms in due.items():
        scene.send(key, deliver_ms)
    scene.pass_time(510, step_s=0.1)
    assert scene.keys() == list(due)
    for found in scene.delivered():
        assert 0 <= found.store_ms - due[found.properties["UNIQ_KEY"]] <= 1000
    assert scene.waiting() == 0
    assert scene.work() is None


def test_large_messages_are_parked_and_delivered_some_in_a_turn(scene: TimerScene) -> None:
    due_ms = scene.clock.wall_ms() + 5000
    for number in range(40):
        scene.send(f"{number}", due_ms, body=bytes(60_000))
    waiting = [0]
    while scene.service.step() == 0:
        waiting.append(scene.waiting())
    assert {after - before for before, after in itertools.pairwise(waiting)} == {5}
    scene.clock.advance(7)
    ends = [scene.store.max_log_offset]
    while scene.service.step() == 0:
        ends.append(scene.store.max_log_offset)
    assert max(after - before for before, after in itertools.pairwise(ends)) < 6 * 60_000
    assert len(scene.delivered()) == 40


def test_large_markers_are_read_some_in_a_turn(scene: TimerScene, monkeypatch: pytest.MonkeyPatch) -> None:
    due_ms = scene.clock.wall_ms() + 5000
    scene.send("k", due_ms)
    for _ in range(40):
        scene.send("", due_ms, recalls="k", body=bytes(60_000))
    scene.work()
    scene.clock.advance(7)
    read: list[int] = []
    message_at = scene.store.message_at

    def noted(place: int) -> StoredMessage | None:
        read.append(place)
        return message_at(LogOffset(place))

    monkeypatch.setattr(scene.store, "message_at", noted)
    most = 0
    while scene.service.step() == 0:
        most, read[:] = max(most, len(read)), []
    assert 0 < most <= 6
    assert scene.delivered() == []


def test_message_beyond_the_wheel_is_rolled_until_its_time(scene: TimerScene) -> None:
    """With a wheel of ten minutes, messages for the next hour; one is called back after it was rolled."""
    now_ms = scene.clock.wall_ms()
    for minutes in (9, 11, 17, 30, 60):
        scene.send(f"{minutes}", now_ms + minutes * 60_000)
    scene.send("recalled", now_ms + 40 * 60_000)
    scene.pass_time(1200, step_s=10)
    assert scene.keys() == ["9", "11", "17"]
    scene.send("marker", now_ms + 40 * 60_000, recalls="recalled")
    scene.pass_time(2500, step_s=10)
    assert scene.keys() == ["9", "11", "17", "30", "60"]
    for found in scene.delivered():
        late_ms = found.store_ms - now_ms - int(found.properties["UNIQ_KEY"]) * 60_000
        assert 0 <= late_ms <= 11_000
    assert int(scene.delivered()[-1].properties["TIMER_ROLL_TIMES"]) >= 5
    assert scene.waiting() == 0


def test_time_that_jumps_ahead_brings_all_and_no_recalled_one(scene: TimerScene) -> None:
    """As when a test turns a clock by days, or the broker was down."""
    now_ms = scene.clock.wall_ms()
    scene.send("a", now_ms + 3_000_000)
    scene.send("b", now_ms + 3_000_000)
    scene.send("marker", now_ms + 3_000_000, recalls="a")
    scene.send("c", now_ms + 30_000)
    scene.work()
    scene.clock.advance(86_400 * 13)
    scene.work()
    assert sorted(scene.keys()) == ["b", "c"]
    assert scene.waiting() == 0


def test_messages_of_one_slot_come_in_the_order_in_which_they_were_sent(scene: TimerScene) -> None:
    deliver_ms = scene.clock.wall_ms() + 5000
    for number in range(500):
        scene.send(f"{number}", deliver_ms)
    scene.pass_time(6)
    assert scene.keys() == [f"{number}" for number in range(500)]


def test_stop_and_start_in_between_change_nothing(clock: FakeClock, files: MemoryFileSystem) -> None:
    """S155."""
    scene, now_ms = TimerScene(clock, files), clock.wall_ms()
    for minutes in range(1, 40):
        scene.send(f"{minutes}", now_ms + minutes * 60_000)
    for _ in range(20):
        scene.pass_time(130, step_s=10)
        scene.close()
        scene = scene.again()
    assert scene.keys() == [f"{minutes}" for minutes in range(1, 40)]
    assert scene.waiting() == 0
    scene.close()


def test_kill_brings_what_was_not_saved_again_and_nothing_is_lost(clock: FakeClock, files: MemoryFileSystem) -> None:
    scene, now_ms = TimerScene(clock, files), clock.wall_ms()
    for number in range(1, 30):
        scene.send(f"{number}", now_ms + number * 1000)
        if number == 15:
            scene.work()
            scene.save()
    scene.work()
    scene.pass_time(5)
    flush(scene.store)
    scene.die()
    again = scene.again()
    again.pass_time(40)
    keys = again.keys()
    assert set(keys) == {f"{number}" for number in range(1, 30)}
    assert set(keys[:5]) == set(keys[5:10])  # delivered before the kill, and not saved
    assert again.waiting() == 0
    again.close()


def cut_wheel(files: MemoryFileSystem) -> None:
    files.write_file(WHEEL, bytes(100))


def lose_wheel(files: MemoryFileSystem) -> None:
    files.remove(WHEEL)


def garble_wheel(files: MemoryFileSystem) -> None:
    files.open(WHEEL).write_at(0, b"\7" * files.size_of(WHEEL))


def mislead_wheel(files: MemoryFileSystem) -> None:
    """Slots lead to places where nothing of theirs is."""
    file = files.open(WHEEL)
    for at in range(0, file.size, 32):
        if any(file.read_at(at, 8)):
            file.write_at(at + 16, (52 * 3).to_bytes(8, "big"))


def lose_log(files: MemoryFileSystem) -> None:
    files.remove_tree(LOG)


def cut_log(files: MemoryFileSystem) -> None:
    files.write_file(LOG / "00000000000000000000", bytes(100))


def clear_log(files: MemoryFileSystem) -> None:
    files.open(LOG / "00000000000000000000").write_at(0, bytes(520))


def garble_log(files: MemoryFileSystem) -> None:
    files.open(LOG / "00000000000000000000").write_at(104, b"\7" * 52)


def lose_both(files: MemoryFileSystem) -> None:
    lose_log(files)
    lose_wheel(files)


DAMAGES = [cut_wheel, lose_wheel, garble_wheel, mislead_wheel, lose_log, cut_log, clear_log, garble_log, lose_both]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_files_are_derived_anew(clock: FakeClock, files: MemoryFileSystem, damage: object) -> None:
    """Where Apache's broker does not start, or loses messages; what was delivered does not come again."""
    scene, now_ms = TimerScene(clock, files), clock.wall_ms()
    for number in range(1, 200):
        scene.send(f"{number}", now_ms + number * 1000)
    scene.send("marker", now_ms + 150_000, recalls="150")
    scene.pass_time(50)
    scene.close()
    assert callable(damage)
    damage(files)
    again = scene.again()
    again.pass_time(60)
    again.close()
    last = again.again()
    last.pass_time(120)
    assert last.keys() == [f"{number}" for number in range(1, 200) if number != 150]
    assert last.waiting() == 0
    last.close()


def test_lost_checkpoint_may_bring_messages_again_and_loses_none(clock: FakeClock, files: MemoryFileSystem) -> None:
    scene, now_ms = TimerScene(clock, files), clock.wall_ms()
    for number in range(1, 20):
        scene.send(f"{number}", now_ms + number * 1000)
    scene.pass_time(5)
    scene.close()
    files.write_file(CHECK, b"\1\2\3")
    again = scene.again()
    again.pass_time(20)
    assert set(again.keys()) == {f"{number}" for number in range(1, 20)}
    again.close()


def test_log_that_lost_its_end_parks_what_gets_the_offsets_again(clock: FakeClock) -> None:
    """After a kill the last file of the log may be gone: the checkpoint of timers knew of messages that it had. New
    ones got their queue offsets, counted as parked, and were never delivered."""
    files = MemoryFileSystem(clock, capacity=2**30)
    scene = TimerScene(clock, files)
    for number in range(20):
        scene.send(f"lost{number}", clock.wall_ms() + 30_000)
    scene.work()
    scene.save()
    scene.die()
    for path in walk(files, ROOT):
        if path.parent.name == "commitlog" or "queue" in str(path) or path.name == "checkpoint":
            files.remove(path)
    again = TimerScene(clock, files)
    again.send("new", clock.wall_ms() + 5_000)
    again.pass_time(60)
    assert again.keys() == ["new"]
    assert again.waiting() == 0
    again.close()


def test_broker_that_was_down_for_months_delivers_what_is_sent_now(clock: FakeClock, files: MemoryFileSystem) -> None:
    """What was derived anew began where the checkpoint had ended, and rolled on from there, half a wheel at a time."""
    scene = TimerScene(clock, files)
    scene.send("old", clock.wall_ms() + 1000)
    scene.work()
    scene.close()
    files.remove(WHEEL)
    files.remove_tree(LOG)
    clock.advance(86_400 * 90)
    again = scene.again()
    again.send("new", clock.wall_ms() + 5000)
    again.pass_time(8)
    assert again.keys() == ["old", "new"]
    assert again.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 2
    again.close()


def test_damaged_body_is_not_delivered_with_a_check_sum_that_is_right(clock: FakeClock) -> None:
    """It was stored anew as it was found, and nobody could see any more that a bit had changed."""
    files = MemoryFileSystem(clock, capacity=2**30)
    scene = TimerScene(clock, files)
    stored = scene.send("hurt", clock.wall_ms() + 5000, body=b"abcdefgh" * 10)
    scene.send("whole", clock.wall_ms() + 5000)
    scene.work()
    scene.close()
    log = files.open(ROOT / "commitlog" / f"{0:020}")
    at = log.read_at(0, log.size).index(b"abcdefgh", stored.log_offset)
    log.write_at(at, b"A")
    again = scene.again()
    again.pass_time(10)
    assert again.keys() == ["whole"]
    again.close()


@pytest.mark.parametrize("is_parked", [False, True], ids=["parking", "saving"])
def test_timers_without_room_go_on_by_themselves(clock: FakeClock, is_parked: bool) -> None:
    """Whatever they were about to write: nothing is lost, nothing comes early, and nobody needs to start again."""
    disk = FaultyFileSystem(clock)
    scene, now_ms = TimerScene(clock, disk), clock.wall_ms()
    due = {f"{number}": now_ms + 1000 + number * 100 for number in range(300)}
    for key, deliver_ms in due.items():
        scene.send(key, deliver_ms)
    flush(scene.store)
    if is_parked:
        scene.work()
    disk.fail(at=1, calls=SPACE_CALLS | {"write"}, error=errno.ENOSPC, lasting=True, torn=True)
    scene.pass_time(20)
    scene.save()
    scene.save()
    disk.heal()
    scene.store.write_behind()
    scene.pass_time(40)
    scene.save()
    assert not scene.service.is_unsaved
    assert scene.keys() == list(due)
    again = TimerScene(clock, disk.crash(Survival.EVERYTHING, seed=1))
    again.pass_time(20)
    assert again.keys() == list(due)
    assert again.waiting() == 0
    again.close()


@pytest.mark.parametrize("which", ["", ".bak"])
def test_counts_that_cannot_be_read_stop_no_start(clock: FakeClock, files: MemoryFileSystem, which: str) -> None:
    """They are figures for administrators, which the topic tells again."""
    scene = TimerScene(clock, files)
    for number in range(10):
        scene.send(f"{number}", clock.wall_ms() + 5000 + number)
        scene.work()
        scene.save()
    scene.close()
    path = ROOT / "config" / "timermetrics"
    files.write_file(path, b"{")
    files.write_file(path.with_name("timermetrics.bak"), b"{" if which else files.read_file(path) or b"")
    again = scene.again()
    again.work()
    assert again.waiting() == 10
    again.pass_time(10)
    assert len(again.keys()) == 10
    again.close()


def test_other_precision_is_refused_though_the_last_unit_is_over(clock: FakeClock, files: MemoryFileSystem) -> None:
    """Only the last unit of the timer log told, and if its slot was over, the whole wheel was taken for empty."""
    scene = TimerScene(clock, files)
    scene.send("later", clock.wall_ms() + 60_000)
    scene.send("soon", clock.wall_ms() + 1000)
    scene.pass_time(5)
    scene.close()
    with pytest.raises(CorruptStoreError, match="timerPrecisionMs=1000"):
        TimerScene(clock, files, timerPrecisionMs="100")


def test_lost_files_leave_no_count_behind(clock: FakeClock, files: MemoryFileSystem) -> None:
    """Somebody copied the log and the tables, and not what they took for a cache."""
    scene = TimerScene(clock, files)
    for number in range(1, 20):
        scene.send(f"{number}", clock.wall_ms() + number * 1000)
    scene.work()
    scene.close()
    lose_both(files)
    files.remove(CHECK)
    again = scene.again()
    again.work()
    assert again.waiting() == 19
    again.pass_time(20)
    assert again.keys() == [f"{number}" for number in range(1, 20)]
    assert again.waiting() == 0
    again.close()


def test_other_precision_is_refused_while_messages_wait(clock: FakeClock, files: MemoryFileSystem) -> None:
    scene = TimerScene(clock, files)
    scene.send("later", clock.wall_ms() + 60_000)
    scene.work()
    scene.close()
    for precision in ("100", "5000"):
        with pytest.raises(CorruptStoreError, match="timerPrecisionMs=1000"):
            TimerScene(clock, files, timerPrecisionMs=precision)


def test_message_without_a_time_stops_nobody(scene: TimerScene) -> None:
    """Apache's broker never gets over it."""
    scene.store.append(message(WHEEL_TIMER_TOPIC, REAL_TOPIC="T", REAL_QID="0"))
    scene.store.append(message(WHEEL_TIMER_TOPIC, TIMER_OUT_MS="soon", REAL_TOPIC="T", REAL_QID="0"))
    scene.send("good", scene.clock.wall_ms() + 1000)
    scene.store.append(message(WHEEL_TIMER_TOPIC, TIMER_OUT_MS=str(scene.clock.wall_ms())))  # and no topic
    scene.pass_time(5)
    assert scene.keys() == ["good"]


@pytest.mark.parametrize("topic", [WHEEL_TIMER_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC])
def test_message_for_a_topic_where_messages_wait_comes_to_an_end(scene: TimerScene, topic: str) -> None:
    """Apache's broker takes such ones. The first was delivered, and due, again and again until the disk was full."""
    slot = str(scene.clock.wall_ms() // 1000 * 1000)
    scene.store.append(message(WHEEL_TIMER_TOPIC, TIMER_OUT_MS=slot, REAL_TOPIC=topic, REAL_QID="0", DELAY="x"))
    scene.clock.advance(2)
    for _ in range(20):
        scene.service.step()
    assert scene.work() is None
    assert scene.store.max_offset(topic, 0) == (topic == WHEEL_TIMER_TOPIC)


@pytest.mark.parametrize(
    "topic", ["../../outside", "a/b", "..", "a\0b", "x" * 256], ids=["outside", "folders", "above", "zero", "long"]
)
def test_message_for_what_is_no_topic_is_left_behind(scene: TimerScene, topic: str) -> None:
    """Apache's broker takes a plain message for the timer topic, and with it whatever it says. Its queue lay outside of
    the store, or had a name that no disk takes: then the store was read-only."""
    slot_ms = slot_before(scene.clock.wall_ms() + 1000, 1000)
    scene.store.append(message(WHEEL_TIMER_TOPIC, TIMER_OUT_MS=str(slot_ms), REAL_TOPIC=topic, REAL_QID="0"))
    scene.send("good", scene.clock.wall_ms() + 1000)
    scene.pass_time(3)
    assert scene.keys() == ["good"]
    assert scene.store.queue(topic, 0) is None
    assert scene.waiting() == 0


@pytest.mark.parametrize("number", [None, "5", "x"])
def test_batch_in_one_record_that_apache_parked_stops_nobody(scene: TimerScene, number: str | None) -> None:
    """It need not say of how many messages it is, and its topic may have other queues by now."""
    slot_ms = slot_before(scene.clock.wall_ms() + 1000, 1000)
    properties = {"TIMER_OUT_MS": str(slot_ms), "REAL_TOPIC": "T", "REAL_QID": "1", "UNIQ_KEY": "batch"}
    if number is not None:
        properties["INNER_NUM"] = number
    queue = scene.store.queues.make(WHEEL_TIMER_TOPIC, 0)
    with scene.store.batch() as writer:
        flags = NEED_UNWRAP | INNER_BATCH
        writer.add(queue, b"x", encode_properties(properties), 0, b"", bytes(8), flags, 0, 0, 0)
    scene.send("good", scene.clock.wall_ms() + 1000)
    scene.pass_time(5)
    assert scene.keys() == ["batch", "good"]
    scene.send("later", scene.clock.wall_ms() + 1000)
    scene.pass_time(5)
    assert scene.keys() == ["batch", "good", "later"]


def test_place_without_a_message_is_passed_by(clock: FakeClock, files: MemoryFileSystem) -> None:
    """A queue has units for what its log lacks; they lead to the log's beginning, where any message may be. One that
    had a time and a place of its own among its properties was delivered there."""
    scene = TimerScene(clock, files)
    scene.store.append(message("T", b"plain", TIMER_OUT_MS="1", REAL_TOPIC="T", REAL_QID="1", UNIQ_KEY="plain"))
    scene.send("before", clock.wall_ms() + 1000)
    queue = scene.store.queues.make(WHEEL_TIMER_TOPIC, 0)
    assert isinstance(queue, ConsumeQueue)
    queue.end_at(3, None)
    scene.send("behind", clock.wall_ms() + 1000)
    scene.pass_time(5)
    assert scene.keys() == ["before", "behind"]
    scene.close()


def test_full_disk_delays_and_loses_nothing(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    scene = TimerScene(clock, files)
    scene.send("late", clock.wall_ms() + 1000)
    scene.work()
    scene.store.is_disk_full = True
    clock.advance(5)
    assert scene.work() == 0.5
    assert not scene.keys()
    scene.store.is_disk_full = False
    scene.work()
    assert scene.keys() == ["late"]
    scene.close()


def test_queue_that_is_derived_anew_is_waited_for_no_longer_than_that_takes(scene: TimerScene) -> None:
    """All others waited ten seconds at a time."""
    scene.send("late", scene.clock.wall_ms() + 1000)
    scene.work()
    scene.clock.advance(5)
    with patch.object(scene.store.queues, "make", side_effect=QueueNotReadyError("T", 1)):
        assert scene.work() == 0.5
    scene.work()
    assert scene.keys() == ["late"]


def test_delivery_that_is_held_back_is_not_looked_at_all_the_time(scene: TimerScene) -> None:
    scene.send("late", scene.clock.wall_ms() + 1000)
    scene.tables.settings.update({"timerStopDequeue": "true"})
    scene.pass_time(5)
    assert not scene.keys()
    assert scene.work() == 0.1
    scene.tables.settings.update({"timerStopDequeue": "false"})
    scene.work()
    assert scene.keys() == ["late"]


def test_messages_left_in_their_topic_hold_up_none_that_wait(clock: FakeClock, files: MemoryFileSystem) -> None:
    """What was parked before `timerStopEnqueue` waited until that was taken back, or for ever after a restart."""
    scene = TimerScene(clock, files)
    for seconds in (5, 15):
        scene.send(f"{seconds}", clock.wall_ms() + seconds * 1000)
    scene.work()
    scene.tables.settings.update({"timerStopEnqueue": "true"})
    scene.send("left", clock.wall_ms() + 2000)
    scene.pass_time(10)
    assert scene.keys() == ["5"]
    scene.close()
    again = TimerScene(clock, files, timerStopEnqueue="true")
    again.pass_time(10)
    assert again.keys() == ["5", "15"]
    again.tables.settings.update({"timerStopEnqueue": "false"})
    again.work()
    assert again.keys() == ["5", "15", "left"]
    assert again.waiting() == 0
    again.close()


def test_what_is_read_anew_is_delivered_with_all_that_calls_it_back(clock: FakeClock, files: MemoryFileSystem) -> None:
    """However long the rest is left in its topic: a recall was answered, and was parked once."""
    scene = TimerScene(clock, files)
    for number in range(200):
        scene.send(f"{number}", clock.wall_ms() + 5000)
    scene.send("marker", clock.wall_ms() + 5000, recalls="0")
    scene.work()
    scene.close()
    lose_both(files)
    again = scene.again()
    again.service.step()
    again.tables.settings.update({"timerStopEnqueue": "true"})
    again.pass_time(10)
    assert again.keys() == []
    again.tables.settings.update({"timerStopEnqueue": "false"})
    again.work()
    assert again.keys() == [f"{number}" for number in range(1, 200)]
    again.close()


def test_many_due_at_once_hold_nobody_up(scene: TimerScene) -> None:
    """Twenty thousand in one second; each step is short, as measured in work and not in time."""
    deliver_ms = scene.clock.wall_ms() + 5000
    for number in range(20_000):
        scene.send(f"{number}", deliver_ms)
    parking = 0
    while scene.service.step() == 0:
        parking += 1
    assert parking >= 20_000 // 128
    scene.clock.advance(6)
    steps, most, before = 0, 0, 0
    while scene.service.step() == 0:
        steps, count = steps + 1, scene.store.max_offset("T", 1)
        most, before = max(most, count - before), count
    assert before == 20_000
    assert most <= 128


def test_files_of_the_timer_log_go_with_the_log(scene: TimerScene) -> None:
    for number in range(400):
        scene.send(f"{number}", scene.clock.wall_ms() + 1000)
    scene.pass_time(3)
    scene.save()
    assert len(scene.files.list(LOG)) == 5
    scene.service._timers.drop_before(scene.store.max_log_offset)
    scene.save()
    assert len(scene.files.list(LOG)) == 1


def test_files_that_a_checkpoint_still_needs_are_there(clock: FakeClock, files: MemoryFileSystem) -> None:
    """One that waited for the log went to disk after later files were dropped: a start found that they were missing."""
    scene = TimerScene(clock, files)
    for number in range(400):
        scene.send(f"{number}", clock.wall_ms() + 60_000)
    scene.work()
    assert scene.service.begin_save() is None
    end = scene.store.max_log_offset
    scene.send("later", clock.wall_ms() + 60_000)
    scene.work()
    scene.service._timers.drop_before(end)
    job = scene.service._timers.begin_save(scene.store.max_log_offset, end)
    assert job is not None
    assert not job.dropped
    job.run()
    scene.service.save_done()
    scene.save()
    assert len(files.list(LOG)) == 1
    scene.close()


def test_nothing_is_derived_anew_while_somebody_writes_the_files(clock: FakeClock, files: MemoryFileSystem) -> None:
    """A save that was under way said afterwards that all was well, in the middle of reading everything anew."""
    scene, now_ms = TimerScene(clock, files), clock.wall_ms()
    for number in range(1, 300):
        scene.send(f"{number}", now_ms + number * 100)
    scene.work()
    flush(scene.store)
    job = scene.service.begin_save()
    assert job is not None
    garble_log(files)
    clock.advance(5)
    for _ in range(5):
        scene.service.step()
    job.run()
    scene.service.save_done()
    assert not files.exists(LOG.with_name("timerlog.corrupt"))
    scene.service.step()
    saved = TimerCheckpoint.load(files, CHECK, lock_ms_of(files, ROOT), clock.wall_ms())
    assert saved is not None
    assert saved.log_flushed == UNUSABLE
    scene.pass_time(40)
    assert set(scene.keys()) == {f"{number}" for number in range(1, 300)}
    assert scene.waiting() == 0
    scene.close()


def test_failed_sync_ends_saving_and_loses_nothing(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    scene = TimerScene(clock, disk)
    for number in range(1, 10):
        scene.send(f"{number}", clock.wall_ms() + number * 1000)
    scene.work()
    flush(scene.store)
    disk.fail(at=1, calls={"sync"}, error=errno.EIO)
    scene.save()
    disk.heal()
    assert not scene.service.is_unsaved
    scene.pass_time(3)
    flush(scene.store)
    again = TimerScene(clock, disk.crash(Survival.NOTHING, seed=1))
    again.pass_time(20)
    assert set(again.keys()) == {f"{number}" for number in range(1, 10)}
    again.close()


def test_sync_that_fails_while_the_broker_stops_ends_saving_too(clock: FakeClock) -> None:
    """Nobody waited for it any more, and the last save said that all was on disk."""
    disk = FaultyFileSystem(clock)
    scene = TimerScene(clock, disk)
    for number in range(1, 10):
        scene.send(f"{number}", clock.wall_ms() + 60_000)
    scene.work()
    flush(scene.store)
    job = scene.service.begin_save()
    assert job is not None
    scene.service.save_failed()
    disk.fail(at=1, calls={"sync"}, error=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        job.run()
    disk.heal()
    scene.service.save()
    assert not disk.exists(CHECK)
    assert not scene.service.is_unsaved


def test_markers_for_one_message_or_for_none_count_for_nothing_in_the_end(scene: TimerScene) -> None:
    deliver_ms = scene.clock.wall_ms() + 5000
    scene.send("a", deliver_ms)
    for _ in range(3):
        scene.send("recall", deliver_ms, recalls="a")
    scene.send("recall", deliver_ms, recalls="never sent")
    scene.send("b", deliver_ms)
    scene.pass_time(7)
    assert scene.keys() == ["b"]
    assert scene.waiting() == 0


def test_what_markers_take_while_their_slot_is_delivered_is_bounded_by_their_number(scene: TimerScene) -> None:
    """Thirty thousand with keys of 16 KB, a minute's work for a stranger, took half a gigabyte."""
    deliver_ms = scene.clock.wall_ms() + 5000
    for number in range(500):
        scene.send("recall", deliver_ms, recalls=f"{number:015000}")
    scene.work()
    scene.clock.advance(7)
    tracemalloc.start()
    try:
        scene.work()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3_000_000, "128 are looked at at a time"


def test_figures_of_many_topics_are_saved_in_steps(scene: TimerScene) -> None:
    for number in range(2000):
        scene.service._timers.counts.add(f"t{number}", 1)
    scene.send("a", scene.clock.wall_ms() + 5000)
    scene.work()
    flush(scene.store)
    job = scene.service.begin_save()
    assert job is not None
    assert sum(1 for _ in job.steps()) > 2000 // 128


def test_clock_that_was_ahead_at_the_last_stop_makes_no_message_early() -> None:
    """While nothing was stored the clock was an hour ahead: slots of the next hour seemed to be over."""
    clock = SteppingClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    scene = TimerScene(clock, files)
    scene.send("before", clock.wall_ms() + 1000)
    scene.pass_time(3)
    clock.step(3600)
    scene.work()
    scene.close()
    clock.step(-3600)
    scene, now_ms = scene.again(), clock.wall_ms()
    for seconds in (400, 300):
        scene.send(f"{seconds}", now_ms + seconds * 1000)
    scene.work()
    for _ in range(3):
        scene.save()
        scene.pass_time(60, step_s=10)
        scene.close()
        scene = scene.again()
    assert scene.keys() == ["before"]
    scene.pass_time(300, step_s=10)
    assert scene.keys() == ["before", "300", "400"]
    for found in scene.delivered()[1:]:
        assert 0 <= found.store_ms - now_ms - int(found.properties["UNIQ_KEY"]) * 1000 <= 11_000
    assert scene.waiting() == 0
    scene.close()


@pytest.mark.parametrize("precision", ["100", "5000"])
def test_other_precision_is_refused_though_the_newest_message_was_delivered(
    clock: FakeClock, files: MemoryFileSystem, precision: str
) -> None:
    """With smaller steps none seemed to wait, and they never came."""
    scene = TimerScene(clock, files)
    scene.send("later", clock.wall_ms() + 60_000)
    scene.send("soon", clock.wall_ms() + 1000)
    scene.pass_time(3)
    scene.close()
    with pytest.raises(CorruptStoreError, match="timerPrecisionMs=1000"):
        TimerScene(clock, files, timerPrecisionMs=precision)
    again = scene.again()
    again.pass_time(60)
    again.close()
    other = TimerScene(clock, files, timerPrecisionMs=precision)
    other.send("other", clock.wall_ms() + 60_000)
    other.pass_time(70)
    assert other.keys() == ["soon", "later", "other"]
    assert not files.exists(WHEEL.with_name("timerwheel.corrupt"))
    other.close()


@pytest.mark.parametrize("precision", ["100", "5000"])
def test_other_precision_is_refused_while_messages_are_not_parked(
    clock: FakeClock, files: MemoryFileSystem, precision: str
) -> None:
    """Their slots are of the steps of before, and smaller ones brought them almost a second early."""
    scene = TimerScene(clock, files)
    scene.send("over", clock.wall_ms() + 1000)
    scene.pass_time(3)
    scene.save()
    scene.send("soon", clock.wall_ms() // 1000 * 1000 + 2900)
    flush(scene.store)
    scene.die()
    with pytest.raises(CorruptStoreError, match="timerPrecisionMs=1000"):
        TimerScene(clock, files, timerPrecisionMs=precision)
    again = scene.again()
    again.pass_time(5)
    assert again.keys() == ["over", "soon"]
    again.close()
    other = TimerScene(clock, files, timerPrecisionMs=precision)
    other.send("other", clock.wall_ms() + 2000)
    flush(other.store)
    other.die()
    after_a_kill = TimerScene(clock, files, timerPrecisionMs=precision)
    after_a_kill.pass_time(10)
    assert after_a_kill.keys() == ["over", "soon", "other"]
    after_a_kill.close()


@pytest.mark.parametrize("precision", ["100", "5000"])
def test_other_precision_is_refused_while_all_is_derived_anew(
    clock: FakeClock, files: MemoryFileSystem, precision: str
) -> None:
    scene = TimerScene(clock, files)
    scene.send("later", clock.wall_ms() // 1000 * 1000 + 60_900)
    scene.work()
    scene.save()
    scene.service._timers.derive_anew("as if a slot could not be read")
    scene.die()
    with pytest.raises(CorruptStoreError, match="timerPrecisionMs=1000"):
        TimerScene(clock, files, timerPrecisionMs=precision)
    again = scene.again()
    again.pass_time(62)
    assert again.keys() == ["later"]
    again.close()


def test_topic_that_lost_its_end_hides_no_later_message(clock: FakeClock, files: MemoryFileSystem) -> None:
    """Apache's checkpoint may be ahead of what was left of the log when the power went."""
    scene = TimerScene(clock, files)
    for number in range(5):
        scene.send(f"{number}", clock.wall_ms() + 60_000)
    scene.work()
    scene.close()
    saved = TimerCheckpoint.load(files, CHECK, lock_ms_of(files, ROOT), clock.wall_ms())
    assert saved is not None
    replace(saved, queue_offset=8, master_queue_offset=8).save(files, CHECK)
    scene = scene.again()
    for number in range(5, 10):
        scene.send(f"{number}", clock.wall_ms() + 60_000)
    scene.pass_time(70)
    assert scene.keys() == [f"{number}" for number in range(10)]
    scene.close()


def test_long_steps_and_long_delays_fit_into_a_unit(clock: FakeClock, files: MemoryFileSystem) -> None:
    """A unit has 32 bits for the time that a message waits."""
    scene = TimerScene(clock, files, slots=604_800, timerPrecisionMs="60000", fileReservedTime="10000")
    due_ms = clock.wall_ms() + 40 * 86_400_000
    scene.send("far", due_ms)
    scene.pass_time(40 * 86_400 + 120, step_s=3600)
    [found] = scene.delivered()
    assert 0 <= found.store_ms - due_ms <= 3_660_000
    scene.close()


def test_messages_are_parked_anew_before_the_log_expires(clock: FakeClock, files: MemoryFileSystem) -> None:
    scene = TimerScene(clock, files, slots=604_800, fileReservedTime="12")
    scene.send("far", clock.wall_ms() + 20 * 3_600_000)
    scene.pass_time(9 * 3600, step_s=600)
    assert scene.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 2
    scene.pass_time(12 * 3600, step_s=600)
    assert scene.keys() == ["far"]
    scene.close()


def test_log_that_may_go_at_any_time_has_messages_parked_anew_now_and_then_only(
    clock: FakeClock, files: MemoryFileSystem
) -> None:
    """With fileReservedTime=0 all that waited was written anew every two seconds."""
    scene = TimerScene(clock, files, slots=7 * 86_400, fileReservedTime="0")
    scene.send("far", clock.wall_ms() + 7_200_000)
    scene.pass_time(7_199)
    assert scene.store.max_offset(WHEEL_TIMER_TOPIC, 0) <= 1 + 3
    scene.pass_time(2)
    assert scene.keys() == ["far"]
    scene.close()


def test_log_stays_until_late_messages_are_delivered(clock: FakeClock, files: MemoryFileSystem) -> None:
    """A broker that was down for eight days may start in the hour in which old files are deleted."""
    hours = ";".join(map(str, range(24)))
    scene = TimerScene(clock, files, mappedFileSizeCommitLog="65536", deleteWhen=hours)
    for number in range(40):
        scene.send(f"{number}", clock.wall_ms() + 60_000, body=bytes(3000))
    scene.work()
    scene.close()
    clock.advance(8 * 86_400)
    scene = TimerScene(clock, files, mappedFileSizeCommitLog="65536", deleteWhen=hours)
    scene.store.unlink(scene.store.clean())
    scene.work()
    assert scene.keys() == [f"{number}" for number in range(40)]
    assert not scene.service.has_late()
    flush(scene.store)
    assert scene.store.clean()
    scene.close()


def test_messages_called_back_twice_or_sent_twice_are_counted_right(scene: TimerScene) -> None:
    """A producer that got no answer sends once more, with the same key."""
    deliver_ms = scene.clock.wall_ms() + 5000
    scene.send("a", deliver_ms)
    for _ in range(2):
        scene.send("marker", deliver_ms, recalls="a")
    for _ in range(3):
        scene.send("b", deliver_ms + 10_000)
    scene.send("marker", deliver_ms + 10_000, recalls="b")
    scene.pass_time(7)
    assert scene.waiting() == 2
    scene.pass_time(10)
    assert not scene.keys()
    assert scene.waiting() == 0


def test_slot_that_was_begun_is_finished_before_a_stop(clock: FakeClock, files: MemoryFileSystem) -> None:
    """Else all of it would come again after the start."""
    scene = TimerScene(clock, files)
    for number in range(500):
        scene.send(f"{number}", clock.wall_ms() + 5000)
    scene.work()
    clock.advance(7)
    while len(scene.keys()) < 100:
        scene.service.step()
    assert len(scene.keys()) < 500
    scene.save()
    scene.close()
    again = scene.again()
    again.pass_time(3)
    assert again.keys() == [f"{number}" for number in range(500)]
    assert again.waiting() == 0
    again.close()
