"""What was measured in and out of Spark, as a table; the goals, and whether they are met; and a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from benchmarks import tables
from benchmarks.spark_meter import JVM, PYTHON, Run

KAFKA, PROMPT, PARQUET = "Kafka", "Kafka, prompt", "Parquet"
OURS, OURS_ALL = "our broker", "our broker, 13 columns"
APACHE, APACHE_ALL = "Apache's broker", "Apache's broker, 13 columns"
STORE = "store folder"
READ, LAND, SINK = "read to noop", "land in Parquet", "write"
_ORDER = (KAFKA, PROMPT, PARQUET, OURS, OURS_ALL, APACHE, APACHE_ALL, STORE)


@dataclass(frozen=True, slots=True)
class Case:
    """What is compared: the kind of work and the size of the bodies."""

    work: str
    body_bytes: int

    def __str__(self) -> str:
        return f"{self.work}, {self.body_bytes:,} B"


@dataclass(frozen=True, slots=True)
class SparkGoal:
    """How many times as many rows per second as another contender."""

    work: str
    contender: str
    other: str
    ratio: float


GOALS = (
    *(SparkGoal(work, OURS, KAFKA, 1.0) for work in (READ, LAND)),
    *(SparkGoal(work, OURS, PROMPT, 0.5) for work in (READ, LAND)),
    *(SparkGoal(work, APACHE, KAFKA, 0.7) for work in (READ, LAND)),
    *(SparkGoal(work, APACHE, PROMPT, 0.35) for work in (READ, LAND)),
    SparkGoal(READ, STORE, PARQUET, 0.4),
    SparkGoal(SINK, OURS, KAFKA, 0.3),
    SparkGoal(SINK, APACHE, KAFKA, 0.3),
)


@dataclass(frozen=True, slots=True)
class Latency:
    """From the time a message was stored to the end of the micro-batch that had it, in milliseconds."""

    p50_ms: float
    p99_ms: float
    messages: int
    batches: int
    other_cores: float


@dataclass(slots=True)
class Results:
    """Everything that was measured."""

    runs: dict[Case, dict[str, list[Run]]] = field(default_factory=dict)
    latencies: dict[str, Latency] = field(default_factory=dict)

    def add(self, case: Case, contender: str, run: Run) -> None:
        self.runs.setdefault(case, {}).setdefault(contender, []).append(run)

    def rate(self, case: Case, contender: str) -> float | None:
        runs = self.runs.get(case, {}).get(contender)
        return median(run.rows_per_s for run in runs) if runs else None

    def all_runs(self) -> list[Run]:
        return [run for contenders in self.runs.values() for runs in contenders.values() for run in runs]


def rate_table(results: Results) -> Table:
    """Medians: rows per second, as a multiple of Kafka's both ways, and processor time per row on each side."""
    shown = Table(title="Spark, local[2]: medians")
    for name in ("", "contender"):
        shown.add_column(name)
    columns = ("rows/s", "× Kafka", "× prompt", "× Parquet", "JVM µs", "Python µs", "broker µs", "others, cores")
    for name in columns:
        shown.add_column(name, justify="right")
    for case, contenders in results.runs.items():
        for number, contender in enumerate(sorted(contenders, key=_ORDER.index)):
            cells = _cells(results, case, contender, contenders[contender])
            is_last = number + 1 == len(contenders)
            shown.add_row("" if number else str(case), contender, *cells, end_section=is_last)
    return shown


def _cells(results: Results, case: Case, contender: str, runs: Sequence[Run]) -> Iterator[str]:
    rate = median(run.rows_per_s for run in runs)
    yield f"{rate:,.0f}"
    for other in (KAFKA, PROMPT, PARQUET):
        base = results.rate(case, other)
        yield f"{rate / base:.2f}" if base and other != contender else ""
    yield f"{median(run.cpu_us_per_row(JVM) for run in runs):.2f}"
    yield f"{median(run.cpu_us_per_row(PYTHON) for run in runs):.2f}"
    yield f"{median(_broker_us(run) for run in runs):.2f}"
    yield f"{median(run.other_cores for run in runs):.2f}"


def _broker_us(run: Run) -> float:
    return sum(run.cpu_us_per_row(side) for side in run.cpu_s if side not in (JVM, PYTHON))


def latency_table(results: Results) -> Table:
    shown = Table(title="From stored to the end of its micro-batch, 1,000 messages a second")
    shown.add_column("contender")
    for name in ("p50, ms", "p99, ms", "messages", "micro-batches"):
        shown.add_column(name, justify="right")
    for contender, seen in results.latencies.items():
        shown.add_row(contender, f"{seen.p50_ms:.0f}", f"{seen.p99_ms:.0f}", f"{seen.messages:,}", f"{seen.batches:,}")
    return shown


def goal_lines(results: Results) -> Iterator[str]:
    """Each goal, for each size of bodies, and whether it is met."""
    for goal in GOALS:
        for case in results.runs:
            rate, other = results.rate(case, goal.contender), results.rate(case, goal.other)
            if case.work == goal.work and rate and other:
                reached = rate / other
                mark = "[green]met[/]" if reached >= goal.ratio else "[red]missed[/]"
                yield f"{case}: {goal.contender} {reached:.2f}× {goal.other}, goal {goal.ratio:g}×: {mark}"


def noise_line(results: Results) -> str:
    others = [run.other_cores for run in results.all_runs()]
    share = f"Other work took {median(others):.2f} cores meanwhile, at most {max(others):.2f}."
    if median(others) > tables.QUIET_CORES_MAX:
        return f"{share} [red]Too much: only the CPU per row means anything. Repeat on a quiet machine.[/]"
    return f"{share} Compare contenders with each other, never with another run."


def document(date: str, plan: Mapping[str, Any], results: Results) -> dict[str, Any]:
    """Everything, every single run included, for the file."""
    return {
        "date": date,
        "plan": dict(plan),
        "runs": {
            str(case): {contender: [asdict(run) for run in runs] for contender, runs in contenders.items()}
            for case, contenders in results.runs.items()
        },
        "latencies": {contender: asdict(latency) for contender, latency in results.latencies.items()},
        "goals": [line.replace("[green]", "").replace("[red]", "").replace("[/]", "") for line in goal_lines(results)],
    }
