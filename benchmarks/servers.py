"""Servers to compare, each in a process of its own on a free loopback port: what all share, and the name servers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.loadgen import Target
from benchmarks.registration import Registrar
from rocketline.testing.apache import ApacheNameServer, Release
from rocketline.testing.server_process import LOOPBACK, ServerFailedError, ServerProcess, free_port

CACHE = Path(__file__).parents[1] / ".cache"
RESULTS = Path(__file__).with_name("results")

APACHE_HEAP = "1g"
APACHE_JVM = ("-server", "-XX:+UseG1GC")
"""The collector that Apache's own start script asks for; the heap is more than a name server of this size fills."""

_START_TIMEOUT_S = 60
_SPEED_PACKAGES = ("uvloop", "msgspec")
_EXTRA_PACKAGES = (*_SPEED_PACKAGES, "lz4", "zstandard")
_WITHOUT_EXTRAS = f"""
import runpy, sys
for package in {_EXTRA_PACKAGES}:
    sys.modules[package] = None  # an import of it fails now, as if it were not installed
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One that answers."""

    label: str
    process: ServerProcess
    start_s: float
    """From the start of the process to its first answer."""
    idle_rss_mb: float
    """Straight after that."""

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def target(self) -> Target:
        return Target(self.port, self.pid)


def start_apache(release: Release, home: Path) -> Server:
    """Apache's name server as its own script would run it, but for the size of the heap."""
    began = time.perf_counter()
    process = ApacheNameServer(release, home, heap=APACHE_HEAP, jvm=APACHE_JVM)
    return answering(f"Apache {release.version}", process, began, _obstacle_to_routes)


def start_rocketline(home: Path, *, has_speed: bool) -> Server:
    """Ours, with the packages of the extra `speed` or with the imports of all extras barred."""
    port = free_port()
    command = [*rocketline_command(has_speed=has_speed), "nameserver", "--host", LOOPBACK, "--port", str(port)]
    label = rocketline_label(has_speed=has_speed)
    began = time.perf_counter()
    process = ServerProcess(label, command, port=port, output=home / "output.txt", environment={"HOME": str(home)})
    server = answering(label, process, began, _obstacle_to_routes)
    check_speed(server, has_speed=has_speed)
    return server


def rocketline_command(*, has_speed: bool) -> list[str]:
    """How to call our command line: as it is, or as if no extra were installed."""
    return python_command("rocketline", has_speed=has_speed)


def python_command(module: str, *, has_speed: bool) -> list[str]:
    """How to run a module of ours, with the extras or as if none were installed."""
    return [sys.executable, *(("-m", module) if has_speed else ("-c", _WITHOUT_EXTRAS, module))]


def rocketline_label(*, has_speed: bool) -> str:
    return "Rocketline, speed extra" if has_speed else "Rocketline, plain"


def rss_mb(pid: int) -> float:
    """Memory that the process holds now, shared libraries included."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pid: int) -> float:
    """Processor time that the process has used so far, in all its threads: a figure for busy machines, too."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def answering(
    label: str,
    process: ServerProcess,
    began: float,
    obstacle: Callable[[int], str | None],
    *,
    timeout_s: float = _START_TIMEOUT_S,
) -> Server:
    """The server, once `obstacle` finds none at its port any more. Whatever happens before ends the process."""
    try:
        while problem := obstacle(process.port):
            if not process.is_running or time.perf_counter() - began > timeout_s:
                raise ServerFailedError(label, f"did not come up ({problem})", process.tail())
            time.sleep(0.001)
        start_s = time.perf_counter() - began
        return Server(label=label, process=process, start_s=start_s, idle_rss_mb=rss_mb(process.pid))
    except BaseException:
        process.kill()
        raise


def check_speed(server: Server, *, has_speed: bool) -> None:
    """Refuse to measure one thing under the name of another: look at what the process has really loaded."""
    loaded = Path(f"/proc/{server.pid}/maps").read_text()
    if any((package in loaded) != has_speed for package in _SPEED_PACKAGES):
        server.process.close()
        wanted = "needs" if has_speed else "must not load"
        raise ServerFailedError(server.label, f"{wanted} {' and '.join(_SPEED_PACKAGES)}", server.process.tail())


def _obstacle_to_routes(port: int) -> str | None:
    """Why a name server gives no answer yet."""
    try:
        with Registrar(port) as asker:
            asker.route("no-such-topic")
    except OSError as error:
        return str(error)
    return None
