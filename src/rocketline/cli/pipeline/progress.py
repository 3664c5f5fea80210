"""How a run is watched: a bar for each query on a terminal, a line for each batch elsewhere. On standard error."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Record = dict[str, Any]


@dataclass(slots=True)
class QueryTotals:
    """What a query has done so far, in this run."""

    batches: int = 0
    rows: int = 0
    busy_s: float = 0.0
    lag: int | None = None

    def add(self, record: Record) -> None:
        self.lag = record["lag"]
        if record["rows"]:
            self.batches += 1
            self.rows += record["rows"]
            self.busy_s += record["took_ms"] / 1000

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.busy_s if self.busy_s else 0.0

    @property
    def text(self) -> str:
        lag = "" if self.lag is None else f", lag {self.lag:,}"
        return f"{self.rows:,} rows in {self.batches} batches, {self.rows_per_s:,.0f} rows/s{lag}"


class RunView:
    """Use it as `with`, and have `tell` called with each record of the progress log, from any thread."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.totals: dict[str, QueryTotals] = {}
        self._progress = _progress() if is_terminal else None
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def tell(self, record: Record) -> None:
        if record["kind"] == "started" and self._progress is not None:
            self._bar(self._progress, record["query"])
        if record["kind"] != "progress":
            return
        totals = self.totals.setdefault(record["query"], QueryTotals())
        totals.add(record)
        if self._progress is not None:
            self._move(self._progress, record["query"], totals)
        elif record["rows"]:
            click.echo(f"{record['query']}: batch {record['batch']}, {record['rows']:,} rows; {totals.text}", err=True)

    def _move(self, progress: Progress, query: str, totals: QueryTotals) -> None:
        total = totals.rows + (totals.lag or 0)
        bar = self._bar(progress, query)
        progress.update(bar, completed=totals.rows, total=total or 1, figures=totals.text)

    def _bar(self, progress: Progress, query: str) -> TaskID:
        """The bar pulses until the first batch is done."""
        if query not in self._bars:
            self._bars[query] = progress.add_task(query, total=None, figures="first batch …")
        return self._bars[query]


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False),
    )
