"""Work in steps, done to its end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from rocketline.broker.long_work import LongWork
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.net.channel import Channel, Outcome
from rocketline.wire.command import Command

T = TypeVar("T")
Answer = TypeVar("Answer", bound=Outcome)


def one_step(clock: Clock) -> LongWork:
    """For handlers whose work is done with the first step."""

    def never(delay_s: float, action: Callable[[], None]) -> None:
        raise AssertionError("this takes more than one step")

    return LongWork(never, Throttle(clock))


def at_once(done: Callable[[], None]) -> None:
    """For what would call back later."""
    done()


def outcome(steps: Generator[None, None, T]) -> T:
    """What the steps lead to."""
    return counted(steps)[0]


def counted(steps: Generator[None, None, T]) -> tuple[T, int]:
    """The same, and after how many pauses."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result, count
        count += 1


class AtOnce(LongWork):
    """Does every work to its end where it is begun, and says how many pauses it made."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(lambda delay_s, action: None, Throttle(clock))
        self.pauses = 0

    def begin(
        self,
        channel: Channel,
        request: Command,
        steps: Generator[None, None, Answer],
        *,
        is_change: bool = False,
        key: object = None,
        is_short: bool = False,
    ) -> Outcome:
        result, self.pauses = counted(steps)
        return result
