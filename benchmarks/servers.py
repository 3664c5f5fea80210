"""The name servers to compare, each in a process of its own on a free loopback port."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.registration import Registrar
from rocketline.testing.apache import ApacheNameServer, Release
from rocketline.testing.server_process import LOOPBACK, ServerFailedError, ServerProcess, free_port

APACHE_HEAP = "1g"
APACHE_JVM = ("-server", "-XX:+UseG1GC")
"""The collector that Apache's own start script asks for; the heap is more than a name server of this size fills."""

_START_TIMEOUT_S = 60
_SPEED_PACKAGES = ("uvloop", "msgspec")
_WITHOUT_SPEED = f"""
import sys
for package in {_SPEED_PACKAGES}:
    sys.modules[package] = None  # an import of it fails now, as if it were not installed
from rocketline.cli import main
main()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServer:
    """One that answers."""

    label: str
    process: ServerProcess
    start_s: float
    """From the start of the process to its first answer."""
    idle_rss_mb: float
    """Before it knew a single topic."""

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def pid(self) -> int:
        return self.process.pid


def start_apache(release: Release, home: Path) -> NameServer:
    """Apache's name server as its own script would run it, but for the size of the heap."""
    began = time.perf_counter()
    process = ApacheNameServer(release, home, heap=APACHE_HEAP, jvm=APACHE_JVM)
    return _answering(f"Apache {release.version}", process, began)


def start_rocketline(home: Path, *, has_speed: bool) -> NameServer:
    """Ours, with the packages of the extra `speed` or with their imports barred."""
    port = free_port()
    program = ["-m", "rocketline"] if has_speed else ["-c", _WITHOUT_SPEED]
    command = [sys.executable, *program, "nameserver", "--host", LOOPBACK, "--port", str(port)]
    label = "Rocketline, speed extra" if has_speed else "Rocketline, plain"
    began = time.perf_counter()
    process = ServerProcess(label, command, port=port, output=home / "output.txt", environment={"HOME": str(home)})
    server = _answering(label, process, began)
    _check_speed(server, has_speed)
    return server


def rss_mb(pid: int) -> float:
    """Memory that the process holds now, shared libraries included."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _answering(label: str, process: ServerProcess, began: float) -> NameServer:
    """The server, once it has answered its first query."""
    while not _answers(process.port):
        if not process.is_running or time.perf_counter() - began > _START_TIMEOUT_S:
            process.close()
            raise ServerFailedError(label, "did not come up", process.tail())
        time.sleep(0.001)
    start_s = time.perf_counter() - began
    return NameServer(label=label, process=process, start_s=start_s, idle_rss_mb=rss_mb(process.pid))


def _answers(port: int) -> bool:
    try:
        with Registrar(port) as asker:
            return asker.route("no-such-topic") is None
    except OSError:
        return False


def _check_speed(server: NameServer, has_speed: bool) -> None:
    """Refuse to measure one thing under the name of another: look at what the process has really loaded."""
    loaded = Path(f"/proc/{server.pid}/maps").read_text()
    if any((package in loaded) != has_speed for package in _SPEED_PACKAGES):
        server.process.close()
        wanted = "needs" if has_speed else "must not load"
        raise ServerFailedError(server.label, f"{wanted} {' and '.join(_SPEED_PACKAGES)}", server.process.tail())
