"""Requests that take long, done in steps: one step a turn of the loop, whoever asks and however many do.

A handler that has to look at thousands of things does not do so in one go. It writes its work down as a generator that
yields after every step of about a millisecond and returns the answer, and hands it to `LongWork`. What is done with its
first step, as nearly everything is, is answered at once and waits for nobody.

Of the rest one is at work at any time, so that there is one half-made answer in memory and not hundreds; connections
take turns. Differs: Apache's servers have threads for it, and all of their threads busy then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from rocketline.logs import Throttle
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Handler, failure
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response

T = TypeVar("T")
_O = TypeVar("_O", bound=Outcome)
Steps: TypeAlias = Generator[None, None, T]
"""Work that yields after each step, and returns what it was for."""

LARGE_BODY_BYTES: Final = 32 * 1024
"""Reading it takes some milliseconds."""
_REQUEST_BYTES: Final = 1024
"""What a request costs besides its body and its fields."""
_CONGESTED_S: Final = 0.01
"""When to look again if nobody takes what was answered before."""


def put_off(handler: Handler, channel: Channel, request: Command) -> Steps[Outcome]:
    """What the handler does, in a turn of its own."""
    yield
    return handler(channel, request)


def at_once(steps: Steps[T]) -> T:
    """What the steps lead to, without a pause: for what is known to be short."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingBounds:
    """How many requests may wait for their turn, and how many bytes; one more is answered SYSTEM_BUSY."""

    count_max: int = 256
    """In all, each with what its first step found."""
    of_one_max: int = 32
    """On one connection."""
    bytes_max: int = 256 * 1024 * 1024
    bytes_of_one_max: int = 32 * 1024 * 1024
    """Two of the largest frames."""
    first_bytes_max: int = 1024 * 1024
    """One request of up to so many bytes of each connection may wait, though others have as much waiting as may be;
    until twice as much waits. Then"""
    small_bytes_max: int = 64 * 1024
    """one of so many may: hardly more than the connection takes itself."""


@dataclass(slots=True, eq=False)
class _Job:
    channel: Channel
    request: Command
    steps: Steps[Outcome]
    is_change: bool
    key: object
    size: int


@dataclass(slots=True)
class _Load:
    """What waits, of one connection or in all."""

    count: int = 0
    size: int = 0

    def add(self, job: _Job) -> None:
        self.count += 1
        self.size += job.size

    def remove(self, job: _Job) -> None:
        self.count -= 1
        self.size -= job.size


class _Line:
    """The jobs of one connection, in the order in which they came."""

    __slots__ = ("jobs", "load")

    def __init__(self) -> None:
        self.jobs: dict[_Job, None] = {}
        self.load = _Load()


class LongWork:
    """The line of requests that are being worked on. Java: the threads of a processor.

    Whoever takes no answers gets none made, and whoever is gone is dropped when it is its turn.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], object],
        log: Throttle,
        bounds: WaitingBounds | None = None,
    ) -> None:
        self._call_later, self._log = call_later, log
        self._bounds = bounds or WaitingBounds()
        self._lines: dict[Channel, _Line] = {}
        """By connection; the first connection is at work, and goes to the end with every answer."""
        self._by_key: dict[object, dict[_Job, None]] = {}
        self._load = _Load()
        self._is_due = False

    def __len__(self) -> int:
        return self._load.count

    @property
    def waiting_bytes(self) -> int:
        """What the requests that wait take."""
        return self._load.size

    def guarded(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """The same handlers; but a request with a large body, which takes tens of milliseconds to read, has a turn of
        the loop for itself: six connections with such bodies hold others up for one of them at a time."""
        return {code: self._guarded(handler) for code, handler in handlers.items()}

    def _guarded(self, handler: Handler) -> Handler:
        def guarded(channel: Channel, request: Command) -> Outcome:
            if len(request.body) < LARGE_BODY_BYTES:
                return handler(channel, request)
            return self.begin(channel, request, put_off(handler, channel, request), is_change=True)

        return guarded

    def begin(
        self,
        channel: Channel,
        request: Command,
        steps: Steps[_O],
        *,
        is_change: bool = False,
        key: object = None,
        is_short: bool = False,
    ) -> Outcome:
        """What a handler returns: the answer, if one step was enough. Raises what the first step raises.

        `is_change`: it is done to its end even if nobody waits for the answer any more. `key` is what `cancel` knows it
        by; of one connection what has the same key is done in the order in which it came. `is_short`: all its steps
        together are no more than one.
        """
        job = _Job(channel, request, steps, is_change, key, _size(request))
        line = self._lines.get(channel, _Line())
        refusal = self._refusal(job, line.load)
        if refusal and is_change:  # before it has changed anything
            steps.close()
            return response(ResponseCode.SYSTEM_BUSY, refusal)
        if key is None or not any(other.channel is channel for other in self._by_key.get(key, ())):
            done = _first_steps(job, is_short=is_short)
            if done is not None:
                return done[0]
        if refusal:
            steps.close()
            return response(ResponseCode.SYSTEM_BUSY, refusal)
        self._lines[channel] = line
        self._enter(job, line)
        if not self._is_due:
            self._go_on(0)
        return LATER

    def cancel(self, key: object, problem: str, *, spared: Channel | None = None) -> None:
        """What waits under this key is not wanted any more, unless it is of the `spared` connection; whoever waits for
        it is told the problem."""
        cancelled = [job for job in self._by_key.get(key, ()) if job.channel is not spared]
        for job in cancelled:
            self._leave(job, self._lines[job.channel])
            job.steps.close()
        for job in cancelled:  # last: it may let further requests of its connection in
            job.channel.reply(job.request, response(ResponseCode.SYSTEM_ERROR, problem))

    def close(self) -> None:
        """Do changes that were begun to their end; nobody is answered any more."""
        for job in [job for line in self._lines.values() for job in line.jobs if job.is_change]:
            while not self._step(job):
                continue
        self._lines.clear()
        self._by_key.clear()
        self._load = _Load()

    def _refusal(self, job: _Job, own: _Load) -> str:
        bounds, all_ = self._bounds, self._load
        is_crowded = all_.size + job.size > 2 * bounds.bytes_max
        first_bytes_max = min(bounds.first_bytes_max, bounds.small_bytes_max if is_crowded else bounds.first_bytes_max)
        if not own.count and job.size <= first_bytes_max:
            return ""
        is_many = all_.count >= bounds.count_max or own.count >= bounds.of_one_max
        is_much = all_.size + job.size > bounds.bytes_max or own.size + job.size > bounds.bytes_of_one_max
        if not (is_many or is_much):
            return ""
        return (
            f"[OVERLOAD]{all_.count} requests of {all_.size} bytes that take long wait already, {own.count} of "
            f"{own.size} bytes of this connection: try again"
        )

    def _enter(self, job: _Job, line: _Line) -> None:
        line.jobs[job] = None
        line.load.add(job)
        self._load.add(job)
        if job.key is not None:
            self._by_key.setdefault(job.key, {})[job] = None

    def _leave(self, job: _Job, line: _Line) -> None:
        del line.jobs[job]
        line.load.remove(job)
        self._load.remove(job)
        if not line.jobs:
            del self._lines[job.channel]
        if job.key is not None:
            same = self._by_key[job.key]
            del same[job]
            if not same:
                del self._by_key[job.key]

    def _go_on(self, delay_s: float) -> None:
        self._is_due = True
        self._call_later(delay_s, self._turn)

    def _turn(self) -> None:
        """One step of one request."""
        self._is_due = False
        job = next(self._due(), None)
        if job is None:
            if self._lines:
                self._go_on(_CONGESTED_S)
            return
        done = () if job.channel.is_closed and not job.is_change else self._step(job)
        if done is not None:
            self._end(job)
        if self._lines:
            self._go_on(0)
        if done:  # last: it may let further requests of its connection in
            self._answer(job, *done)

    def _due(self) -> Iterator[_Job]:
        """The first of each connection that takes answers; one that is gone looks as if it took none."""
        for channel, line in self._lines.items():
            if channel.is_closed or not channel.is_congested:
                yield next(iter(line.jobs))

    def _end(self, job: _Job) -> None:
        """The work is done or dropped, and its connection has had its turn."""
        line = self._lines[job.channel]
        job.steps.close()
        self._leave(job, line)
        if line.jobs:
            del self._lines[job.channel]
            self._lines[job.channel] = line

    def _answer(self, job: _Job, outcome: Outcome) -> None:
        if isinstance(outcome, Command):
            job.channel.reply(job.request, outcome)
        elif outcome is None:
            job.channel.reply_bytes(b"", 1)

    def _step(self, job: _Job) -> tuple[Outcome] | None:
        """What came of it, if this was the last step."""
        try:
            return _stepped(job)
        except Exception as error:  # noqa: BLE001  # as in a handler, it ends nothing but this request
            return (failure(error, self._log, job.channel, job.request),)


def _first_steps(job: _Job, *, is_short: bool) -> tuple[Outcome] | None:
    done = _stepped(job)
    while is_short and done is None:
        done = _stepped(job)
    return done


def _stepped(job: _Job) -> tuple[Outcome] | None:
    try:
        next(job.steps)
    except StopIteration as done:
        outcome: Outcome = done.value
        return (outcome,)
    return None


def _size(request: Command) -> int:
    fields = sum(len(name) + len(text) for name, text in request.ext.items())
    return _REQUEST_BYTES + len(request.body) + fields
