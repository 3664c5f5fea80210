"""The report is one page that loads nothing, and shows what it is given, escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from rocketline.pipelines.report.figures import Figures, QueryFigures
from rocketline.pipelines.report.page import Report, TableSummary, html
from rocketline.pipelines.report.svg import bar_chart, line_chart, thinned

_VOID = {"meta", "line", "rect", "polyline", "circle", "br"}


class Balance(HTMLParser):
    """Notes each tag that is not closed in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [f"{name}={value}" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag


def page() -> str:
    figures = Figures(
        queries={"raw": QueryFigures("raw", 2, 100, 0.5, 0.3)},
        throughput={"raw": [(0.0, 5.0), (10.0, 12.5)]},
        quarantined={"clean.quarantine": [(0.0, 3.0)]},
        first_ms=0,
        last_ms=10_000,
    )
    table = TableSummary("raw", "/lake/<raw>", "delta", 100, ["id"], [["<script>alert(1)</script>"]])
    return html(
        Report(
            pipeline="orders & more",
            made_ms=20_000,
            figures=figures,
            tables=[table],
            reasons={"price is <positive>": 3},
            verdicts={"raw": "clean: 100 offsets", "other": "NOT clean: 1 gap"},
        )
    )


def test_page_is_whole_and_loads_nothing() -> None:
    parser = Balance()
    parser.feed(page())

    assert parser.open == []
    assert parser.loaded == []
    assert not re.search(r"https?://|@import|url\(", page())


def test_page_shows_figures_tables_reasons_and_verdicts_escaped() -> None:
    text = page()

    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "orders &amp; more" in text
    assert "price is &lt;positive&gt;" in text
    assert 'class="ok">raw: clean' in text
    assert 'class="bad">other: NOT clean' in text
    assert "<polyline" in text


def test_report_of_a_pipeline_that_never_ran_says_so() -> None:
    text = html(Report(pipeline="orders", made_ms=0, figures=Figures(), tables=[]))

    assert "It has not run yet." in text


def test_chart_draws_each_series_within_its_frame() -> None:
    text = line_chart({"a": [(0, 0), (1, 10)], "b": [(0.5, 3)], "none": []}, unit="rows")

    assert text.count("<polyline") == 2
    for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', text):
        assert 0 <= float(x) <= 720
        assert 0 <= float(y) <= 240
    assert "Nothing was recorded" in line_chart({"none": []}, unit="rows")


def test_axis_of_several_days_has_dates() -> None:
    assert re.search(r">\d\d-\d\d \d\d:\d\d</text>", line_chart({"a": [(0, 1), (3 * 86_400, 1)]}, unit="rows"))
    assert not re.search(r">\d\d-\d\d \d\d:\d\d</text>", line_chart({"a": [(0, 1), (9, 1)]}, unit="rows"))


def test_long_series_are_thinned_and_keep_their_peak() -> None:
    points = [(float(at), 1.0) for at in range(10_000)]
    points[4321] = (4321.0, 99.0)
    kept = thinned(points)

    assert len(kept) <= 600
    assert max(kept, key=lambda point: point[1]) == (4321.0, 99.0)


def test_longest_bar_comes_first() -> None:
    text = bar_chart({"few": 1, "many": 9})

    assert text.index("many") < text.index("few")
    assert bar_chart({}) == '<p class="none">None.</p>'
