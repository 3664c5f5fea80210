"""Tables whose changes go to a journal: what a change costs, and that no crash takes one back."""

from __future__ import annotations

import contextlib
import itertools
import json

import pytest

from rocketline.broker.metadata.saved_table import SavedTable
from rocketline.broker.metadata.topics import SavedTopics
from rocketline.model.topic_config import TopicConfig
from rocketline.store.files.json_files import PIECE_CHARACTERS, load_json
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from support.brokers.saved_tables import CONFIG, SavedTables

FILE = CONFIG / "topics.json"
JOURNAL = CONFIG / "topics.json.journal"


def topics(*names: str) -> list[TopicConfig]:
    return [TopicConfig(name, 4, 4) for name in names]


def opened(files: FaultyFileSystem) -> SavedTable[TopicConfig]:
    saved = load_json(files, FILE, SavedTopics)
    entries, version = (saved.topic_config_table, saved.data_version) if saved else ({}, None)
    return SavedTable(files, FILE, "topicConfigTable", TopicConfig, FakeClock(), entries, version)


def own(tables: SavedTables) -> set[str]:
    return {name for name in tables.topics.all() if name.startswith("T-")}


def crashed(tables: SavedTables, survival: Survival = Survival.NOTHING, seed: int = 1) -> SavedTables:
    return SavedTables(tables.clock, tables.files.crash(survival, seed=seed))


def test_topic_among_thousands_costs_the_bytes_of_its_own() -> None:
    tables = SavedTables()
    tables.topics.ensure(topics(*(f"T-{number}" for number in range(3_000))))
    tables.topics.table.save()
    before = tables.files.read_file(FILE)
    for number in range(50):
        tables.topics.update(*topics(f"T-new-{number}"))
    assert tables.files.size_of(JOURNAL) < 50 * 500
    assert tables.files.read_file(FILE) == before
    assert tables.topics.table.begin_save() is None, "so few changes are no reason to write the table"
    assert len(own(crashed(tables))) == 3_050


def test_table_is_written_when_its_journal_has_grown_and_each_change_a_few_times() -> None:
    table = opened(FaultyFileSystem(FakeClock()))
    rendered = saves = 0
    for number in range(500):
        table.change({f"T-{number}": TopicConfig(f"T-{number}")})
        if (job := table.begin_save()) is not None:
            rendered, saves = rendered + len(table.entries), saves + 1
            job.run()
            table.save_done()
    assert saves < 30
    assert rendered < 5 * 500


def test_table_is_written_a_minute_after_a_change_at_the_latest(clock: FakeClock) -> None:
    tables = SavedTables(clock)
    tables.topics.ensure(topics(*(f"T-{number}" for number in range(500))))
    tables.topics.table.save()
    tables.topics.update(*topics("T-late"))
    assert tables.topics.table.begin_save() is None
    clock.advance(60)
    job = tables.topics.table.begin_save()
    assert job is not None
    job.run()
    tables.topics.table.save_done()
    assert b"T-late" in (tables.files.read_file(FILE) or b"")
    clock.advance(60)
    assert tables.topics.table.begin_save() is None, "nothing has changed since"


def test_table_that_could_not_be_written_is_written_later_although_nothing_changes(clock: FakeClock) -> None:
    files = FaultyFileSystem(clock)
    table = SavedTable(files, FILE, "topicConfigTable", TopicConfig, clock, {}, None)
    table.change({"T-1": TopicConfig("T-1")})
    files.fail(at=1, lasting=True, calls=["write"])
    with pytest.raises(OSError, match="Input/output"):
        table.save()
    files.heal()
    clock.advance(60)
    job = table.begin_save()
    assert job is not None
    job.run()
    table.save_done()
    clock.advance(60)
    assert table.begin_save() is None
    assert opened(files).entries.keys() == {"T-1"}


def test_table_of_thousands_is_made_in_small_pieces() -> None:
    tables = SavedTables()
    tables.topics.ensure(topics(*(f"T-{number}" for number in range(2_000))))
    job = tables.topics.table.begin_save()
    assert job is not None
    sizes = []
    for _ in job.steps():
        sizes.append(len(job._data[-1]))
        tables.topics.update(*topics(f"T-meanwhile-{len(sizes)}"))
    assert len(sizes) > 10
    assert max(sizes) < 2 * PIECE_CHARACTERS
    job.run()
    tables.topics.table.save_done()
    assert "T-meanwhile-1" not in json.loads(tables.files.read_file(FILE) or b"")["topicConfigTable"]
    assert len(own(crashed(tables))) == 2_000 + len(sizes)


@pytest.mark.parametrize("survival", list(Survival))
def test_no_crash_while_the_table_is_written_takes_a_topic_back(survival: Survival) -> None:
    """Whichever call fails, and whatever the crash leaves: what came before, during and after it is there."""
    for failing_call in itertools.count(1):
        files = FaultyFileSystem(FakeClock())
        table = opened(files)
        table.change({"T-1": TopicConfig("T-1")})
        table.save()
        table.change({"T-2": TopicConfig("T-2"), "T-1": None})
        files.fail(at=failing_call)
        is_failed = False
        try:
            job = table._begin()
            table.change({"T-3": TopicConfig("T-3")})
            job.run()
            table.save_done()
        except OSError:
            is_failed = True
        files.heal()
        table.change({"T-4": TopicConfig("T-4")})
        assert opened(files.crash(survival, seed=failing_call)).entries == table.entries
        table.save()
        table.change({"T-5": TopicConfig("T-5")})
        again = opened(files.crash(survival, seed=failing_call))
        assert (again.entries, again.data_version) == (table.entries, table.data_version)
        if not is_failed:
            break


@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("is_lasting", [False, True])
def test_what_was_refused_around_a_save_never_comes_and_what_was_not_stays(
    survival: Survival, is_lasting: bool
) -> None:
    """Whichever call fails, alone or with all others until the save is over: a kill, and a power cut after the next."""
    for failing_call in itertools.count(1):
        files = FaultyFileSystem(FakeClock())
        table = opened(files)
        table.change({"T-1": TopicConfig("T-1")})
        table.save()
        files.fail(at=failing_call, lasting=is_lasting)
        refused = [name for name in ("T-2", "T-3") if not is_made(table, name)]
        with contextlib.suppress(OSError):
            table.save()
            refused.extend(name for name in ("T-4",) if not is_made(table, name))
        is_failed = files.call_count >= failing_call
        if not is_lasting:
            assert opened(files).entries == table.entries, "a kill"
        files.heal()
        table.save()
        assert opened(files).entries == table.entries
        table.change({"T-5": TopicConfig("T-5")})
        for found in (opened(files), opened(files.crash(survival, seed=failing_call))):
            assert found.entries == table.entries
            assert not found.entries.keys() & refused
        if not is_failed:
            break


def is_made(table: SavedTable[TopicConfig], name: str) -> bool:
    try:
        table.change({name: TopicConfig(name)})
    except OSError:
        return False
    return True


def test_table_that_is_damaged_after_a_kill_is_found_in_its_bak_and_both_journals() -> None:
    tables = SavedTables()
    for name in ("T-1", "T-2", "T-3"):
        tables.topics.update(*topics(name))
        tables.topics.table.save()
    tables.topics.update(*topics("T-4"))
    tables.files.write_file(FILE, (tables.files.read_file(FILE) or b"")[:-9])
    again = tables.restarted()
    assert own(again) == {"T-1", "T-2", "T-3", "T-4"}
    again.topics.update(*topics("T-5"))
    again.topics.table.save()
    assert own(again.restarted()) == {"T-1", "T-2", "T-3", "T-4", "T-5"}


def test_journal_is_not_applied_to_a_table_that_somebody_else_has_written_since() -> None:
    tables = SavedTables()
    tables.topics.update(*topics("T-1"))
    tables.topics.table.save()
    tables.topics.update(*topics("T-2"))
    saved = json.loads(tables.files.read_file(FILE) or b"")
    saved["dataVersion"] = {"counter": saved["dataVersion"]["counter"] + 1, "stateVersion": 0, "timestamp": 99}
    saved["topicConfigTable"]["T-apache"] = saved["topicConfigTable"].pop("T-1") | {"topicName": "T-apache"}
    tables.files.write_file(FILE, json.dumps(saved).encode())
    again = tables.restarted()
    assert own(again) == {"T-apache"}
    assert tables.files.exists(JOURNAL.with_name("topics.json.journal.stale"))
    again.topics.update(*topics("T-3"))
    assert own(again.restarted()) == {"T-apache", "T-3"}


def test_table_that_was_never_written_is_in_its_journal_alone() -> None:
    tables = SavedTables()
    tables.topics.update(*topics("T-1"))
    assert not tables.files.exists(FILE)
    again = tables.restarted()
    again.topics.update(*topics("T-2"))
    assert own(again.restarted()) == {"T-1", "T-2"}
    assert again.restarted().topics.data_version == again.topics.data_version


def test_groups_and_what_they_may_not_read_come_back_from_the_journal() -> None:
    tables = SavedTables()
    tables.groups.find_all(["g", "h"])
    tables.groups.set_forbidden("g", "T", is_forbidden=True)
    tables.groups.set_forbidden("h", "T", is_forbidden=True)
    tables.groups.delete("h")
    again = tables.restarted().groups
    assert (again.get("g") is not None, again.get("h"), again.forbidden) == (True, None, {"g": {"T": 4}})


def test_topic_forbidden_to_a_group_costs_the_bytes_of_its_own() -> None:
    tables = SavedTables()
    tables.groups.find("g")
    for number in range(500):
        tables.groups.set_forbidden("g", f"T{number}", is_forbidden=True)
    before = tables.files.size_of(CONFIG / "subscriptionGroup.json.journal")
    tables.groups.set_forbidden("g", "U", is_forbidden=True)
    tables.groups.set_forbidden("g", "T0", is_forbidden=False)
    assert tables.files.size_of(CONFIG / "subscriptionGroup.json.journal") - before < 500
    again = tables.restarted().groups
    assert again.forbidden["g"].keys() == {"U", *(f"T{number}" for number in range(1, 500))}


def test_what_groups_may_not_read_is_written_in_small_pieces_and_as_before() -> None:
    tables = SavedTables()
    for number in range(3_000):
        tables.groups.set_forbidden(f"g{number}", "T", is_forbidden=True)
    pieces = list(tables.groups.table._begin()._pieces)
    assert max(map(len, pieces)) < 2 * PIECE_CHARACTERS
    begin = "".join(pieces).partition('\n\t"subscriptionGroupTable"')[0]
    assert begin.endswith('\t\t"g2999":{\n\t\t\t"T":4\n\t\t}\n\t},')
    assert len(json.loads("".join(pieces))["forbiddenTable"]) == 3_000
