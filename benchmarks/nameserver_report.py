"""What was measured of name servers, as values; medians and ratios of it, and the goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.loadgen import LoadResult, Shape
from benchmarks.tables import Row, row_values

TITLE = "Name servers: medians, and as a multiple of Apache's"
RATE_RATIO_MIN = 1.2
CPU_RATIO_MAX = 0.6


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


def goal_lines(measured: Sequence[Measured]) -> Iterator[str]:
    """The goal, and one line for each of our servers."""
    shape = next(iter(measured[0].loads))
    yield f"Goal at {shape}: ≥ {RATE_RATIO_MIN}× Apache's rate at ≤ {CPU_RATIO_MAX} of its CPU per query"
    for verdict in verdicts(measured):
        outcome = "[green]met[/]" if verdict.is_met else "[red]missed[/]"
        yield f"  {verdict.label}: {verdict.rate_ratio:.2f}× at {verdict.cpu_ratio:.2f}, {outcome}"


def document(date: str, plan: dict[str, Any], measured: Sequence[Measured], lines: Sequence[Row]) -> dict[str, Any]:
    """Everything, every single run included, for the file."""
    labels = [server.label for server in measured]
    return {
        "date": date,
        "plan": plan,
        "goal": [asdict(verdict) for verdict in verdicts(measured)],
        "table": [row_values(line, labels) for line in lines],
        "runs": [asdict(server) | {"loads": _loads(server)} for server in measured],
    }


def _loads(server: Measured) -> dict[str, list[dict[str, Any]]]:
    return {str(shape): [asdict(run) for run in runs] for shape, runs in server.loads.items()}
