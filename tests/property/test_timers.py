"""Timers against a plain list: sends, recalls, time, saves, stops and kills in any order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from support.brokers.timers import TimerScene
from support.stores.small import flush

STEP_MS = 1000


class Timers(RuleBasedStateMachine):
    """The list knows each message's moment and whether it was called back in time; what a kill may bring again, too."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.scene = TimerScene(self.clock, MemoryFileSystem(self.clock, capacity=2**30))
        self.due: dict[str, int] = {}
        self.recalled: set[str] = set()
        self.kills = 0

    @rule(seconds=st.integers(0, 2000).map(lambda parts: parts / 3), count=st.integers(1, 4))
    def send(self, seconds: float, count: int) -> None:
        deliver_ms = self.clock.wall_ms() + round(seconds * 1000) + 1
        for _ in range(count):
            key = f"m{len(self.due)}"
            self.due[key] = deliver_ms
            self.scene.send(key, deliver_ms)

    @precondition(lambda self: self.due)
    @rule(data=st.data())
    def recall(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.due)))
        slot_ms = (self.due[key] - 1) // STEP_MS * STEP_MS
        if slot_ms + 1 > self.clock.wall_ms():  # else the broker refuses it
            self.scene.send("marker", slot_ms + 1, recalls=key)
            self.recalled.add(key)

    @rule(seconds=st.sampled_from([0.3, 1.0, 7.0, 120.0, 800.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.scene.work()

    @rule()
    def look(self) -> None:
        self.scene.service.step()

    @rule()
    def save(self) -> None:
        self.scene.save()

    @rule()
    def stop_and_start(self) -> None:
        self.scene.close()
        self.scene = self.scene.again()

    @rule()
    def kill_and_start(self) -> None:
        flush(self.scene.store)
        self.scene.die()
        self.scene = self.scene.again()
        self.kills += 1

    def teardown(self) -> None:
        self.pass_time(800.0)
        self.pass_time(2.0)
        keys = self.scene.keys()
        assert set(keys) == set(self.due) - self.recalled
        assert self.kills or len(set(keys)) == len(keys)
        for found in self.scene.delivered():
            assert found.store_ms >= self.due[found.properties["UNIQ_KEY"]]
        assert self.scene.waiting() == 0
        assert self.scene.service.figures().waiting == 0
        self.scene.close()


Timers.TestCase.settings = settings(max_examples=20, stateful_step_count=16, deadline=None)
TestTimers = Timers.TestCase
