"""The load generator as a Python call: compile `loadgen.c` once, run it, read the line it prints."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

_SOURCE = Path(__file__).with_name("loadgen.c")
_GRACE_S = 30
"""What a run may take beyond its own time, before it counts as stuck."""


class LoadError(Exception):
    """The run failed: the server refused, lost or broke a reply, or the generator could not be built or started."""


class Shape(NamedTuple):
    """How requests are spread: so many connections, each with so many requests open at any time."""

    connections: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.connections}×{self.in_flight}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one run measured."""

    requests_per_s: float
    server_cpu_us_per_request: float
    server_cores: float
    generator_cores: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    other_cores: float
    """What everything else on this machine took meanwhile. Near zero on a quiet machine."""
    load_average: float
    """Over the minute before the run."""


def build(cache: Path) -> Path:
    """The compiled generator, in `cache`; compiled only if its source has changed since."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise LoadError("No C compiler (cc) was found. On Debian and Ubuntu: apt-get install gcc libc6-dev")
    program = cache / f"loadgen-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(unfinished), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoadError(f"{compiler} could not compile {_SOURCE.name}:\n{done.stderr}")
        unfinished.replace(program)
    return program


def ask_routes(
    program: Path, *, port: int, pid: int, shape: Shape, prefix: str, topics: int, settle_s: float, measure_s: float
) -> LoadResult:
    """Ask for routes of `topics` topics at random. Raises `LoadError` if a single request failed."""
    # fmt: off
    command = [
        str(program), "route", "--port", str(port), "--pid", str(pid), "--prefix", prefix, "--topics", str(topics),
        "--connections", str(shape.connections), "--in-flight", str(shape.in_flight),
        "--warm", str(settle_s), "--seconds", str(measure_s),
    ]
    # fmt: on
    load_average = os.getloadavg()[0]
    busy_before = _busy_s()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=settle_s + measure_s + _GRACE_S)
    busy_s = _busy_s() - busy_before
    if done.returncode:
        raise LoadError(done.stderr.strip() or done.stdout.strip() or f"loadgen ended with {done.returncode}")
    seen: dict[str, Any] = json.loads(done.stdout)
    # The machine's counters span warm-up too; the run's own shares hold for both parts.
    other_cores = busy_s / (settle_s + measure_s) - seen["server_cores"] - seen["generator_cores"]
    measured = {name: seen[name] for name in LoadResult.__dataclass_fields__ if name in seen}
    return LoadResult(**measured, other_cores=max(0.0, round(other_cores, 3)), load_average=load_average)


def _busy_s() -> float:
    """Seconds that all processors together have spent on anything but idling and waiting, since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
