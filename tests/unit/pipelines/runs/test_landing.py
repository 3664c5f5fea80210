"""What becomes of a batch's files when another driver does the same batch: none that a table has is ever removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketline.errors import SupersededError
from rocketline.pipelines.declared.queries import queries_of
from rocketline.pipelines.definition import TableFormat
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.runs import landing
from rocketline.pipelines.runs.landing import Landed, Landing
from rocketline.pipelines.runs.run_numbers import begin_run
from rocketline.pipelines.tables.table import DataFile, Writer
from support.pipelines.files import LANDING, written
from support.pipelines.lake_tables import NumberTable, _delta_runtime

__all__ = ["_delta_runtime"]

QUERY_ID = "query-1"


class Driver:
    """One that lands batches of one number each, whose files are noted when they are to be removed."""

    def __init__(self, home: Path, numbers: NumberTable, monkeypatch: pytest.MonkeyPatch) -> None:
        pipeline = load(written(home, LANDING))
        (query,) = queries_of(pipeline)
        self.state, self.told, self.removed = home / "state", list[Landed](), list[str]()
        self.numbers, self.is_empty = numbers, False
        self.meanwhile: Callable[[], Any] = list
        monkeypatch.setattr(landing, "table_rows", lambda *given: given[2][0])
        monkeypatch.setattr(landing, "StagedBatch", self._attempt)
        self._landing = Landing(pipeline, query, {}, begin_run(self.state, 0), self.told.append)
        self._landing.tables = {"raw": numbers.opened()}

    def land(self, batch: int, *, meanwhile: Callable[[], Any] = list, is_empty: bool = False) -> None:
        """Land a batch. Meanwhile, between its writing and its commit, something happens."""
        self.meanwhile, self.is_empty = meanwhile, is_empty
        context = SimpleNamespace(getLocalProperty=lambda _: QUERY_ID)
        rows: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
        self._landing(rows, batch)

    def _attempt(self, spark: Any, path: str, writer: Writer, batch: int) -> Any:
        def write(_: Any) -> list[DataFile]:
            files = [] if self.is_empty else self.numbers.file(batch)
            self.meanwhile()
            return files

        return SimpleNamespace(
            write=write,
            remove=lambda: self.removed.append(f"own of batch {batch}"),
            remove_others=lambda: self.removed.append(f"others of batch {batch}"),
        )


@pytest.fixture
def numbers(tmp_path: Path) -> NumberTable:
    table = NumberTable(tmp_path, TableFormat.DELTA)
    table.create()
    return table


@pytest.fixture
def driver(tmp_path: Path, numbers: NumberTable, monkeypatch: pytest.MonkeyPatch) -> Driver:
    begin_run(tmp_path / "state", 0)  # the one before
    return Driver(tmp_path, numbers, monkeypatch)


def test_what_others_have_left_is_removed_after_the_first_commit_of_a_run(driver: Driver, numbers: NumberTable) -> None:
    seen: list[list[str]] = []
    driver.land(7, meanwhile=lambda: seen.append([*driver.removed]))
    driver.land(8)
    driver.land(8)
    driver.land(9, is_empty=True)

    assert seen == [[]], "before its commit, somebody else may still commit them"
    assert driver.removed == ["others of batch 7", "own of batch 9"]
    assert [(each.batch, each.rows) for each in driver.told] == [(7, 1), (8, 1), (9, 0)]
    assert numbers.rows() == [7, 8]


def test_batch_that_the_run_before_has_committed_meanwhile_is_left_out(driver: Driver, numbers: NumberTable) -> None:
    driver.land(7, meanwhile=lambda: numbers.opened().add(Writer(QUERY_ID, 1), 7, numbers.file(7)))

    assert driver.removed == ["own of batch 7"]
    assert not driver.told
    assert numbers.rows() == [7]


def test_run_that_sees_a_newer_one_removes_what_it_wrote_and_ends(driver: Driver, numbers: NumberTable) -> None:
    with pytest.raises(SupersededError) as caught:
        driver.land(7, meanwhile=lambda: begin_run(driver.state, 0))

    assert (caught.value.place, caught.value.run, caught.value.newer) == (str(driver.state), 2, 3)
    assert driver.removed == ["own of batch 7"]
    assert numbers.rows() == []


def test_run_that_the_table_refuses_removes_nothing(driver: Driver, numbers: NumberTable) -> None:
    """What it wrote may be there: a commit that was told to have failed has perhaps not."""
    with pytest.raises(SupersededError, match="table "):
        driver.land(7, meanwhile=lambda: numbers.opened().add(Writer(QUERY_ID, 3), 7, numbers.file(7)))
    with pytest.raises(SupersededError, match="table "):
        driver.land(8)

    assert not driver.removed
    assert not driver.told
    assert numbers.rows() == [7]
