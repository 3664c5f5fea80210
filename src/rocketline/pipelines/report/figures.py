"""The figures of a report, from the progress log: pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rocketline.pipelines.definition import QUARANTINE_SUFFIX
from rocketline.pipelines.runs.progress_log import LANDED, PROGRESS, Record

Points = list[tuple[float, float]]
"""Times in seconds since 1970, and values."""


@dataclass(slots=True)
class QueryFigures:
    """What one query did."""

    query: str
    batches: int = 0
    rows: int = 0
    busy_s: float = 0.0
    slowest_s: float = 0.0
    too_late: int = 0
    """Rows that came after the watermark and were left out."""

    @property
    def rows_per_s(self) -> float | None:
        return self.rows / self.busy_s if self.busy_s and self.rows else None


@dataclass(slots=True)
class Figures:
    """All of them; series are by the name of a query or a table."""

    queries: dict[str, QueryFigures] = field(default_factory=dict)
    throughput: dict[str, Points] = field(default_factory=dict)
    lag: dict[str, Points] = field(default_factory=dict)
    waits: dict[str, Points] = field(default_factory=dict)
    """Seconds from a message's storing to the end of its batch, of the oldest and the newest of each."""
    batch_s: dict[str, Points] = field(default_factory=dict)
    quarantined: dict[str, Points] = field(default_factory=dict)
    """How many rows in all, by side table."""
    landed_rows: dict[str, int] = field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int | None = None


def figures_of(records: Iterable[Record]) -> Figures:
    """Everything that the log tells."""
    figures = Figures()
    landed: set[tuple[str, str, int]] = set()
    for record in records:
        figures.first_ms = min(figures.first_ms or record["time_ms"], record["time_ms"])
        figures.last_ms = max(figures.last_ms or 0, record["time_ms"])
        if record["kind"] == PROGRESS:
            _add_progress(figures, record)
        elif record["kind"] == LANDED and (key := _landed_key(record)) not in landed:
            landed.add(key)
            _add_landed(figures, record)
    return figures


def _landed_key(record: Record) -> tuple[str, str, int]:
    """Which batch of which table it is. Lines of older releases do not say under which checkpoint."""
    return record.get("query_id", ""), record["table"], record["batch"]


def _add_progress(figures: Figures, record: Record) -> None:
    name, at, took_s = record["query"], record["time_ms"] / 1000, record["took_ms"] / 1000
    query = figures.queries.setdefault(name, QueryFigures(name))
    query.too_late += record["too_late"]
    if record["lag"] is not None:
        figures.lag.setdefault(name, []).append((at, record["lag"]))
    if not record["rows"]:
        return
    query.batches += 1
    query.rows += record["rows"]
    query.busy_s += took_s
    query.slowest_s = max(query.slowest_s, took_s)
    if took_s:
        figures.throughput.setdefault(name, []).append((at, record["rows"] / took_s))
    figures.batch_s.setdefault(name, []).append((at, took_s))
    if record.get("quarantined") is not None:
        _add_quarantined(figures, name, at, record["quarantined"])
    if record["waited_ms"] is not None:
        newest, oldest = record["waited_ms"]
        figures.waits.setdefault(f"{name}, oldest message", []).append((at, oldest / 1000))
        figures.waits.setdefault(f"{name}, newest message", []).append((at, newest / 1000))


def _add_landed(figures: Figures, record: Record) -> None:
    table = record["table"]
    figures.landed_rows[table] = figures.landed_rows.get(table, 0) + record["rows"]
    if table.endswith(QUARANTINE_SUFFIX):
        _add_quarantined(figures, table, record["time_ms"] / 1000, record["rows"])


def _add_quarantined(figures: Figures, table: str, at: float, rows: int) -> None:
    points = figures.quarantined.setdefault(table, [])
    points.append((at, rows + (points[-1][1] if points else 0)))
