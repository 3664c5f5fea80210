"""A server in a child process: its output kept, its end certain."""

from __future__ import annotations

import atexit
import itertools
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from rocketline.errors import RocketlineError

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below the ports that the kernel hands out by itself, so that no outgoing connection takes one before its server."""
_PORTS_OF_A_PROCESS = 400

_POLL_S = 0.05
_TAIL_LINES = 40


class ServerFailedError(RocketlineError):
    """A server ended early, or did not get ready; the tail of its output is part of the text."""

    def __init__(self, name: str, problem: str, output: str) -> None:
        self.name, self.problem, self.output = name, problem, output
        super().__init__(f"{name} {problem}. The end of its output:\n{output or '(it wrote nothing)'}")


class ServerProcess:
    """A running child that listens on a loopback port.

    In its `with` block it is ready; after the block it is gone, whatever happened. Both output streams go to the file
    `output`. Standard input is a pipe that closes when we are gone, even by `kill -9`: a child who watches it does not
    outlive us.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        port: int,
        output: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.port, self.output = name, port, output
        self.address = f"{LOOPBACK}:{port}"
        self._command, self._environment = command, dict(environment or {})
        output.parent.mkdir(parents=True, exist_ok=True)
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as sink:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
                # Its own group: a Ctrl-C at the terminal is for the test run, which then ends us in its order.
                start_new_session=True,
            )

    def start_again(self) -> None:
        """Once it has ended: the same command on the same port, its output after that of the first."""
        self._reap()
        self._process = self._started()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, condition: Callable[[], bool], what: str, *, timeout_s: float = 60) -> None:
        """Return once `condition()` holds; raise `ServerFailedError` if the child ends or the time passes before."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if not self.is_running:
                raise ServerFailedError(self.name, f"ended with code {self._process.returncode}", self.tail())
            if time.monotonic() > deadline:
                raise ServerFailedError(self.name, f"was not {what} after {timeout_s:g} s", self.tail())
            time.sleep(_POLL_S)

    def wait_until_ready(self, *, timeout_s: float = 60) -> None:
        """Return once it accepts connections."""
        self.wait_until(lambda: accepts_connections(self.port), f"listening on port {self.port}", timeout_s=timeout_s)

    def log(self) -> str:
        """Everything that it wrote so far."""
        return self.output.read_text("utf-8", "replace")

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.log().splitlines()[-lines:])

    def pause(self) -> None:
        """SIGSTOP: it does nothing any more, and its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # a busy machine takes its time

    def resume(self) -> None:
        """SIGCONT: it goes on."""
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM: it was asked to end."""
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL: gone without a word. The kernel closes its connections."""
        self._process.kill()
        self._reap()

    def close(self, *, timeout_s: float = 20) -> int:
        """SIGTERM, and SIGKILL if that does not help in time. Gives the exit status. Does nothing the second time."""
        if self.is_running:
            self.terminate()
            self.resume()  # a paused process gets no SIGTERM
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._reap()

    def _reap(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()

    def __enter__(self) -> Self:
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def running(*servers: ServerProcess) -> Iterator[None]:
    """Servers that start side by side: all are ready in the block, all are gone after it."""
    with ExitStack() as stack:
        for server in servers:
            stack.push(server)
        for server in servers:
            server.wait_until_ready()
        yield


def accepts_connections(port: int) -> bool:
    """Whether someone listens on this loopback port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A port that nobody listens on, and neither on the one two below and the one above it.

    A broker takes all three: its own, the "VIP" port and the one for replication. No two calls get into each other's
    way, not even those of test runs side by side, of which one would otherwise talk to the other's server: each
    process has ports of its own, and goes through all of them before it gives one away again.
    """
    _, blocks = _own_ports()
    for block in itertools.islice(blocks, _PORTS_OF_A_PROCESS // 4):
        if all(_is_free(port) for port in range(block, block + 4)):
            return block + 2
    raise OSError(f"none of the {_PORTS_OF_A_PROCESS} ports of this process is free")


@cache
def _own_ports() -> tuple[socket.socket, Iterator[int]]:
    """The blocks of four ports that are this process's own, round and round; and what tells others that they are."""
    regions = range(_PORTS.start, _PORTS.stop, _PORTS_OF_A_PROCESS)
    for first in random.sample(regions, len(regions)):
        if (claim := _bind(first)) is not None:
            atexit.register(claim.close)
            return claim, itertools.cycle(range(first + 4, first + _PORTS_OF_A_PROCESS, 4))
    raise OSError(f"no free port between {_PORTS.start} and {_PORTS.stop}")


def _is_free(port: int) -> bool:
    if (probe := _bind(port)) is None:
        return False
    probe.close()
    return True


def _bind(port: int) -> socket.socket | None:
    """A socket with this port, None if somebody else has it."""
    bound = socket.socket()
    try:
        bound.bind(("", port))
    except OSError:
        bound.close()
        return None
    return bound
