"""What was measured, as values; medians and ratios of it; a table and a file to show them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table
from rich.text import Text

from benchmarks.loadgen import LoadResult, Shape

RATE_RATIO_MIN = 1.2
CPU_RATIO_MAX = 0.6
QUIET_CORES_MAX = 0.2
"""Beyond this, many threads win rate from few, whatever they cost: the scheduler shares by thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How long a broker with many topics waits."""

    first_ms: float
    """Until its first registration was answered."""
    served_ms: float
    """Until the route of its last topic was served, too."""
    unchanged_ms: float
    """Until the same registration was answered again, with the same data version."""
    changed_ms: float
    """… and once more, with a new data version."""
    gone_ms: float
    """From the close of its connection until the route of its last topic was gone."""


@dataclass(slots=True, kw_only=True)
class Measured:
    """Everything that was measured of one server."""

    label: str
    start_ms: list[float]
    idle_rss_mb: float
    loaded_rss_mb: float = 0
    loads: dict[Shape, list[LoadResult]] = field(default_factory=dict)
    registrations: list[Registration] = field(default_factory=list)
    longest_query_ms: list[float] = field(default_factory=list)
    """The longest that one of four clients waited for a route while a registration with many topics came in."""

    def load_median(self, shape: Shape, name: str) -> float:
        return float(median(getattr(result, name) for result in self.loads[shape]))

    def registration_median(self, name: str) -> float:
        return float(median(getattr(result, name) for result in self.registrations))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: the same figure of every server, Apache's first."""

    section: str
    name: str
    values: tuple[float, ...]
    is_more_better: bool = False

    def ratios(self) -> list[float]:
        """Each server's value as a multiple of Apache's."""
        return [value / self.values[0] if self.values[0] else float("nan") for value in self.values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one of our servers reached the goal beside Apache's."""

    label: str
    shape: str
    rate_ratio: float
    cpu_ratio: float
    is_met: bool


_LOAD_FIGURES = {
    "requests_per_s": "queries per second",
    "server_cpu_us_per_request": "CPU per query, µs",
    "p50_us": "median latency, µs",
    "p99_us": "99th percentile, µs",
    "p999_us": "99.9th percentile, µs",
}
_REGISTRATION_FIGURES = {
    "first_ms": "registered, ms",
    "served_ms": "… and its last route served, ms",
    "unchanged_ms": "again, unchanged, ms",
    "changed_ms": "again, new version, ms",
    "gone_ms": "gone after a lost connection, ms",
}


def rows(measured: Sequence[Measured], registered_topics: int) -> Iterator[Row]:
    """Every line of the table."""
    for shape in measured[0].loads:
        for figure, name in _LOAD_FIGURES.items():
            values = tuple(server.load_median(shape, figure) for server in measured)
            yield Row(section=str(shape), name=name, values=values, is_more_better=figure == "requests_per_s")
    section = f"{registered_topics:,} topics"
    for figure, name in _REGISTRATION_FIGURES.items():
        yield Row(section=section, name=name, values=tuple(server.registration_median(figure) for server in measured))
    longest = tuple(median(server.longest_query_ms) for server in measured)
    yield Row(section=section, name="longest query meanwhile, ms", values=longest)
    yield Row(section="process", name="start to first answer, ms", values=tuple(median(s.start_ms) for s in measured))
    yield Row(section="process", name="memory when idle, MB", values=tuple(s.idle_rss_mb for s in measured))
    yield Row(section="process", name="memory after the load, MB", values=tuple(s.loaded_rss_mb for s in measured))


def verdicts(measured: Sequence[Measured]) -> Iterator[Verdict]:
    """The goal is about the first shape that was measured."""
    shape = next(iter(measured[0].loads))
    rates = [server.load_median(shape, "requests_per_s") for server in measured]
    costs = [server.load_median(shape, "server_cpu_us_per_request") for server in measured]
    for server, rate, cost in list(zip(measured, rates, costs, strict=True))[1:]:
        rate_ratio, cpu_ratio = rate / rates[0], cost / costs[0]
        is_met = rate_ratio >= RATE_RATIO_MIN and cpu_ratio <= CPU_RATIO_MAX
        yield Verdict(label=server.label, shape=str(shape), rate_ratio=rate_ratio, cpu_ratio=cpu_ratio, is_met=is_met)


def table(lines: Sequence[Row], labels: Sequence[str]) -> Table:
    """Medians, and behind them the multiple of Apache's: green where ours is better, red where it is worse."""
    shown = Table(title="Name servers: medians, and as a multiple of Apache's")
    shown.add_column("")
    shown.add_column("")
    for label in labels:
        shown.add_column(label, justify="right")
    for index, line in enumerate(lines):
        is_first = index == 0 or lines[index - 1].section != line.section
        is_last = index + 1 == len(lines) or lines[index + 1].section != line.section
        cells = [Text(_number(line.values[0])), *map(_compared, line.values[1:], line.ratios()[1:], _signs(line))]
        shown.add_row(line.section if is_first else "", line.name, *cells, end_section=is_last)
    return shown


def _signs(line: Row) -> list[bool]:
    return [line.is_more_better] * len(line.values)


def _compared(value: float, ratio: float, is_more_better: bool) -> Text:
    is_better = ratio >= 1 if is_more_better else ratio <= 1
    return Text.assemble(_number(value), (f"  {ratio:5.2f}×", "green" if is_better else "red"))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def goal_lines(measured: Sequence[Measured]) -> Iterator[str]:
    """The goal, and one line for each of our servers."""
    shape = next(iter(measured[0].loads))
    yield f"Goal at {shape}: ≥ {RATE_RATIO_MIN}× Apache's rate at ≤ {CPU_RATIO_MAX} of its CPU per query"
    for verdict in verdicts(measured):
        outcome = "[green]met[/]" if verdict.is_met else "[red]missed[/]"
        yield f"  {verdict.label}: {verdict.rate_ratio:.2f}× at {verdict.cpu_ratio:.2f}, {outcome}"


def noise_line(measured: Sequence[Measured]) -> str:
    """How much of the machine was not ours while we measured."""
    others = [run.other_cores for server in measured for runs in server.loads.values() for run in runs]
    share = f"Other work took {median(others):.2f} of {os.cpu_count()} cores meanwhile, at most {max(others):.2f}."
    if median(others) > QUIET_CORES_MAX:
        return f"{share} [red]Too much: only the CPU per query means anything. Repeat on a quiet machine.[/]"
    return f"{share} Compare the servers with each other, never with another run."


def summary(run: LoadResult) -> str:
    """One run in a few words."""
    figures = f"{run.requests_per_s:,.0f}/s, {run.server_cpu_us_per_request:.1f} µs CPU, p99 {run.p99_us:,.0f} µs"
    return f"{figures} (others {run.other_cores:.2f} cores, load average {run.load_average:.1f})"


def save(path: Path, *, date: str, plan: dict[str, Any], measured: Sequence[Measured], lines: Sequence[Row]) -> None:
    """Everything, every single run included, as JSON."""
    document = {
        "date": date,
        "machine": machine(),
        "plan": plan,
        "goal": [asdict(verdict) for verdict in verdicts(measured)],
        "table": [_row_values(line, measured) for line in lines],
        "runs": [asdict(server) | {"loads": _loads(server)} for server in measured],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_rounded(document), indent=1, ensure_ascii=False) + "\n", "utf-8")


def _row_values(line: Row, measured: Sequence[Measured]) -> dict[str, Any]:
    values = {server.label: value for server, value in zip(measured, line.values, strict=True)}
    return {"section": line.section, "name": line.name} | values


def _loads(server: Measured) -> dict[str, list[dict[str, Any]]]:
    return {str(shape): [asdict(run) for run in runs] for shape, runs in server.loads.items()}


def _rounded(value: Any) -> Any:
    """Four digits behind the point are more than was measured."""
    match value:
        case float():
            return round(value, 4)
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [_rounded(item) for item in value]
    return value


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    return {
        "processor": model[0] if model else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java,
    }
