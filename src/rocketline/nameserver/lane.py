"""Work that takes longer than a request may: done in steps, one a turn of the loop, one job after another.

However many connections ask for such work, whoever asks for something else waits for one step and no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketline.logs import Throttle
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import failure
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response

BYTES_MAX: Final = 256 * 1024 * 1024
CONNECTION_BYTES_MAX: Final = 32 * 1024 * 1024
"""Requests that wait for their turn, in all and of one connection: two of the largest frames."""
SHORT_BYTES: Final = 8 * 1024
"""A body that is read in a few milliseconds, whatever is in it."""
_REQUEST_BYTES: Final = 1024
"""What a request costs besides its body."""

Work: TypeAlias = Generator[None, None, Command]
"""Yields between two steps of a few milliseconds, and returns the answer. It may raise."""


@dataclass(slots=True)
class _Job:
    channel: Channel
    request: Command
    work: Work
    key: object

    @property
    def size(self) -> int:
        return len(self.request.body) + _REQUEST_BYTES


class Lane:
    """Jobs in the order in which they came. A job whose connection is gone is dropped."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], log: Throttle) -> None:
        self._call_soon, self._log = call_soon, log
        self._jobs: deque[_Job] = deque()
        self._bytes = 0
        self._bytes_by_channel: dict[Channel, int] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def do(
        self, channel: Channel, request: Command, work: Work, key: object = None, *, is_short: bool = False
    ) -> Outcome:
        """Have it done, and answered: at once if it `is_short` and follows none with the same key, or if nobody waits
        and its first step is the last.

        `key` is what `cancel` knows it by.
        """
        job = _Job(channel, request, work, key)
        is_short = is_short and (key is None or all(waiting.key != key for waiting in self._jobs))
        if is_short or not self._jobs:
            answer = self._step(job)
            while is_short and answer is None:
                answer = self._step(job)
            if answer is not None:
                return answer
        own = self._bytes_by_channel.get(channel, 0) + job.size
        if own > CONNECTION_BYTES_MAX or self._bytes + job.size > BYTES_MAX:
            return response(ResponseCode.SYSTEM_BUSY, "too many large requests wait for their turn: try again")
        self._bytes_by_channel[channel] = own
        self._bytes += job.size
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._call_soon(self._turn)
        return LATER

    def cancel(self, key: object) -> None:
        """What waits under this key is not wanted any more."""
        answer = response(ResponseCode.SYSTEM_ERROR, "another request of the same broker came before this was done")
        for job in [job for job in self._jobs if job.key == key]:
            self._jobs.remove(job)
            self._end(job, answer)

    def _turn(self) -> None:
        while self._jobs and self._jobs[0].channel.is_closed:
            self._end(self._jobs.popleft(), None)
        if not self._jobs:
            return
        job = self._jobs[0]
        answer = self._step(job)
        if answer is not None and self._jobs and self._jobs[0] is job:
            self._jobs.popleft()
            self._end(job, answer)
        if self._jobs:
            self._call_soon(self._turn)

    def _end(self, job: _Job, answer: Command | None) -> None:
        self._bytes -= job.size
        left = self._bytes_by_channel[job.channel] - job.size
        if left:
            self._bytes_by_channel[job.channel] = left
        else:
            del self._bytes_by_channel[job.channel]
        job.work.close()
        if answer is not None:
            job.channel.reply(job.request, answer)

    def _step(self, job: _Job) -> Command | None:
        """One step; the answer if it was the last."""
        try:
            next(job.work)
        except StopIteration as end:
            answer: Command = end.value
            return answer
        except Exception as error:  # noqa: BLE001  # as in a handler, it ends nothing but this request
            return failure(error, self._log, job.channel, job.request)
        return None
