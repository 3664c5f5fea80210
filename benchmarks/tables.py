"""Figures of several servers side by side: a table with multiples of Apache's, whether goals are met, and a file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table
from rich.text import Text

from benchmarks.loadgen import LoadResult

QUIET_CORES_MAX = 0.2
"""Beyond this, many threads win rate from few, whatever they cost: the scheduler shares by thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure of ours shall reach: a number, or a multiple of Apache's."""

    limit: float
    is_ratio: bool
    is_more_better: bool = False

    def __str__(self) -> str:
        sign = "≥" if self.is_more_better else "≤"
        return f"{sign} {self.limit:.1f}×" if self.is_ratio else f"{sign} {_number(self.limit)}"

    def is_met(self, value: float, baseline: float) -> bool:
        reached = value / baseline if self.is_ratio else value
        return reached >= self.limit if self.is_more_better else reached <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: the same figure of every server, Apache's first if it takes part."""

    section: str
    name: str
    values: tuple[float, ...]
    is_more_better: bool = False
    goal: Goal | None = None

    def ratios(self) -> list[float]:
        """Each server's value as a multiple of the first one's."""
        return [value / self.values[0] if self.values[0] else float("nan") for value in self.values]


def table(title: str, lines: Sequence[Row], labels: Sequence[str], *, is_compared: bool = True) -> Table:
    """Medians, and behind them the multiple of Apache's: green where ours is better, red where it is worse.

    Lines with a goal say whether each of ours has reached it.
    """
    shown = Table(title=title)
    for label in ("", ""):
        shown.add_column(label)
    for label in labels:
        shown.add_column(label, justify="right")
    has_goals = is_compared and any(line.goal for line in lines)
    if has_goals:
        shown.add_column("goal")
    for index, line in enumerate(lines):
        is_first = index == 0 or lines[index - 1].section != line.section
        is_last = index + 1 == len(lines) or lines[index + 1].section != line.section
        cells = _cells(line) if is_compared else [Text(_number(value)) for value in line.values]
        goal = [_goal_cell(line)] if has_goals else []
        shown.add_row(line.section if is_first else "", line.name, *cells, *goal, end_section=is_last)
    return shown


def _cells(line: Row) -> list[Text]:
    own = zip(line.values[1:], line.ratios()[1:], strict=True)
    return [Text(_number(line.values[0])), *(_compared(value, ratio, line.is_more_better) for value, ratio in own)]


def _compared(value: float, ratio: float, is_more_better: bool) -> Text:
    if isnan(ratio):
        return Text(_number(value))
    is_better = ratio >= 1 if is_more_better else ratio <= 1
    return Text.assemble(_number(value), (f"  {ratio:5.2f}×", "green" if is_better else "red"))


def _goal_cell(line: Row) -> Text:
    if line.goal is None:
        return Text()
    marks = [line.goal.is_met(value, line.values[0]) for value in line.values[1:]]
    return Text.assemble(
        f"{line.goal} ", *(("met " if mark else "missed ", "green" if mark else "red") for mark in marks)
    )


def _number(value: float) -> str:
    if isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def summary(run: LoadResult) -> str:
    """One run in a few words."""
    rate, cost_us = run.messages_per_s, run.server_cpu_us_per_message
    figures = f"{rate:,.0f}/s, {cost_us:.1f} µs CPU, p50 {run.p50_us:,.0f} µs, p99 {run.p99_us:,.0f} µs"
    refused = "".join(f", refused {one.count:,} with {one.code} {one.remark!r}" for one in run.refusals)
    return f"{figures}{refused} (others {run.other_cores:.2f} cores, load average {run.load_average:.1f})"


def noise_line(runs: Iterable[LoadResult]) -> str:
    """How much of the machine was not ours while we measured."""
    others = [run.other_cores for run in runs]
    share = f"Other work took {median(others):.2f} of {os.cpu_count()} cores meanwhile, at most {max(others):.2f}."
    if median(others) > QUIET_CORES_MAX:
        return f"{share} [red]Too much: only the CPU per request means anything. Repeat on a quiet machine.[/]"
    return f"{share} Compare the servers with each other, never with another run."


def save(path: Path, document: dict[str, Any]) -> None:
    """The document, and what it was measured on, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    complete = {"date": document.pop("date"), "machine": machine(), **document}
    path.write_text(json.dumps(_rounded(complete), indent=1, ensure_ascii=False) + "\n", "utf-8")


def row_values(line: Row, labels: Sequence[str]) -> dict[str, Any]:
    """A line of the table for the file."""
    return {"section": line.section, "name": line.name} | dict(zip(labels, line.values, strict=True))


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
