"""What was measured of brokers, as values; medians of it, and what they shall reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any, NamedTuple

from benchmarks.crash import Restart
from benchmarks.loadgen import LoadResult, Shape
from benchmarks.tables import Goal, Row, row_values
from benchmarks.timers import Timers

TITLE = "Brokers: medians, and as a multiple of Apache's"

MANY, SINGLE, ONE = Shape(8, 64), Shape(64, 1), Shape(1, 64)
"""Some busy clients; callers who each wait for their answer; one busy client."""
FEW = Shape(8, 1)
"""Some consumers that pop."""


class Work(StrEnum):
    """What the broker is loaded with."""

    SEND = "send"
    PULL = "pull"
    SYNC = "sync"
    """Sends, each answered once it is on the disk."""
    POP = "pop"
    """Pops of 32 messages, each of which is acknowledged by itself."""
    POP_BATCH = "pop-batch"
    """The same, acknowledged in one go."""


POPS = frozenset({Work.POP, Work.POP_BATCH})


class Workload(NamedTuple):
    work: Work
    shape: Shape
    body: int

    def __str__(self) -> str:
        return f"{self.work} {self.shape}, {self.body:,} B"


@dataclass(slots=True, kw_only=True)
class Measured:
    """Everything that was measured of one broker."""

    label: str
    start_ms: list[float] = field(default_factory=list)
    """From the start of the process, on an empty store, until a message was stored."""
    start_cpu_ms: list[float] = field(default_factory=list)
    """That it used for this."""
    idle_rss_mb: list[float] = field(default_factory=list)
    loads: dict[Workload, list[LoadResult]] = field(default_factory=dict)
    loaded_rss_mb: float = 0
    restarts: dict[int, Restart] = field(default_factory=dict)
    """After a kill, by size of body."""
    timers: Timers | None = None

    def load_median(self, workload: Workload, name: str) -> float:
        return float(median(getattr(result, name) for result in self.loads[workload]))

    def refused(self, workload: Workload) -> int:
        return sum(refusal.count for result in self.loads[workload] for refusal in result.refusals)


_SEND_RATES = {MANY: 1.0, ONE: 1.2, SINGLE: 0.8}
_SYNC_RATE, _PULL_RATE, _POP_RATE = 0.9, 0.6, 1.0
_SEND_COST = Goal(limit=1, is_ratio=True)
_START_MS = Goal(limit=500, is_ratio=False)
_IDLE_MB = Goal(limit=100, is_ratio=False)
_RESTART_S = {100: Goal(limit=20, is_ratio=False), 1024: Goal(limit=5, is_ratio=False)}
_TIMER_LATE_MS = Goal(limit=1200, is_ratio=False)
"""A step of the wheel, and a fifth of a second."""
_NOT_EARLY = Goal(limit=0, is_ratio=False, is_more_better=True)
_NONE_REFUSED = Goal(limit=0, is_ratio=False)


def _rate_goal(workload: Workload) -> Goal | None:
    by_work = {Work.SEND: _SEND_RATES.get(workload.shape), Work.SYNC: _SYNC_RATE, Work.PULL: _PULL_RATE}
    limit = _POP_RATE if workload.work in POPS else by_work[workload.work]
    return Goal(limit=limit, is_ratio=True, is_more_better=True) if limit else None


def rows(measured: Sequence[Measured], crash_log_bytes: int) -> Iterator[Row]:
    """Every line of the table: whatever was measured of all."""
    workloads = [load for load in measured[0].loads if all(load in server.loads for server in measured)]
    for workload in workloads:
        yield from _load_rows(workload, measured)
    if all(server.start_ms for server in measured):
        starts = tuple(median(server.start_ms) for server in measured)
        yield Row(section="process", name="start to first message, ms", values=starts, goal=_START_MS)
        costs = tuple(median(server.start_cpu_ms) for server in measured)
        yield Row(section="process", name="CPU for that, ms", values=costs)
        idle = tuple(median(server.idle_rss_mb) for server in measured)
        yield Row(section="process", name="memory when idle, MB", values=idle, goal=_IDLE_MB)
    if all(server.loaded_rss_mb for server in measured):
        loaded = tuple(server.loaded_rss_mb for server in measured)
        yield Row(section="process", name="memory after the load, MB", values=loaded)
    for body in [body for body in measured[0].restarts if all(body in server.restarts for server in measured)]:
        restarts, section = [server.restarts[body] for server in measured], f"start after a kill, {body:,} B"
        size = f"{crash_log_bytes >> 20:,} MiB"
        seconds = tuple(restart.seconds for restart in restarts)
        yield Row(section=section, name=f"{size} of log, s", values=seconds, goal=_RESTART_S.get(body))
        yield Row(section=section, name="CPU for that, s", values=tuple(restart.cpu_s for restart in restarts))

    yield from _timer_rows([server.timers for server in measured if server.timers is not None], len(measured))


def _timer_rows(found: Sequence[Timers], wanted: int) -> Iterator[Row]:
    if len(found) < wanted:
        return
    section = f"{found[0].pending:,} timers pending"
    figures: tuple[tuple[str, str, Callable[[Timers], float], Goal | None], ...] = (
        (section, "memory for them, MB", lambda one: one.rss_mb, None),
        (section, "start with them, s", lambda one: one.start_s, None),
        (section, "the first was late by, ms", lambda one: one.spread.first_ms, _NOT_EARLY),
        (section, "99 % were late by at most, ms", lambda one: one.spread.p99_ms, _TIMER_LATE_MS),
        (f"{found[0].burst.messages:,} due in a second", "the first was late by, ms", _first_of_burst, _NOT_EARLY),
        (f"{found[0].burst.messages:,} due in a second", "the last was late by, ms", _last_of_burst, None),
        (f"{found[0].burst.messages:,} due in a second", "CPU per message, µs", lambda one: one.cpu_us, None),
    )
    for part, name, figure, goal in figures:
        yield Row(section=part, name=name, values=tuple(figure(one) for one in found), goal=goal)


def _first_of_burst(timers: Timers) -> float:
    return timers.burst.first_ms


def _last_of_burst(timers: Timers) -> float:
    return timers.burst.last_ms


def _load_rows(workload: Workload, measured: Sequence[Measured]) -> Iterator[Row]:
    cost_goal = None if workload.work is Work.PULL else _SEND_COST
    figures = (
        ("messages_per_s", "messages per second", _rate_goal(workload)),
        ("server_cpu_us_per_message", "CPU per message, µs", cost_goal),
        ("p50_us", "median latency, µs", None),
        ("p99_us", "99th percentile, µs", None),
    )
    section = str(workload)
    for figure, name, goal in figures:
        values = tuple(server.load_median(workload, figure) for server in measured)
        is_rate = figure == "messages_per_s"
        yield Row(section=section, name=name, values=values, is_more_better=is_rate, goal=goal)
    refused = tuple(float(server.refused(workload)) for server in measured)
    if any(refused):
        yield Row(section=section, name="refused in all rounds", values=refused, goal=_NONE_REFUSED)


def goal_lines(lines: Sequence[Row], labels: Sequence[str]) -> Iterator[str]:
    """How many goals each of ours has met, and which not."""
    goals = [(line, line.goal) for line in lines if line.goal]
    for index, label in enumerate(labels[1:], start=1):
        missed = [line for line, goal in goals if not goal.is_met(line.values[index], line.values[0])]
        outcome = "[green]all goals met[/]" if not missed else f"[red]missed {len(missed)} of {len(goals)} goals[/]"
        yield f"{label}: {outcome}"
        yield from (f"  {line.section}: {line.name} {line.values[index]:,.1f}, goal {line.goal}" for line in missed)


def document(date: str, plan: dict[str, Any], measured: Sequence[Measured], lines: Sequence[Row]) -> dict[str, Any]:
    """Everything, every single run included, for the file."""
    labels = [server.label for server in measured]
    return {
        "date": date,
        "plan": plan,
        "table": [row_values(line, labels) for line in lines],
        "runs": [asdict(server) | {"loads": _loads(server)} for server in measured],
    }


def _loads(server: Measured) -> dict[str, list[dict[str, Any]]]:
    return {str(workload): [asdict(run) for run in runs] for workload, runs in server.loads.items()}
