"""The journal beside a table: which lines go on from it, and what becomes of those that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketline.store.files.table_journal import Change, TableJournal, chain
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival

TABLE = Path("/config/topics.json")
JOURNAL, OLD = Path("/config/topics.json.journal"), Path("/config/topics.json.journal.bak")


def version(counter: int, timestamp: int = 7) -> Any:
    return {"counter": counter, "stateVersion": 0, "timestamp": timestamp}


def change(number: int) -> Change:
    """From version `number` to the next; 0 is that of a table which was never written."""
    return Change(version(number) if number else None, version(number + 1), {"n": number})


def numbers(lines: list[Change | None], at: int) -> tuple[list[int], int, bool]:
    replay = chain(lines, version(at) if at else None)
    return [found.content["n"] for found in replay.changes], replay.lost, replay.is_stale


@pytest.mark.parametrize(
    ("present", "at", "expected"),
    [
        ("", 0, ([], 0, False)),
        ("0123", 0, ([0, 1, 2, 3], 0, False)),
        ("123", 2, ([2, 3], 0, False)),
        ("123", 4, ([], 0, False)),
        ("123", 9, ([], 0, True)),
        ("123", 0, ([], 0, True)),
        ("123x", 1, ([1, 2, 3], 0, False)),
        ("12x4", 1, ([1, 2, 4], 1, False)),
        ("12xx5x", 1, ([1, 2, 5], 2, False)),
        ("12x3", 1, ([1, 2, 3], 0, False)),  # cut short, and done again
        ("1x3", 2, ([3], 1, False)),
        ("x3", 2, ([3], 1, False)),
        ("x3", 5, ([], 0, True)),
        ("x", 5, ([], 0, False)),
        ("12 45", 2, ([2], 0, True)),
        ("9123", 1, ([1, 2, 3], 0, False)),
        ("1223", 1, ([1, 2, 3], 0, False)),  # refused, left there, and done again
        ("122", 2, ([2], 0, False)),
        ("122", 3, ([], 0, False)),
        ("2345234", 2, ([2, 3, 4], 0, False)),
        ("12x23", 1, ([1, 2, 3], 0, False)),
    ],
)
def test_lines_count_if_they_go_on_from_the_table(present: str, at: int, expected: tuple[list[int], int, bool]) -> None:
    lines = [None if number == "x" else change(int(number)) for number in present.replace(" ", "")]
    assert numbers(lines, at) == expected


def test_table_that_somebody_else_wrote_has_another_version() -> None:
    """Apache's broker counts on from the same number, at another time."""
    assert chain([change(1), change(2)], version(2, timestamp=8)).is_stale


def journal_of(files: FaultyFileSystem, *lines: int) -> TableJournal:
    journal = TableJournal(files, TABLE)
    journal.load(version(1))
    for number in lines:
        journal.append(change(number))
    return journal


def loaded(files: FaultyFileSystem, at: int = 1) -> list[int]:
    return [found.content["n"] for found in TableJournal(files, TABLE).load(version(at))]


def test_flipped_bit_costs_the_change_that_it_is_in_and_leaves_a_copy(caplog: pytest.LogCaptureFixture) -> None:
    """Of a line's end: those before and after it."""
    files, copy = FaultyFileSystem(FakeClock()), JOURNAL.with_name("topics.json.journal.corrupt")
    journal_of(files, 1, 2, 3).close()
    whole = files.read_file(JOURNAL) or b""
    for position in range(0, len(whole), 5):
        damaged = whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
        files.write_file(JOURNAL, damaged)
        caplog.clear()
        at = whole.count(b"\n", 0, position) + 1
        assert loaded(files) == [number for number in (1, 2, 3) if number != at]
        assert files.read_file(copy) == damaged
        assert ("is damaged" if at < 3 else "ends early") in caplog.text
    files.write_file(JOURNAL, whole.replace(b"\n", b" ", 1))
    assert loaded(files) == [3]


def test_line_that_was_cut_short_is_replaced_by_the_next() -> None:
    files = FaultyFileSystem(FakeClock())
    journal_of(files, 1, 2).close()
    whole = files.read_file(JOURNAL) or b""
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        files.write_file(JOURNAL, whole[:end])
        journal_of(files, 2, 3).close()
        assert loaded(files) == [1, 2, 3]


def test_journal_of_another_table_is_put_aside_under_another_name() -> None:
    files = FaultyFileSystem(FakeClock())
    journal_of(files, 1, 2).close()
    assert loaded(files, at=9) == []
    assert not files.exists(JOURNAL)
    assert files.exists(JOURNAL.with_name("topics.json.journal.stale"))
    assert loaded(files, at=1) == []


def test_both_journals_are_read_until_the_table_is_written() -> None:
    files = FaultyFileSystem(FakeClock())
    journal = journal_of(files, 1, 2)
    journal.rotate()
    journal.append(change(3))
    assert loaded(files) == [1, 2, 3]
    journal.rotate()  # the table could not be written: the old lines are still needed
    journal.append(change(4))
    assert loaded(files) == [1, 2, 3, 4]
    journal.close()
    again = TableJournal(files, TABLE)
    again.load(version(1))
    again.rotate()
    assert loaded(files) == [1, 2, 3, 4]
    again.is_folded()
    again.rotate()
    assert loaded(files, at=5) == []
    assert not files.exists(JOURNAL)


def other(number: int) -> Change:
    """Another change in place of `change(number)`, made later."""
    return Change(version(number), version(number + 1, timestamp=8), {"n": number + 100})


def test_line_that_was_refused_gives_way_to_what_came_after_it() -> None:
    later = Change(version(3, timestamp=8), version(4, timestamp=9), {"n": 3})
    assert chain([change(1), change(2), other(2), later], version(1)).changes == [change(1), other(2), later]
    assert chain([change(1), change(2), other(2), later], version(2)).changes == [other(2), later]


@pytest.mark.parametrize("is_lasting", [False, True])
def test_refused_line_neither_comes_back_nor_costs_those_after_it_when_the_table_is_written(is_lasting: bool) -> None:
    """Though it was written, and only its sync failed."""
    files = FaultyFileSystem(FakeClock())
    journal = journal_of(files, 1)
    files.fail(at=1, calls=["sync"], lasting=is_lasting)
    with pytest.raises(OSError, match="Input/output"):
        journal.append(change(2))
    assert loaded(files) == [1], "a kill now"
    files.heal()
    journal.rotate()
    journal.append(other(2))
    assert loaded(files) == [1, 102]
    assert loaded(files.crash(Survival.EVERYTHING, seed=1)) == [1, 102]


def test_refused_line_that_cannot_be_taken_out_comes_into_no_other_file() -> None:
    files = FaultyFileSystem(FakeClock())
    journal = journal_of(files, 1)
    files.fail(at=1, calls=["sync", "truncate"], lasting=True)
    for refused in (change(2), other(2)):
        with pytest.raises(OSError, match="Input/output"):
            journal.append(refused)
        with pytest.raises(OSError, match="Input/output"):
            journal.rotate()
    assert not files.exists(OLD)
    assert journal.has_lines, "it is tried again"
    files.heal()
    journal.rotate()
    assert loaded(files) == [1]


def test_first_line_of_all_that_was_refused_is_taken_out_when_the_table_is_written() -> None:
    files = FaultyFileSystem(FakeClock())
    journal = journal_of(files)
    files.fail(at=1, calls=["sync", "truncate"], lasting=True)
    with pytest.raises(OSError, match="Input/output"):
        journal.append(change(1))
    files.heal()
    journal.rotate()
    assert loaded(files) == []


def test_line_that_cannot_be_made_durable_is_none() -> None:
    for call in ("write", "sync"):
        files = FaultyFileSystem(FakeClock())
        journal = journal_of(files, 1)
        files.fail(at=1, calls=[call], torn=True)
        with pytest.raises(OSError, match="Input/output"):
            journal.append(change(2))
        journal.append(change(2))
        assert loaded(files) == [1, 2]
