"""Requests that take long, done in steps: one step a turn of the loop, whoever asks and however many do.

A handler that has to look at thousands of things does not do so in one go. It writes its work down as a generator that
yields after every step of about a millisecond and returns the answer, and hands it to `LongWork`. What is done with its
first step, as nearly everything is, is answered at once and waits for nobody.

Of the rest one is at work at any time, so that there is one half-made answer in memory and not hundreds; connections
take turns. Differs: Apache's broker has threads for it, and all of its threads busy then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from rocketline.logs import Throttle
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Handler, failure
from rocketline.wire.bodies import encode_in_parts
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response

T = TypeVar("T")
_O = TypeVar("_O", bound=Outcome)
Steps: TypeAlias = Generator[None, None, T]
"""Work that yields after each step, and returns what it was for."""

WAITING_MAX: Final = 256
"""Requests in all that wait for their turn, each with what its first step found; one more is answered SYSTEM_BUSY."""
WAITING_OF_ONE_MAX: Final = 32
"""Of these, on one connection."""
QUEUES_A_STEP: Final = 32
"""Of a topic, where each costs some ten microseconds."""
_STEP_BYTES: Final = 16 * 1024
"""Of an answer that is being written: as long as it takes to look at so many queues."""
LARGE_BODY_BYTES: Final = 32 * 1024
"""Reading it takes some milliseconds."""
_CONGESTED_S: Final = 0.01
"""When to look again if nobody takes what was answered before."""


def each_with_pause(things: Iterable[T], pause_after: int = QUEUES_A_STEP) -> Iterator[tuple[T, bool]]:
    """Each of the things, and whether a step ends with it."""
    for number, thing in enumerate(things, 1):
        yield thing, number % pause_after == 0


def encoded(body: object) -> Steps[bytes]:
    """A body that may be large, written in steps."""
    pieces, size = [], 0
    for piece in encode_in_parts(body):
        pieces.append(piece)
        size += len(piece)
        if size >= _STEP_BYTES:
            size = 0
            yield
    return b"".join(pieces)


def answered(body: object, ext: dict[str, str] | None = None) -> Steps[Command]:
    """Success, with such a body."""
    return response(ResponseCode.SUCCESS, ext=ext, body=(yield from encoded(body)))


def answered_with(body: Steps[object]) -> Steps[Command]:
    """Success, with a body that is made and written in steps."""
    return (yield from answered((yield from body)))


def put_off(handler: Handler, channel: Channel, request: Command) -> Steps[Outcome]:
    """What the handler does, in a turn of its own."""
    yield
    return handler(channel, request)


@dataclass(slots=True)
class _Job:
    channel: Channel
    request: Command
    steps: Steps[Outcome]
    is_change: bool


class LongWork:
    """The line of requests that are being worked on. Java: the threads of the admin processor."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object], log: Throttle) -> None:
        self._call_later, self._log = call_later, log
        self._waiting: dict[Channel, deque[_Job]] = {}
        """By connection; the first connection is at work, and goes to the end with every answer."""
        self._count = 0
        self._is_due = False

    def __len__(self) -> int:
        return self._count

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

    def begin(self, channel: Channel, request: Command, steps: Steps[_O], *, is_change: bool = False) -> Outcome:
        """What a handler returns: the answer, if one step was enough. `is_change`: it is done to its end even if
        nobody waits for the answer any more. Raises what the first step raises."""
        try:
            next(steps)
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome
        jobs = self._waiting.get(channel, ())
        if self._count >= WAITING_MAX or len(jobs) >= WAITING_OF_ONE_MAX:
            problem = f"[OVERLOAD]{self._count} requests that take long wait already, {len(jobs)} of this connection"
            return response(ResponseCode.SYSTEM_BUSY, f"{problem}: try again")
        self._waiting.setdefault(channel, deque()).append(_Job(channel, request, steps, is_change))
        self._count += 1
        if not self._is_due:
            self._go_on(0)
        return LATER

    def close(self) -> None:
        """Do changes that were begun to their end; nobody is answered any more."""
        for job in [job for jobs in self._waiting.values() for job in jobs if job.is_change]:
            while not self._step(job):
                continue
        self._waiting.clear()
        self._count = 0

    def _go_on(self, delay_s: float) -> None:
        self._is_due = True
        self._call_later(delay_s, self._turn)

    def _turn(self) -> None:
        """One step of one request. Whoever does not take its answers gets no more of them made."""
        self._is_due = False
        job = next((jobs[0] for channel, jobs in self._waiting.items() if not channel.is_congested), None)
        if job is None:
            if self._waiting:
                self._go_on(_CONGESTED_S)
            return
        done = () if job.channel.is_closed and not job.is_change else self._step(job)
        if done is not None:
            self._leave(job)
        if self._waiting:
            self._go_on(0)
        if done:  # last: it may let further requests of its connection in
            self._answer(job, *done)

    def _answer(self, job: _Job, outcome: Outcome) -> None:
        if isinstance(outcome, Command):
            job.channel.reply(job.request, outcome)
        elif outcome is None:
            job.channel.reply_bytes(b"", 1)

    def _leave(self, job: _Job) -> None:
        jobs = self._waiting.pop(job.channel)
        jobs.popleft()
        self._count -= 1
        if jobs:
            self._waiting[job.channel] = jobs

    def _step(self, job: _Job) -> tuple[Outcome] | None:
        """What came of it, if this was the last step."""
        try:
            next(job.steps)
        except StopIteration as done:
            outcome: Outcome = done.value
            return (outcome,)
        except Exception as error:  # noqa: BLE001  # as in a handler, it ends nothing but this request
            return (failure(error, self._log, job.channel, job.request),)
        return None
