"""Each run of a pipeline has a number, higher than all before it: of two that believe to be the one, the higher counts.

`state/runs/12` says that run 12 has begun, where and when. Drivers that share a checkpoint share this folder, and only
one can make a file that is not there yet; a lock, which not every shared folder passes on, is not needed for that. The
number goes with each commit of a table (`tables/commits.py`), where an older run is refused for certain. That a newer
one has begun can be seen here earlier, before anything is written.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.clock import Clock, SystemClock
from rocketline.errors import SupersededError

FOLDER: Final = "runs"
_KEPT: Final = 10
"""How many are left for whoever wants to know who ran when."""


@dataclass(frozen=True, slots=True)
class Run:
    """One that has begun."""

    state: Path
    number: int
    token: int = 0
    """Drawn at random: two that got one number, on a share that makes a file twice, are told apart by it."""

    def refusal(self) -> SupersededError | None:
        """Why this one must end, if a newer one has begun, as far as can be seen.

        A share that fails for a moment, or shows what is new a little later, ends no run: the tables' commits decide.
        """
        try:
            newest = max(_numbers(self.state / FOLDER), default=0)
        except OSError:
            return None
        if newest <= self.number:
            return None
        return SupersededError(str(self.state), self.number, newest, _who(self.state / FOLDER / str(newest)))

    def check(self) -> None:
        """Raise `SupersededError` if a newer one has begun."""
        if (refusal := self.refusal()) is not None:
            raise refusal


def begin_run(state: Path, known: int, clock: Clock | None = None) -> Run:
    """Begin a run of the pipeline with this state folder. `known`: the highest number that its tables tell of.

    It counts if the folder is an older copy than the tables.
    """
    folder = state / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    told = {"host": socket.gethostname(), "pid": os.getpid(), "time_ms": (clock or SystemClock()).wall_ms()}
    while True:
        before = _numbers(folder)
        number = max([known, *before]) + 1
        try:
            with (folder / str(number)).open("x", encoding="utf-8") as file:
                json.dump(told, file)
        except FileExistsError:
            continue  # somebody begins at the same time
        for old in sorted(before)[:-_KEPT]:
            (folder / str(old)).unlink(missing_ok=True)
        return Run(state, number, secrets.randbits(63))


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()]


def _who(file: Path) -> str:
    """Who began a run; nothing if it is not written down yet."""
    try:
        told = json.loads(file.read_text("utf-8"))
        when = dt.datetime.fromtimestamp(told["time_ms"] / 1000, dt.UTC)
        return f"process {told['pid']} on {told['host']}, since {when:%Y-%m-%d %H:%M:%S} UTC"
    except (OSError, ValueError, KeyError):
        return ""
