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


class Target(NamedTuple):
    """Who is asked: a loopback port, and the process behind it, whose CPU is counted."""

    port: int
    pid: int


class Span(NamedTuple):
    """How long: load before the measurement, so that it begins with everything connected and running, and in it."""

    settle_s: float
    measure_s: float
    successes_max: int | None = None
    """Ends the measurement earlier."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kind of answer that was no success."""

    code: int
    count: int
    remark: str
    """Of the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one run measured."""

    requests_per_s: float
    """Only successes count."""
    server_cpu_us_per_request: float
    messages_per_s: float
    """As many as requests, but for pulls and pops."""
    server_cpu_us_per_message: float
    server_cores: float
    generator_cores: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    succeeded: int
    """All requests that were answered with success, before and after the measurement too."""
    refusals: tuple[Refusal, ...]
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


def ask_routes(program: Path, target: Target, shape: Shape, span: Span, *, prefix: str, topics: int) -> LoadResult:
    """Ask for routes of `topics` topics at random. Raises `LoadError` if a single request failed."""
    result = _run(program, "route", target, shape, span, prefix=prefix, topics=topics)
    if result.refusals:
        raise LoadError(f"the server refused: {result.refusals}")
    return result


def send_messages(
    program: Path, target: Target, shape: Shape, span: Span, *, topic: str, queues: int, body: int
) -> LoadResult:
    """Send messages with bodies of `body` bytes to the queues of a topic in turn, as the Java client writes them."""
    return _run(program, "send", target, shape, span, topic=topic, queues=queues, body=body)


def pull_messages(
    program: Path, target: Target, shape: Shape, span: Span, *, topic: str, queues: int, depth: int, batch: int
) -> LoadResult:
    """Pull `batch` messages at a time from the queues in turn, from their start to `depth` and again.

    A success is a reply with messages that were asked for, each at its place; it may have fewer than `batch`.
    """
    return _run(program, "pull", target, shape, span, topic=topic, queues=queues, depth=depth, batch=batch)


def pop_messages(
    program: Path, target: Target, shape: Shape, span: Span, *, topic: str, broker: str, batch: int, is_batch_ack: bool
) -> LoadResult:
    """Pop `batch` messages at a time of any queue and acknowledge them, one by one or in one go; then the next ones.

    Each connection is a consumer; one group after the other has all messages of the topic. Messages count that were
    acknowledged, requests are pops and acknowledgements.
    """
    mode = "pop-batch" if is_batch_ack else "pop"
    return _run(program, mode, target, shape, span, topic=topic, broker=broker, batch=batch)


def _run(program: Path, mode: str, target: Target, shape: Shape, span: Span, **options: str | int) -> LoadResult:
    # fmt: off
    command = [
        str(program), mode, "--port", str(target.port), "--pid", str(target.pid),
        "--connections", str(shape.connections), "--in-flight", str(shape.in_flight),
        "--warm", str(span.settle_s), "--seconds", str(span.measure_s),
        *(part for name, value in options.items() for part in (f"--{name}", str(value))),
        *(("--count", str(span.successes_max)) if span.successes_max else ()),
    ]
    # fmt: on
    load_average = os.getloadavg()[0]
    busy_before = _busy_s()
    seen = _output(command, span.settle_s + span.measure_s + _GRACE_S)
    busy_s = _busy_s() - busy_before
    # The machine's counters span the load before the measurement too; the run's own shares hold for both parts.
    other_cores = busy_s / (span.settle_s + seen["seconds"]) - seen["server_cores"] - seen["generator_cores"]
    measured = {name: seen[name] for name in LoadResult.__dataclass_fields__ if name in seen}
    return LoadResult(
        **measured,
        refusals=tuple(Refusal(**failure) for failure in seen["failures"]),
        other_cores=max(0.0, round(other_cores, 3)),
        load_average=load_average,
    )


def _output(command: list[str], timeout_s: float) -> dict[str, Any]:
    """What the generator printed. Refused requests are figures, too; a lost one, or a lost connection, is an error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    if not done.stdout:
        raise LoadError(done.stderr.strip() or f"loadgen ended with {done.returncode}")
    seen: dict[str, Any] = json.loads(done.stdout)
    if seen["unanswered"]:
        raise LoadError(f"{seen['unanswered']} requests were never answered: {done.stdout.strip()}")
    return seen


def _busy_s() -> float:
    """Seconds that all processors together have spent on anything but idling and waiting, since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
