"""Two drivers and one table: each batch is there once, and an older run is refused, whoever asks or commits first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction

from rocketline.errors import PipelineError, SupersededError
from rocketline.pipelines.definition import TableFormat
from rocketline.pipelines.tables import commits, delta, iceberg
from rocketline.pipelines.tables.commits import MovedOnError
from rocketline.pipelines.tables.iceberg import IcebergTable
from rocketline.pipelines.tables.table import Standing, Writer
from support.pipelines.lake_tables import SCHEMA, NumberTable, _delta_runtime, _iceberg_threads_end, adding

__all__ = ["_delta_runtime", "_iceberg_threads_end"]

FORMATS = [TableFormat.DELTA, TableFormat.ICEBERG]
OLD, NEW = Writer("query-1", 1), Writer("query-1", 2)
OTHER = Writer("query-2", 1)


@pytest.fixture(params=FORMATS, ids=lambda format: format.value)
def numbers(request: pytest.FixtureRequest, tmp_path: Path) -> NumberTable:
    table = NumberTable(tmp_path, request.param)
    table.create()
    return table


def test_batch_that_is_there_is_left_out(numbers: NumberTable) -> None:
    assert numbers.opened().add(OLD, 0, numbers.file(1, 2))
    assert not numbers.opened().add(NEW, 0, numbers.file(1, 2)), "the table has other files for it"

    assert numbers.rows() == [1, 2]
    assert numbers.opened().standing(NEW) == Standing(0, 1)


def test_batch_that_an_older_run_adds_between_asking_and_committing_is_left_out(numbers: NumberTable) -> None:
    woken = numbers.overtaken(adding(OLD, 0, numbers.file(1, 2)))

    assert not woken.add(NEW, 0, numbers.file(1, 2))
    assert numbers.rows() == [1, 2]


def test_two_runs_with_one_number_are_told_apart(numbers: NumberTable) -> None:
    """On a share that lets two make the same file."""
    one, other = Writer("query-1", 3, token=2**63 - 1), Writer("query-1", 3, token=7)
    assert numbers.opened().add(one, 0, numbers.file(1))
    assert not numbers.opened().add(other, 0, numbers.file(1)), "the table has other files for it"
    assert numbers.opened().add(one, 0, numbers.file(1)), "its own commit, whose answer was lost"
    assert numbers.opened().add(other, 1, numbers.file(2))
    assert numbers.opened().standing(one) == Standing(1, 3, 7)
    assert numbers.rows() == [1, 2]


def test_driver_that_wakes_after_its_replacement_has_committed_is_refused(numbers: NumberTable) -> None:
    assert numbers.opened().add(NEW, 0, numbers.file(1, 2))
    for batch in (0, 1):  # the next one is no less its replacement's
        with pytest.raises(SupersededError) as caught:
            numbers.opened().add(OLD, batch, numbers.file(3))

    assert (caught.value.run, caught.value.newer) == (1, 2)
    for told in (numbers.target.path, "this is run 1", "run 2 has begun since", "Let it end"):
        assert told in str(caught.value)
    assert numbers.rows() == [1, 2]


def test_driver_that_wakes_between_asking_and_committing_is_refused(numbers: NumberTable) -> None:
    woken = numbers.overtaken(adding(NEW, 0, numbers.file(1, 2)))
    with pytest.raises(SupersededError):
        woken.add(OLD, 0, numbers.file(1, 2))

    assert numbers.rows() == [1, 2]


def test_commits_of_other_queries_are_waited_for_and_bounded(
    numbers: NumberTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [adding(OTHER, batch, numbers.file(10 + batch)) for batch in range(2)]
    assert numbers.overtaken(*turns).add(NEW, 0, numbers.file(1))
    assert numbers.rows() == [1, 10, 11]
    assert [numbers.opened().standing(each) for each in (NEW, OTHER)] == [Standing(0, 2), Standing(1, 1)]

    monkeypatch.setattr(commits, "_COMMITS_MAX", 2)
    turns = [adding(OTHER, batch, numbers.file(10 + batch)) for batch in range(2, 4)]
    with pytest.raises(PipelineError, match="others committed 2 times while batch 1 was to be added"):
        numbers.overtaken(*turns).add(NEW, 1, numbers.file(2))
    assert numbers.rows() == [1, 10, 11, 12, 13]


@pytest.mark.parametrize("module", [delta, iceberg], ids=["delta", "iceberg"])
def test_commit_that_is_there_though_it_was_told_to_have_failed_counts_as_ours(
    tmp_path: Path, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its files would be removed, as those of a batch that somebody else has added."""
    numbers = NumberTable(tmp_path, TableFormat(module.__name__.rpartition(".")[2]))
    numbers.create()
    commit = module._Handle.commit

    def unheard(self: Any, *given: Any) -> None:
        commit(self, *given)
        raise MovedOnError

    monkeypatch.setattr(module._Handle, "commit", unheard)
    assert numbers.opened().add(NEW, 0, numbers.file(1))
    assert numbers.rows() == [1]


def test_delta_table_without_numbers_of_runs_goes_on(tmp_path: Path) -> None:
    numbers = NumberTable(tmp_path, TableFormat.DELTA)
    numbers.create()
    table, (file,) = DeltaTable(str(numbers.path)), numbers.file(1)
    added = AddAction(Path(file.path).name, file.size_bytes, {}, 0, True, '{"numRecords": 1}')
    table.create_write_transaction(
        [added], "append", SCHEMA, commit_properties=CommitProperties(app_transactions=[Transaction(OLD.key, 4)])
    )

    _goes_on(numbers)


def test_iceberg_table_without_numbers_of_runs_goes_on(tmp_path: Path) -> None:
    numbers = NumberTable(tmp_path, TableFormat.ICEBERG)
    numbers.create()
    opened = numbers.opened()
    assert isinstance(opened, IcebergTable)
    with opened._open().transaction() as transaction:
        transaction.set_properties({f"rocketline.batch.{OLD.key}": "4"})
        transaction.add_files([file.path for file in numbers.file(1)])

    _goes_on(numbers)


def _goes_on(numbers: NumberTable) -> None:
    """As it was left by an earlier version of ours, with batch 4."""
    assert numbers.opened().standing(NEW) == Standing(4, 0)
    assert not numbers.opened().add(NEW, 4, numbers.file(1))
    assert numbers.opened().add(NEW, 5, numbers.file(2))
    assert numbers.opened().standing(NEW) == Standing(5, 2)
    assert numbers.rows() == [1, 2]


def test_how_often_others_try_again_is_left_to_them(tmp_path: Path) -> None:
    numbers = NumberTable(tmp_path, TableFormat.ICEBERG)
    numbers.create()
    opened = numbers.opened()
    assert isinstance(opened, IcebergTable)
    opened.add(NEW, 0, numbers.file(1))

    assert not [key for key in opened._open().properties if key.startswith("commit.retry")]


def test_delta_table_that_two_drivers_make_at_once_is_made_once(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        numbers, barrier = NumberTable(tmp_path / str(number), TableFormat.DELTA), threading.Barrier(4)

        def create(numbers: NumberTable, barrier: threading.Barrier) -> None:
            barrier.wait()
            numbers.create()

        with ThreadPoolExecutor(4) as threads:
            for made in [threads.submit(create, numbers, barrier) for _ in range(4)]:
                made.result()
        assert numbers.opened().version() == 0, "not made anew"
