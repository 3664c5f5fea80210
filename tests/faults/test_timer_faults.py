"""The disk fails at any one call of a life with timers, or loses power there: no timer message that was acknowledged is
lost, none is early, and none that was called back is delivered.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

import pytest

from rocketline.errors import RocketlineError
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from support.brokers.timers import TimerScene
from support.stores.small import flush

STEP_MS = 1000


class Life:
    """Timers are sent, called back, parked, delivered and saved; the log of what was acknowledged as flushed."""

    def __init__(self, disk: FaultyFileSystem, clock: FakeClock) -> None:
        self.disk, self.clock = disk, clock
        self.due: dict[str, int] = {}
        self.safe: dict[str, int] = {}
        """Moments of the messages that are on disk."""
        self.recalled: set[str] = set()
        """Those whose markers are on disk."""

    def live(self) -> None:
        """Raises `OSError` or `RocketlineError` where the disk lets it."""
        scene = TimerScene(self.clock, self.disk)
        for number in range(1, 13):
            key, deliver_ms = f"{number}", self.clock.wall_ms() + number * 700
            scene.send(key, deliver_ms)
            self.due[key] = deliver_ms
            if number % 4 == 0:
                scene.send("marker", (deliver_ms - 1) // STEP_MS * STEP_MS + 1, recalls=key)
            self.flush(scene, number)
            scene.work()
            self.clock.advance(0.4)
            scene.work()
            if number % 3 == 0:
                scene.save()
        scene.close()

    def flush(self, scene: TimerScene, number: int) -> None:
        flush(scene.store)
        if scene.store.problem is None and scene.store.flushed_log_offset == scene.store.max_log_offset:
            self.safe = dict(self.due)
            self.recalled = {key for key in self.due if int(key) % 4 == 0}


def lives() -> Iterator[int]:
    """The calls of a whole life, each in turn."""
    clock = FakeClock()
    disk = FaultyFileSystem(clock)
    disk.fail(at=10**9)
    Life(disk, clock).live()
    return iter(range(1, disk.call_count + 1))


CALLS = list(lives())


def check(life: Life, disk: FaultyFileSystem) -> None:
    scene = TimerScene(life.clock, disk)
    scene.pass_time(20)
    keys = scene.keys()
    assert set(keys) >= set(life.safe) - life.recalled
    assert not set(keys) & life.recalled
    for found in scene.delivered():
        assert found.store_ms >= life.due[found.properties["UNIQ_KEY"]]
    assert scene.waiting() == 0
    scene.save()
    scene.close()


@pytest.mark.parametrize("survival", list(Survival))
def test_power_that_goes_at_any_call_loses_no_timer(survival: Survival) -> None:
    for at in CALLS[:: 1 if survival is Survival.STRETCH else 4]:
        clock = FakeClock()
        disk = FaultyFileSystem(clock, seed=at)
        disk.fail(at=at, lasting=True, torn=True)
        life = Life(disk, clock)
        with contextlib.suppress(OSError, RocketlineError):
            life.live()
        check(life, disk.crash(survival, seed=at))


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["fails", "is full"])
def test_call_that_fails_once_loses_no_timer(error: int) -> None:
    for at in CALLS[::2]:
        clock = FakeClock()
        disk = FaultyFileSystem(clock, seed=at)
        disk.fail(at=at, error=error)
        life = Life(disk, clock)
        with contextlib.suppress(OSError, RocketlineError):
            life.live()
        disk.heal()
        check(life, disk.crash(Survival.EVERYTHING, seed=at))
