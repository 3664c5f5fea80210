"""The report as one HTML page: text, tables and plots, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from rocketline.pipelines.report.figures import Figures
from rocketline.pipelines.report.svg import bar_chart, line_chart, shown

_STYLE: Final = """
:root { --fg: #1d1d1f; --bg: #fff; --soft: #6b7280; --line: #e5e7eb;
  --c1: #e4572e; --c2: #17bebb; --c3: #ffc914; --c4: #2e6de4; --c5: #76b041; --c6: #8d5bd6 }
@media (prefers-color-scheme: dark) { :root { --fg: #e8e8ea; --bg: #17181c; --soft: #9aa0ab; --line: #33363d } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem }
p.sub, p.none, figcaption { color: var(--soft) } p.sub { margin-top: .2rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-weight: 600 } td.n, th.n { text-align: right }
.bars th { width: 18rem; font-weight: 400 } .bars td:nth-child(2) { width: 6rem; text-align: right }
.bar svg { width: 100%; height: .7rem }
figure { margin: 0 } figure svg { width: 100%; height: auto; display: block }
svg text { font-size: 11px; fill: var(--soft) } .grid { stroke: var(--line) } figcaption span { margin-right: 1.2rem }
figcaption i { display: inline-block; width: .7rem; height: .7rem; border-radius: 50%; margin-right: .35rem }
.ok { color: #2f8f4e; font-weight: 600 } .bad { color: #d43a2f; font-weight: 600 }
"""
_HEAD: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
)


@dataclass(frozen=True, slots=True)
class TableSummary:
    """What a table holds now, and some of its rows."""

    name: str
    path: str
    format: str
    rows: int
    columns: Sequence[str] = ()
    sample: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that the page tells."""

    pipeline: str
    made_ms: int
    figures: Figures
    tables: Sequence[TableSummary]
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Rows in quarantine by what is wrong with them."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """What `verify` says of each landing step; empty if it was not asked."""


def html(report: Report) -> str:
    """The page."""
    figures = report.figures
    parts = [
        f"<h1>{escape(report.pipeline)}</h1><p class=sub>{_period(figures)}Made {_moment(report.made_ms)}.</p>",
        _verdicts(report.verdicts),
        _part("Queries", "", _queries(figures)),
        _part("Throughput", "Rows a second while a batch runs.", line_chart(figures.throughput, unit="rows/s")),
        _part("Lag", "Messages that wait in the topics.", line_chart(figures.lag, unit="messages")),
        _part("Latency", "From the storing of a message to the end of its batch.", line_chart(figures.waits, unit="s")),
        _part("Batches", "How long each took.", line_chart(figures.batch_s, unit="s")),
        _part(
            "Quarantine",
            "Rows that were not as expected: in all over time, and why.",
            line_chart(figures.quarantined, unit="rows") + bar_chart(dict(report.reasons)),
        ),
        _part("Tables", "", _tables(report.tables)),
    ]
    body = "\n".join(parts)
    head = f"{_HEAD}<title>{escape(report.pipeline)}</title><style>{_STYLE}</style></head>"
    return f"{head}\n<body>\n{body}\n</body></html>\n"


def _part(title: str, explanation: str, content: str) -> str:
    return f"<h2>{title}</h2>{f'<p class=sub>{explanation}</p>' if explanation else ''}{content}"


def _verdicts(verdicts: Mapping[str, str]) -> str:
    if not verdicts:
        return ""
    rows = "".join(
        f'<li class="{"ok" if text.startswith("clean") else "bad"}">{escape(step)}: {escape(text)}</li>'
        for step, text in verdicts.items()
    )
    return f"<h2>Every offset once</h2><ul>{rows}</ul>"


def _queries(figures: Figures) -> str:
    columns = ("query", "batches", "rows", "rows/s", "slowest batch, s", "too late")
    rows = [
        (
            each.query,
            shown(each.batches),
            shown(each.rows),
            "–" if each.rows_per_s is None else shown(each.rows_per_s),
            shown(each.slowest_s),
            shown(each.too_late),
        )
        for each in figures.queries.values()
    ]
    return _table(columns, rows, numbers=range(1, 6))


def _tables(tables: Sequence[TableSummary]) -> str:
    rows = [(each.name, each.format, shown(each.rows), each.path) for each in tables]
    overview = _table(("table", "format", "rows", "path"), rows, numbers=(2,))
    samples = "".join(
        f"<h2>{escape(each.name)}: some rows</h2>{_table(each.columns, each.sample, numbers=())}"
        for each in tables
        if each.sample
    )
    return overview + samples


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int]) -> str:
    right = set(numbers)

    def cell(tag: str, at: int, text: str) -> str:
        return f"<{tag}{' class=n' if at in right else ''}>{escape(text)}</{tag}>"

    head = "".join(cell("th", at, name) for at, name in enumerate(columns))
    body = "".join("<tr>" + "".join(cell("td", at, text) for at, text in enumerate(row)) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>" if body else '<p class="none">None.</p>'


def _period(figures: Figures) -> str:
    if figures.first_ms is None or figures.last_ms is None:
        return "It has not run yet. "
    return f"{_moment(figures.first_ms)} to {_moment(figures.last_ms)}. "


def _moment(time_ms: int) -> str:
    return dt.datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
