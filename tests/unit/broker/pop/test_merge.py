"""Checkpoints that stay in memory: how much they take, and how many are stored in one go."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence

import pytest

from rocketline.broker.pop import merge as merging
from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.positions import PopPositions
from rocketline.model.message import StoredMessage
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.pop import AckMsg, PopCheckPoint
from support.brokers.revival import RevivalScene


class Scene(RevivalScene):
    """The merge of such a broker, and how many messages it has stored each time."""

    def __init__(self, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        super().__init__(clock, MemoryFileSystem(clock, capacity=2**30), enablePopBufferMerge="true", **settings)
        self.positions, tables = PopPositions(self.offsets), self.tables
        self.merge = MergeBuffer(self.topic, self.positions, tables.settings, clock.wall_ms, tables.log, lambda: None)
        self.stored: list[int] = []
        put = self.topic.put

        def counted(messages: Sequence[StoredMessage]) -> str | None:
            self.stored.append(len(messages))
            return put(messages)

        monkeypatch.setattr(self.topic, "put", counted)

    def keep(self, number: int, *, messages: int = 32) -> PopCheckPoint:
        """One more pop of the queue."""
        begin = 300 + messages * number
        point = self.point(*range(begin, begin + messages), invisible_ms=600_000)
        assert self.merge.takes(point)
        self.merge.add(point, 0, self.positions.take("g", "T", 0, begin + messages))
        return point

    def done_with(self, point: PopCheckPoint, offsets: Sequence[int]) -> None:
        ack = AckMsg("T", "g", 0, point.start_offset, point.pop_time, -1, "broker-a", list(offsets))
        assert self.merge.ack(ack)


@pytest.fixture
def scene(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(clock, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("is_stop", [False, True])
def test_checkpoints_are_stored_some_messages_at_a_time(scene: Scene, is_stop: bool) -> None:
    """Each with an acknowledgement for all of its messages but the last."""
    for number in range(64):
        point = scene.keep(number)
        scene.done_with(point, point.offsets()[:-1])
    if is_stop:
        scene.merge.store_all()
    else:
        scene.clock.advance(10)
        while scene.merge.store_due():
            pass
    assert sum(scene.stored) == 64 * 32
    assert max(scene.stored) <= 160
    assert (len(scene.merge), scene.merge.bytes, scene.positions.waiting("g", "T", 0)) == (0, 0, 0)
    assert scene.offsets.query("g", "T", 0) == 300 + 64 * 32


def test_what_is_more_than_some_bytes_is_stored_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "BUFFERED_BYTES_MAX", 20_000)
    count = 0
    while scene.merge.takes(scene.point(count)):
        point = scene.keep(count)
        count += 1
    assert 10 < count < 20
    scene.done_with(point, point.offsets())
    assert scene.merge.takes(scene.point(count))


def test_what_checkpoints_take_is_counted(scene: Scene) -> None:
    """With where their group goes on."""
    scene.keep(0)
    before = scene.merge.bytes
    tracemalloc.start()
    try:
        for number in range(1, 1001):
            scene.clock.advance(0.001)
            scene.keep(number)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < scene.merge.bytes - before < 2 * taken


def test_those_that_come_and_go_leave_nothing(scene: Scene) -> None:
    scene.keep(0)
    for number in range(1, 1000):
        scene.clock.advance(0.02)
        point = scene.keep(number, messages=1)
        scene.done_with(point, point.offsets())
    assert (len(scene.merge), len(scene.merge._due._at)) == (1, 1)


def test_checkpoints_that_the_store_does_not_take_are_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.keep(0)
    scene.clock.advance(10)
    with monkeypatch.context() as patched:
        patched.setattr(scene.topic, "put", lambda messages: "the disk is full")
        assert not scene.merge.store_due()
    assert (len(scene.merge), scene.merge.store_due()) == (1, False)
    scene.clock.advance(1)
    scene.merge.store_due()
    assert len(scene.merge) == 0
