"""What was popped and not acknowledged comes again; records that nobody of ours wrote change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.broker.metadata import topics
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import encode
from support.brokers.revival import RETRY, RevivalScene


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[RevivalScene]:
    made = RevivalScene(clock, MemoryFileSystem(clock, capacity=2**30))
    yield made
    made.close()


def test_message_comes_again_two_seconds_after_its_time(scene: RevivalScene) -> None:
    """S191."""
    scene.send(b"0", b"1")
    scene.pop(0, 1, invisible_ms=10_000)
    scene.pass_time(12)
    assert scene.bodies() == []
    scene.pass_time(2)
    assert scene.bodies() == [b"0", b"1"]
    assert [found.reconsume_times for found in scene.came_again()] == [1, 1]


def test_acknowledgement_that_comes_a_moment_late_counts(scene: RevivalScene) -> None:
    """S190: there is a margin, as Apache's broker has it."""
    scene.send(b"0", b"1")
    point = scene.pop(0, 1, invisible_ms=10_000)
    scene.pass_time(11)
    scene.ack(point, 1)
    scene.pass_time(10)
    assert scene.bodies() == [b"0"]


def test_checkpoint_that_comes_twice_counts_once(scene: RevivalScene) -> None:
    """S190: timers deliver some messages twice after a crash."""
    scene.send(b"0", b"1")
    point = scene.pop(0, 1)
    scene.note(scene.topic.checkpoint(point, 0))
    scene.ack(point, 0)
    scene.pass_time(20)
    assert scene.bodies() == [b"1"]


def test_two_checkpoints_of_the_same_millisecond_both_count(scene: RevivalScene) -> None:
    """S200: Apache's broker writes such a pair when a message is put off at once."""
    scene.send(b"0", b"1")
    popped = scene.pop(0, 1, invisible_ms=8000)
    scene.pop(0, invisible_ms=500)
    scene.ack(popped, 0)
    scene.pass_time(5)
    assert scene.bodies() == [b"0"]
    scene.pass_time(8)
    assert scene.bodies() == [b"0", b"1"]


def test_acknowledgement_of_another_pop_does_not_count(scene: RevivalScene) -> None:
    """S200."""
    scene.send(b"0")
    old = scene.pop(0)
    scene.clock.advance(1)
    scene.pop(0)
    scene.ack(old, 0)
    scene.pass_time(20)
    assert scene.bodies() == [b"0"]


def test_progress_waits_for_the_first_that_is_open(scene: RevivalScene) -> None:
    scene.send(b"0", b"1", b"2")
    scene.pop(0, invisible_ms=3000)
    scene.pop(1, invisible_ms=5000)
    scene.pass_time(6)
    assert scene.done_to() == 0
    scene.pass_time(3)
    assert scene.done_to() == 1
    assert scene.revival.look() is None


def test_how_far_it_is_nobody_else_can_tell(scene: RevivalScene) -> None:
    """One commit of a stranger, and after the next start messages would be passed by."""
    scene.send(b"0", b"1")
    scene.pop(0, invisible_ms=3000)
    scene.pass_time(6)
    assert scene.done_to() == 0
    for offset in (1000, -5, 0):
        scene.offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", scene.topic.name, 0, offset)
        scene.offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", scene.topic.name, 3, offset)
        assert (scene.done_to(0), scene.done_to(3)) == (0, -1)


def test_queues_are_worked_through_by_themselves(scene: RevivalScene) -> None:
    scene.send(*(b"%d" % number for number in range(16)))
    for number in range(16):
        scene.pop(number, queue=number % 8)
    scene.pass_time(15)
    assert sorted(scene.bodies(), key=int) == [b"%d" % number for number in range(16)]
    assert [scene.done_to(queue) for queue in range(8)] == [1] * 8


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"{}",
        b'{"t":"T","c":"g","n":2147483647,"so":0,"pt":1,"it":1}',
        b'{"t":"T","c":"g","n":0,"so":0,"pt":1,"it":1}',
        b'{"t":"T","c":"g","n":1,"d":[%s0],"so":0,"pt":1,"it":1}' % (b"0," * 100_000),
        b'{"t":"T","c":"g","n":1,"d":[0],"so":0,"pt":9000000000000000000,"it":1}',
        b'{"t":"T","n":1,"d":[0],"so":0,"pt":1,"it":1}',
        b'{"t":"nope","c":"g","n":1,"d":[0],"so":0,"pt":1,"it":1}',
        b'{"t":"T","c":"nobody","n":1,"d":[0],"so":0,"pt":1,"it":1}',
        b'{"t":"T","c":"g","n":1,"d":[7],"so":0,"pt":1,"it":1}',
        b'{"t":"T","c":"g","q":99,"n":1,"d":[0],"so":-5,"pt":1,"it":1}',
    ],
)
@pytest.mark.parametrize("tag", ["ck", "ack", "bAck", "other"])
def test_record_that_makes_no_sense_is_passed_by(scene: RevivalScene, tag: str, body: bytes) -> None:
    scene.send(b"0")
    scene.note_raw(body, tag=tag, TIMER_OUT_MS="9" * 15)
    scene.pop(0)
    scene.pass_time(20)
    assert scene.bodies() == [b"0"]
    assert scene.done_to() == 1


def test_message_that_is_gone_is_left_behind(scene: RevivalScene) -> None:
    scene.send(b"0")
    scene.note_raw(encode(scene.point(0, 5, invisible_ms=0)))
    scene.pass_time(5)
    assert scene.bodies() == [b"0"]


def test_message_of_a_retry_topic_comes_again_there(scene: RevivalScene) -> None:
    """S203."""
    scene.send(b"0")
    scene.pop(0, invisible_ms=1000)
    scene.pass_time(6)
    scene.note(scene.topic.checkpoint(scene.point(0, topic=RETRY, invisible_ms=1000), 0))
    scene.pass_time(6)
    assert [found.reconsume_times for found in scene.came_again()] == [1, 2]
    first, second = scene.came_again()
    assert first.properties["1ST_POP_TIME"] == second.properties["1ST_POP_TIME"]


def test_without_room_for_the_retry_topic_messages_are_put_off(
    scene: RevivalScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.send(b"0", b"1", b"2")
    point = scene.pop(0, 1, 2)
    scene.ack(point, 1)
    monkeypatch.setattr(topics, "TOPICS_MAX", 0)
    scene.pass_time(15)
    assert scene.bodies() == []
    monkeypatch.undo()
    scene.pass_time(15)
    assert scene.bodies() == [b"0", b"2"]


def test_disk_without_room_delays_what_comes_again(scene: RevivalScene) -> None:
    scene.send(b"0")
    scene.pop(0)
    scene.pass_time(9)
    scene.store.is_disk_full = True
    scene.pass_time(10)
    assert scene.bodies() == []
    scene.store.is_disk_full = False
    scene.pass_time(2)
    assert scene.bodies() == [b"0"]


def test_next_start_goes_on_where_the_last_one_stopped(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    first = RevivalScene(clock, files)
    first.send(b"0", b"1", b"2")
    first.pop(0, invisible_ms=3000)
    acked = first.pop(1, invisible_ms=8000)
    first.pop(2, invisible_ms=8000)
    first.pass_time(7)
    assert first.bodies() == [b"0"]
    first.ack(acked, 1)
    first.close()
    second = RevivalScene(clock, files)
    second.pass_time(10)
    assert second.bodies() == [b"0", b"2"]
    second.close()


def test_offset_beyond_the_queue_is_none(clock: FakeClock) -> None:
    """The log was cut, or the topic made anew, since it was saved."""
    files = MemoryFileSystem(clock, capacity=2**30)
    first = RevivalScene(clock, files)
    first.offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", first.topic.name, 0, 1000)
    first.close()
    scene = RevivalScene(clock, files)
    scene.send(b"0")
    scene.pop(0)
    scene.pass_time(15)
    assert scene.bodies() == [b"0"]
    scene.close()


def test_large_messages_come_again_some_at_a_time(scene: RevivalScene) -> None:
    sent = [b"%d" % number * 100_000 for number in range(8)]
    scene.send(*sent)
    scene.pop(*range(8))
    scene.pass_time(11)
    scene.clock.advance(3)
    while scene.timers.step() == 0:
        continue
    scene.revival.look()
    assert 0 < scene.store.max_offset(RETRY, 0) < 8
    scene.work()
    assert scene.bodies() == sent


def test_many_at_once_take_many_short_turns(scene: RevivalScene) -> None:
    """A hundred times 32 messages are due at the same moment."""
    for _ in range(3200):
        scene.tables.append(b"x")
    for start in range(0, 3200, 32):
        scene.pop(*range(start, start + 32))
    scene.pass_time(11)
    scene.clock.advance(3)
    while scene.timers.step() == 0:
        continue
    turns = 1
    while scene.revival.look() == 0:
        turns += 1
    assert len(scene.bodies()) == 1000  # as many as one look sees
    assert scene.store.max_offset(RETRY, 0) == 3200
    assert turns > 12
