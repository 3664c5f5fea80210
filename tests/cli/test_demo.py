"""`rocketline demo` works from start to end; its half with Spark is in tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rocketline.cli.commands import rocketline


def test_demo_sends_and_consumes_messages_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["bin/rocketline"])
    monkeypatch.setenv("PATH", "")
    result = CliRunner(env={"COLUMNS": "100"}).invoke(rocketline, ["demo", "--no-spark"], catch_exceptions=False)
    brokers, receipts, messages = (part.rpartition("┃\n")[2] for part in result.output.split("│\n└")[:3])

    assert result.exit_code == 0
    assert "│ DemoCluster │ broker-a │ 127.0.0.1:" in brokers
    assert receipts.count("│\n") == 2, "three lines"
    assert "two teapots" in messages
    assert "nine cups" in messages
    assert "a samovar" not in messages, "it has another tag"
    assert "  bin/rocketline serve " in result.output, "called as it was called"
    assert list(tmp_path.iterdir()) == []


def test_demo_without_spark_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner(env={"COLUMNS": "200"}).invoke(rocketline, ["demo"], catch_exceptions=False)

    assert result.exit_code == 0
    assert "pip install 'rocketline[cli,pipelines]'" in result.output
    assert list(tmp_path.iterdir()) == []
