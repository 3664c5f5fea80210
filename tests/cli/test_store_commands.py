"""`rocketline store check` and `rocketline store repair`: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rocketline.cli.commands import rocketline
from rocketline.settings.properties import format_properties
from rocketline.testing.fake_clock import FakeClock
from support.stores.on_disk import LOG_BYTES, log_paths, overwrite, put, store_at


def invoke(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(rocketline, ["store", *arguments], input=answer)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    clock = FakeClock()
    with store_at(tmp_path / "store", clock) as store:
        put(store, clock, 900)
    return tmp_path / "store"


@pytest.fixture
def settings(root: Path) -> str:
    path = root.parent / "broker.conf"
    sizes = {"mappedFileSizeCommitLog": str(LOG_BYTES), "mappedFileSizeConsumeQueue": "1000", "maxHashSlotNum": "10"}
    path.write_text(format_properties(sizes | {"maxIndexNum": "100"}), "ascii")
    return str(path)


def test_a_whole_store(root: Path, settings: str) -> None:
    before = (root / "lock").stat().st_mtime_ns
    result = invoke("check", str(root), "-c", settings)
    assert result.exit_code == 0
    assert result.stderr == "no findings\n"
    assert result.stdout.startswith("900 records in 192.0 KiB of log files, 900 units of 2 queues, 1,800 index entries")
    assert result.stdout.endswith(": 0 damages, 0 notes\n")
    assert (root / "lock").stat().st_mtime_ns == before


def test_a_damaged_store_is_told_of_in_both_ways(root: Path, settings: str) -> None:
    overwrite(log_paths(root)[1], 100, b"\xff")
    told = invoke("check", str(root), "-c", settings)
    assert told.exit_code == 1
    assert told.stdout.splitlines()[1].startswith("record ")
    assert f"commitlog/{LOG_BYTES:020}" in told.stdout
    as_json = [json.loads(line) for line in invoke("check", str(root), "-c", settings, "--json").stdout.splitlines()]
    *findings, figures = as_json
    assert findings[0]["file"] == str(log_paths(root)[1])
    assert (figures["damage"], figures["records"]) == (2, 899)
    few = invoke("check", str(root), "-c", settings, "--limit", "1").stdout.splitlines()
    assert len(few) == 4
    assert few[2].startswith("and ")


def test_lengths_are_guessed_without_settings_and_the_index_is_left_out(root: Path) -> None:
    result = invoke("check", str(root))
    assert result.exit_code == 0
    assert "maxHashSlotNum" in result.stdout
    overwrite(log_paths(root)[1], 100, b"\xff")
    refused = invoke("repair", str(root), "--yes")
    assert refused.exit_code == 2
    assert "give the broker's own settings" in refused.stderr


def test_a_repair_asks_says_what_it_did_and_leaves_nothing_to_do(root: Path, settings: str) -> None:
    overwrite(log_paths(root)[1], 100, b"\xff")
    refused = invoke("repair", str(root), "-c", settings, answer="n\n")
    assert refused.exit_code == 1
    assert not (root / "damaged").exists()
    result = invoke("repair", str(root), "-c", settings, answer="y\n")
    assert result.exit_code == 0, result.output
    assert f"damaged/commitlog/{LOG_BYTES:020}-{LOG_BYTES}" in result.stdout
    assert invoke("check", str(root), "-c", settings).exit_code == 0
    again = invoke("repair", str(root), "-c", settings, "--yes")
    assert (again.exit_code, again.stderr) == (0, "no damage: nothing was changed\nno findings\n")


@pytest.mark.parametrize("command", [["check"], ["repair", "--yes"]])
def test_no_store_and_a_store_in_use_are_refused(tmp_path: Path, command: list[str]) -> None:
    nothing = invoke(*command, str(tmp_path))
    assert nothing.exit_code == 2
    assert nothing.stderr == f"rocketline: {tmp_path} is no store: it has no folder commitlog\n"
    assert not (tmp_path / "lock").exists()
    with store_at(tmp_path / "store", FakeClock()):
        used = invoke(*command, str(tmp_path / "store"))
    assert used.exit_code == 2
    assert "is locked by process" in used.stderr
