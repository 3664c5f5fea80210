"""Each run of a pipeline has a number of its own, and an older one sees that it must end."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from rocketline.errors import SupersededError
from rocketline.pipelines.runs import run_numbers
from rocketline.pipelines.runs.run_numbers import Run, begin_run


def test_later_run_has_a_higher_number_and_the_older_one_is_told_who_it_is(tmp_path: Path) -> None:
    first = begin_run(tmp_path, 0)
    first.check()
    second = begin_run(tmp_path, 0)

    assert (first.number, second.number) == (1, 2)
    second.check()
    with pytest.raises(SupersededError) as caught:
        first.check()
    assert (caught.value.place, caught.value.run, caught.value.newer) == (str(tmp_path), 1, 2)
    for told in ("this is run 1", "run 2", f"process {os.getpid()} on {socket.gethostname()}, since 2"):
        assert told in str(caught.value)


def test_each_run_has_a_token_of_its_own(tmp_path: Path) -> None:
    assert len({begin_run(tmp_path, 0).token for _ in range(5)}) == 5


def test_run_is_newer_than_all_that_the_tables_tell_of(tmp_path: Path) -> None:
    assert begin_run(tmp_path, 41).number == 42, "the state folder may be an older copy than the tables"
    assert begin_run(tmp_path, 41).number == 43


def test_two_that_begin_at_once_have_different_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look, others = run_numbers._numbers, [begin_run(tmp_path, 0)]

    def outrun(folder: Path) -> list[int]:
        """Another one begins after each of the first two looks."""
        seen = look(folder)
        if len(others) < 3:
            others.append(Run(tmp_path, 1 + len(others)))
            (folder / str(others[-1].number)).touch()
        return seen

    monkeypatch.setattr(run_numbers, "_numbers", outrun)
    assert begin_run(tmp_path, 0).number == 4
    assert [each.number for each in others] == [1, 2, 3]
    with pytest.raises(SupersededError, match=r"run 4 \(process"):
        others[-1].check()


def test_run_that_has_not_said_yet_who_it_is_ends_older_ones_all_the_same(tmp_path: Path) -> None:
    first = begin_run(tmp_path, 0)
    (tmp_path / "runs" / "2").touch()
    with pytest.raises(SupersededError, match="run 2 has begun since"):
        first.check()


def test_last_runs_are_kept_for_whoever_asks(tmp_path: Path) -> None:
    for _ in range(15):
        newest = begin_run(tmp_path, 0)

    assert newest.number == 15
    assert sorted(int(file.name) for file in (tmp_path / "runs").iterdir()) == list(range(5, 16))


def test_folder_that_cannot_be_read_ends_no_run(tmp_path: Path) -> None:
    first = begin_run(tmp_path, 0)
    shutil.rmtree(tmp_path / "runs")
    first.check()
