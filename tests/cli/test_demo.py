"""`rocketline demo` works from start to end."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rocketline.cli.commands import rocketline


def test_demo_shows_brokers_and_routes_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["bin/rocketline"])
    monkeypatch.setenv("PATH", "")
    result = CliRunner(env={"COLUMNS": "100"}).invoke(rocketline, ["demo"], catch_exceptions=False)
    clusters, first_route, second_route = (part.partition("\nTry next")[0] for part in result.output.split("│\n└")[:3])

    assert result.exit_code == 0
    assert "127.0.0.1:10921" in clusters
    assert "broker-b" in clusters
    assert "broker-b" in first_route
    assert "0–7" in first_route
    assert "broker-a" in second_route.rpartition("┃")[2]
    assert "broker-b" not in second_route.rpartition("┃")[2]
    assert "  bin/rocketline nameserver " in result.output, "called as it was called"
    assert list(tmp_path.iterdir()) == []
