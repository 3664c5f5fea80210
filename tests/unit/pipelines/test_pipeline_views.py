"""What is shown while a pipeline runs or sends again: from the first moment on, with figures that add up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rocketline.cli.pipeline.progress import RunView
from rocketline.cli.pipeline.replay import _Bar
from rocketline.cli.pipeline.session import _logging_to


def progress(rows: int, lag: int | None) -> dict[str, Any]:
    return {"kind": "progress", "query": "raw", "batch": 0, "rows": rows, "took_ms": 500, "lag": lag}


def test_query_is_shown_before_its_first_batch_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with RunView(is_terminal=True) as view:
        view.tell({"kind": "started", "query": "raw", "time_ms": 0})

    assert "raw" in capsys.readouterr().err


def test_rows_rate_and_lag_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    with RunView(is_terminal=False) as view:
        view.tell(progress(100, 50))
        view.tell(progress(50, 0))

    assert view.totals["raw"].text == "150 rows in 2 batches, 150 rows/s, lag 0"
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bar_of_a_replay_is_drawn_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    with _Bar(is_terminal=is_terminal) as bar:
        bar.begin(10)
        bar.add(4)

    assert ("4/10" in capsys.readouterr().err) is is_terminal


def test_log_of_the_time_before_is_kept(tmp_path: Path) -> None:
    for text in (b"one", b"two", b"three"):
        with _logging_to(tmp_path / "state" / "spark.log"):
            os.write(2, text)

    found = {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir()}
    assert found == {"spark.log": b"three", "spark.old.log": b"two"}
