"""The store's time follows the wall's forwards, and goes on by itself when that is set back."""

from __future__ import annotations

from rocketline.store.store_clock import StoreClock
from support.stepping_clock import SteppingClock

HOUR_S = 3600


def test_it_is_the_time_on_the_wall() -> None:
    clock = SteppingClock()
    store_clock = StoreClock(clock)
    assert store_clock.now_ms() == clock.wall_ms()
    clock.advance(1.5)
    assert store_clock.now_ms() == clock.wall_ms()
    clock.step(HOUR_S)
    assert store_clock.now_ms() == clock.wall_ms()


def test_it_ticks_on_when_the_wall_is_set_back_until_that_has_caught_up() -> None:
    clock = SteppingClock()
    store_clock = StoreClock(clock)
    begin_ms = store_clock.now_ms()
    clock.step(-8 * HOUR_S)
    assert store_clock.now_ms() == begin_ms
    clock.advance(10)
    assert store_clock.now_ms() == begin_ms + 10_000
    clock.step(8 * HOUR_S + 1)
    assert store_clock.now_ms() == begin_ms + 11_000 == clock.wall_ms()


def test_it_ticks_however_often_it_is_looked_at() -> None:
    """Parts of a millisecond add up."""
    clock = SteppingClock()
    store_clock = StoreClock(clock)
    begin_ms = store_clock.now_ms()
    clock.step(-HOUR_S)
    for _ in range(4096):
        clock.advance(1 / 4096)
        store_clock.now_ms()
    assert store_clock.now_ms() == begin_ms + 1000


def test_it_tells_no_time_before_that_of_an_earlier_life() -> None:
    clock = SteppingClock()
    store_clock = StoreClock(clock)
    last_ms = clock.wall_ms() + 60_000
    store_clock.begin_at(last_ms)
    assert store_clock.now_ms() == last_ms
    clock.advance(61)
    assert store_clock.now_ms() == last_ms + 61_000
