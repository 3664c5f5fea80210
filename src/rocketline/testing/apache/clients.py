"""Apache's `mqadmin` and clients, in one JVM that lives for many calls: a start costs seconds, a call milliseconds."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rocketline.testing.apache.release import Release
from rocketline.testing.apache.servers import SMALL_JVM
from rocketline.testing.server_process import ServerFailedError


@dataclass(frozen=True, slots=True)
class MqadminOutput:
    """What a command printed. As with `mqadmin` itself, many a failure shows in `error` and nowhere else."""

    command: tuple[str, ...]
    status: int
    """0: the command ran to its end. 1: it was called wrongly, or threw."""
    out: str
    error: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many messages a producer sent and a consumer received, repeated deliveries counted and not."""

    sent: int
    received: int
    distinct: int
    problem: str = ""
    """What became of the first message that could not be sent."""


class ClientJvm:
    """Apache's client library in a child process; calls run one after the other.

    `properties` are Java system properties, such as `tls.enable` or `rocketmq.serialize.type`: the library reads them
    once, so that each choice needs a JVM of its own.
    """

    def __init__(self, release: Release, home: Path, *, properties: dict[str, str] | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._output = home / "output.txt"
        own = {"user.home": str(home), "rocketline.output": str(self._output), **(properties or {})}
        command = release.command("ClientDriver", jvm=["-Xmx256m", *SMALL_JVM], properties=own)
        with self._output.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                cwd=home,  # a few commands of `mqadmin` write files where they are called
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,
            )

    def mqadmin(self, name_servers: str, command: str, *arguments: str) -> MqadminOutput:
        """Run one command of `mqadmin` against these name servers (`host:port`, several with `;` between)."""
        status, out, error = self._call(command, *arguments, "-n", name_servers)
        return MqadminOutput((command, *arguments), status, out, error)

    def traffic(self, name_servers: str, topic: str, *, group: str, count: int, timeout_s: int = 60) -> Traffic:
        """Send `count` messages to a topic, then receive them with a push consumer of a new group."""
        sent = self._traffic("send", name_servers, topic, f"sync:0:{count}:0")
        wanted = (group, "concurrent", "*", str(count), str(timeout_s))
        received = self._traffic("consume", name_servers, topic, *wanted)["deliveries"]
        return Traffic(sent["sent"], len(received), len({number for number, *_ in received}), sent["problem"])

    def _traffic(self, command: str, *arguments: str) -> Any:
        status, out, error = self._call(command, *arguments)
        if status:
            raise ServerFailedError(command, f"{' '.join(arguments)} failed", error)
        return json.loads(out)

    def close(self) -> None:
        """End the JVM. It holds nothing that is worth a farewell."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout):
            pipe.close()

    def _call(self, *arguments: str) -> tuple[int, str, str]:
        try:
            self._stdin.write(_pack(arguments))
            self._stdin.flush()
            (status,) = struct.unpack(">i", self._read(4))
            return status, self._read_text(), self._read_text()
        except BaseException:
            # Whoever calls next must not read the rest of this answer.
            self._process.kill()
            raise

    def _read_text(self) -> str:
        (size,) = struct.unpack(">I", self._read(4))
        return self._read(size).decode("utf-8")

    def _read(self, size: int) -> bytes:
        data = self._stdout.read(size)
        if len(data) < size:
            raise ServerFailedError(
                "The JVM of Apache's clients", "has ended", self._output.read_text("utf-8", "replace")
            )
        return data

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def __enter__(self) -> ClientJvm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pack(arguments: Sequence[str]) -> bytes:
    texts = [text.encode("utf-8") for text in arguments]
    return struct.pack(">I", len(texts)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
