"""`rocketline demo` ends with the reference pipeline: landed, verified, summed up, reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from rocketline.cli.commands import rocketline
from rocketline.pipelines.examples.orders.events import OrderStream

pytestmark = pytest.mark.interop  # not for its needs, which are Python's, but because it takes long


@pytest.mark.usefixtures("spark")
def test_demo_lands_orders_verifies_them_prints_the_revenue_and_names_the_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(
        rocketline, ["demo", "--folder", str(tmp_path)], catch_exceptions=False
    )
    stream = OrderStream("orders", seed=1)
    counts = stream.counts
    for _ in stream.messages(20_000):
        pass

    assert result.exit_code == 0
    assert "clean: 20,000 offsets of" in result.output
    assert f"{counts.orders:,} orders are clean, each once" in result.output
    assert f"{counts.malformed + counts.senseless:,} messages wait in quarantine" in result.output
    assert re.search(r"│ teapot +│ +[\d,]+ +│ +[\d,.]+ │", result.output)
    report = (tmp_path / "report.html").read_text()
    assert str(tmp_path / "report.html") in result.output
    assert "raw: clean: 20,000 offsets" in report
