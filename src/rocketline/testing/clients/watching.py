"""A client's push consumer as a process that tells of each delivery at once, and can leave its group or be killed."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rocketline.testing.clients.program import GRACE_S, ClientFailedError, ClientProgram


class Watched(NamedTuple):
    """One message, when its listener was called with it."""

    number: int
    broker_name: str
    queue_id: int
    queue_offset: int
    reconsume_times: int
    time_ms: int
    """By the machine's clock, which all consumers here share."""


class Watcher:
    """A running consumer. After its `with` block it is gone: it has left its group, unless it was killed before."""

    def __init__(
        self,
        program: ClientProgram,
        name_servers: str,
        topic: str,
        group: str,
        *,
        mode: str = "concurrent",
        expression: str = "*",
    ) -> None:
        self.name = program.name
        self.deliveries: list[Watched] = []
        """What came so far. Another thread appends to it; nothing is ever taken away."""
        self._ready = threading.Event()
        self._output = program.home / f"watch-{group}-{time.monotonic_ns()}.txt"
        program.home.mkdir(parents=True, exist_ok=True)
        self._process = _start(
            [*program.command, "watch", name_servers, topic, group, mode, expression], program.home, self._output
        )
        self._reader = threading.Thread(target=self._read, name=f"watch-{self.name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Return once it has joined its group."""
        deadline_s = time.monotonic() + GRACE_S
        while not self._ready.wait(0.05):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                raise ClientFailedError(self.name, "did not begin to consume", self._tail())

    def leave(self) -> None:
        """Ask it to leave its group; return when its process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClientFailedError(self.name, f"did not leave in {GRACE_S} s", self._tail()) from None
        self._end()
        if status:
            raise ClientFailedError(self.name, f"left with code {status}", self._tail())

    def kill(self) -> None:
        """SIGKILL: it leaves without a word. Does nothing the second time."""
        self._process.kill()
        self._process.wait()
        self._end()

    def _end(self) -> None:
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                told = json.loads(line)
            except ValueError:
                continue  # cut short by a kill, or a library's own chatter
            if told == "ready":
                self._ready.set()
            elif isinstance(told, list):
                self.deliveries.append(Watched(*told))

    def _tail(self) -> str:
        return self._output.read_text("utf-8", "replace")[-4000:]

    def __enter__(self) -> Self:
        self.wait_until_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is not None or problem is not None:
            self.kill()
        else:
            self.leave()


def _start(command: Sequence[str], home: Path, output: Path) -> subprocess.Popen[str]:
    with output.open("ab") as sink:
        return subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, "HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
            start_new_session=True,
        )
