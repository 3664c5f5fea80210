"""Consumers' offsets: commits, resets that wait for a pull, and what a restart finds."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import pytest

from rocketline.broker.long_work import Steps, encoded
from rocketline.broker.metadata import offsets as offsets_module
from rocketline.broker.metadata.offsets import OFFSETS_BYTES_MAX, ConsumerOffsets
from rocketline.errors import LocalProtocolError
from rocketline.store.files.json_files import PIECE_CHARACTERS, FileSave, pretty
from rocketline.store.filesystem import DiskFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.offsets import ConsumerOffsetTable
from rocketline.wire.frame import FRAME_BYTES_MAX
from support.brokers.connections import broker_settings
from support.brokers.saved_tables import CONFIG, SavedTables
from support.effort import calls_by_step
from support.long_steps import counted, outcome


@pytest.mark.parametrize("second", [3, 8, 0, 2**63 - 1, -5])
def test_commit_overwrites_whatever_was_there(second: int) -> None:
    """S92."""
    offsets = SavedTables().offsets
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 0, second)
    assert offsets.query("g", "T", 0) == second


def test_nothing_committed_is_minus_one() -> None:
    offsets = SavedTables().offsets
    offsets.commit("g", "T", 0, 5)
    assert [offsets.query(*place) for place in (("g", "T", 1), ("g", "U", 0), ("h", "T", 0))] == [-1, -1, -1]


def test_saved_offsets_are_found_by_the_next_broker() -> None:
    tables = SavedTables()
    tables.offsets.commit("g", "T", 0, 5)
    tables.offsets.commit("g", "T", 1, 6)
    tables.offsets.commit("h", "%RETRY%h", 0, 7)
    tables.offsets.save()
    again = tables.restarted().offsets
    assert again.offsets_of("g", "T") == {0: 5, 1: 6}
    assert again.query("h", "%RETRY%h", 0) == 7


def test_save_writes_only_if_something_changed_and_again_after_a_failure() -> None:
    tables = SavedTables()
    tables.offsets.save()
    assert tables.files.list(CONFIG) == []
    tables.offsets.commit("g", "T", 0, 5)
    tables.files.fail(at=1, lasting=True)
    with pytest.raises(OSError, match="Input/output"):
        tables.offsets.save()
    tables.files.heal()
    tables.offsets.save()
    tables.files.fail(at=1)
    tables.offsets.save()
    assert tables.restarted().offsets.query("g", "T", 0) == 5


def test_file_of_apache_is_read_with_its_bare_keys() -> None:
    tables = SavedTables()
    tables.files.make_folder(CONFIG)
    tables.files.write_file(
        CONFIG / "consumerOffset.json",
        b'{\n\t"dataVersion":{"counter":2,"stateVersion":0,"timestamp":9},\n\t"groupTopicMap":{"g":["T"]},\n'
        b'\t"offsetTable":{\n\t\t"T@g":{0:10,"1":12\n\t\t},\n\t\t"nonsense":{0:1}\n\t},\n\t"pullOffsetTable":{"T@g":{0:11}}\n}',
    )
    offsets = tables.restarted().offsets
    assert offsets.offsets_of("g", "T") == {0: 10, 1: 12}
    assert offsets.data_version.counter == 2
    assert offsets.pull_offset("g", "T", 0) == 10  # positions of pulls are of the broker that saw the pulls


def test_table_says_all_of_it_as_apache_does() -> None:
    offsets = SavedTables().offsets
    offsets.commit("g", "T", 0, 5)
    offsets.set_pull_offset("g", "T", 0, 6)
    expected = ConsumerOffsetTable(offsets.data_version, {"g": ["T"]}, {"T@g": {0: 5}}, {"T@g": {0: 6}})
    assert outcome(offsets.table()) == expected


def test_every_so_many_commits_make_a_new_version(clock: FakeClock) -> None:
    offsets = SavedTables(clock, consumerOffsetUpdateVersionStep="3").offsets
    counters = []
    for offset in range(7):
        offsets.commit("g", "T", 0, offset)
        counters.append(offsets.data_version.counter)
    assert counters == [0, 0, 1, 1, 1, 2, 2]


def test_position_of_a_pull_stands_beside_the_committed_offset() -> None:
    offsets = SavedTables().offsets
    offsets.commit("g", "T", 0, 5)
    assert offsets.pull_offset("g", "T", 0) == 5
    offsets.set_pull_offset("g", "T", 0, 9)
    assert (offsets.pull_offset("g", "T", 0), offsets.query("g", "T", 0)) == (9, 5)
    assert offsets.pull_offset("g", "T", 1) == -1


# --- resets


def test_reset_counts_until_a_pull_has_taken_it() -> None:
    """S97, S99."""
    offsets = SavedTables().offsets
    offsets.commit("g", "T", 0, 100)
    offsets.assign_reset("g", "T", 0, 10)
    assert (offsets.query("g", "T", 0), offsets.pending_reset("g", "T", 0)) == (10, 10)
    assert offsets.pending_reset("g", "T", 1) is None
    assert [offsets.take_reset("g", "T", 0), offsets.take_reset("g", "T", 0)] == [10, None]
    assert offsets.query("g", "T", 0) == 10
    offsets.commit("g", "T", 0, 11)
    assert offsets.query("g", "T", 0) == 11


def test_reset_of_one_queue_is_taken_without_the_others() -> None:
    offsets = SavedTables().offsets
    offsets.assign_reset("g", "T", 0, 10)
    offsets.assign_reset("g", "T", 1, 11)
    assert offsets.take_reset("g", "T", 0) == 10
    assert offsets.pending_reset("g", "T", 1) == 11


def test_resets_do_not_count_while_clients_do_them() -> None:
    tables = SavedTables()
    tables.offsets.assign_reset("g", "T", 0, 10)
    tables.offsets.commit("g", "T", 0, 20)
    tables.settings.update({"useServerSideResetOffset": "false"})
    assert (tables.offsets.query("g", "T", 0), tables.offsets.take_reset("g", "T", 0)) == (20, None)


# --- views


def test_topics_and_groups_are_found_by_each_other() -> None:
    offsets = SavedTables().offsets
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T")):
        offsets.commit(group, topic, 0, 1)
    assert (offsets.topics_of("g"), offsets.topics_of("nobody")) == (["T", "U"], [])
    assert (offsets.groups_of("T"), offsets.groups_of("nothing")) == (["g", "h"], [])


def test_smallest_offset_leaves_out_groups_and_messages_that_are_gone() -> None:
    offsets = SavedTables().offsets
    for group, queue_id, offset in (("a", 0, 5), ("b", 0, 3), ("c", 0, 1), ("a", 1, 7), ("old", 1, 2)):
        offsets.commit(group, "T", queue_id, offset)
    assert outcome(offsets.smallest("T", {0: 0, 1: 4}.__getitem__, {"c"})) == {0: 3, 1: 7}


def test_smallest_offset_of_many_groups_and_queues_is_found_in_steps_and_asks_for_each_queue_once() -> None:
    offsets = SavedTables().offsets
    for group in range(50):
        for queue_id in range(64):
            offsets.commit(f"g{group}", "T", queue_id, group + 1)
    asked: list[int] = []

    def min_offset(queue_id: int) -> int:
        asked.append(queue_id)
        return 0

    found, pauses = counted(offsets.smallest("T", min_offset, {"g0"}))
    assert found == dict.fromkeys(range(64), 2)
    assert asked == list(range(64))
    assert pauses >= 49 * 64 // 500


def test_cloned_offsets_go_their_own_way() -> None:
    """S104."""
    offsets = SavedTables().offsets
    offsets.commit("g", "T", 0, 5)
    offsets.clone("g", "copy", "T")
    offsets.clone("nobody", "copy", "T")
    offsets.commit("g", "T", 0, 6)
    assert offsets.offsets_of("copy", "T") == {0: 5}


@pytest.mark.parametrize("is_topic", [True, False], ids=["topic", "group"])
def test_removal_takes_all_three_kinds_of_offsets(is_topic: bool) -> None:
    """S70, S89."""
    tables = SavedTables()
    offsets = tables.offsets
    for group, topic in (("g", "T"), ("h", "U")):
        offsets.assign_reset(group, topic, 0, 3)
        offsets.set_pull_offset(group, topic, 0, 4)
    if is_topic:
        outcome(offsets.remove_topics({"T"}))
    else:
        outcome(offsets.remove_group("g"))
    assert (offsets.query("g", "T", 0), offsets.pull_offset("g", "T", 0), offsets.topics_of("g")) == (-1, -1, [])
    assert (offsets.pending_reset("h", "U", 0), offsets.pull_offset("h", "U", 0)) == (3, 4)
    offsets.save()
    assert tables.restarted().offsets.groups_of("U") == ["h"]
    assert tables.restarted().offsets.groups_of("T") == []


def test_file_of_more_than_4_mib_is_found_by_the_next_broker() -> None:
    """Every entry stands on a line of its own, which is more than bare keys: a broker once could not read its file."""
    tables = SavedTables()
    for queue_id in range(250_000):
        tables.offsets.commit("g", "T", queue_id, 10_000_000 + queue_id)
    tables.offsets.save()
    assert tables.files.size_of(CONFIG / "consumerOffset.json") > 4 * 1024 * 1024
    found = tables.restarted().offsets.offsets_of("g", "T")
    assert (len(found), found[249_999]) == (250_000, 10_249_999)


def test_file_that_is_written_piece_by_piece_has_apaches_layout() -> None:
    tables = SavedTables()
    for group in range(3):
        for topic in range(500):
            for queue_id in range(3, -1, -1):
                tables.offsets.commit(f"g{group}", f"T{topic}", queue_id, topic)
    tables.offsets.set_pull_offset("g", "T", 1, 2)
    job = tables.offsets.begin_save()
    assert job is not None
    pieces = list(job._pieces)
    assert "".join(pieces) == pretty(to_value(outcome(tables.offsets.table())))
    assert max(map(len, pieces)) < 2 * PIECE_CHARACTERS


def test_many_topics_are_forgotten_by_one_pass_and_a_large_group_piece_by_piece() -> None:
    offsets = SavedTables().offsets
    for group in range(2_500):
        offsets.commit(f"g{group}", f"T{group}", 0, 1)
    for queue_id in range(16_000):
        offsets.commit("large", "T0", queue_id, 1)
        offsets.commit("large", "U", queue_id, 1)
    _, pauses = counted(offsets.remove_topics({f"T{number}" for number in range(1, 2_500)}))
    assert 2 <= pauses <= 6, "as many as groups need, whatever the number of topics"
    assert offsets.groups_of("T0") == ["g0", "large"]
    _, pauses = counted(offsets.remove_group("large"))
    assert pauses >= 2
    assert (offsets.groups_of("T0"), offsets._count) == (["g0"], 1)


def test_group_that_commits_again_while_its_topic_is_forgotten_is_counted_right() -> None:
    """Or is forgotten, whichever comes first."""
    offsets = SavedTables().offsets
    for topic in range(3):
        for queue_id in range(12_000):
            offsets.commit("g", f"T{topic}", queue_id, 1)
    steps = offsets.remove_topics({"T0", "T1", "T2"})
    next(steps)
    outcome(offsets.remove_group("g"))
    offsets.commit("g", "U", 0, 1)
    outcome(steps)
    assert (offsets.topics_of("g"), offsets._count) == (["U"], 1)


def test_what_comes_and_goes_while_the_file_is_being_written_does_no_harm() -> None:
    tables = SavedTables()
    for number in range(4_000):
        tables.offsets.commit(f"g{number % 50}", f"T{number}", 0, 1)
    job = tables.offsets.begin_save()
    assert job is not None
    for number, _ in enumerate(job.steps()):
        tables.offsets.commit(f"new{number}", "T0", 0, 5)
        tables.offsets.commit("g49", "T3999", 0, 6 + number)
        outcome(tables.offsets.remove_group(f"g{10 + number}"))
        outcome(tables.offsets.remove_topics({f"T{number}"}))
    assert number > 3
    job.run()
    tables.offsets.save_done()
    assert tables.restarted().offsets.query("g49", "T3999", 0) in range(6, 6 + number + 1)
    assert tables.offsets.begin_save() is not None, "what came meanwhile is written the next time"


def test_table_is_made_in_steps() -> None:
    offsets = SavedTables().offsets
    for number in range(5_000):
        offsets.commit("g", f"T{number}", 0, 1)
    table, pauses = counted(offsets.table())
    assert (len(table.offset_table), pauses >= 5) == (5_000, True)


@pytest.mark.parametrize(("maps", "queues"), [(4_000_000 // 16_384, 16_384), (90_000, 1)])
def test_table_is_not_made_to_its_end_if_no_frame_can_carry_it(maps: int, queues: int) -> None:
    """As many offsets as are kept, in wide topics; or one of each topic."""
    shared = dict.fromkeys(range(queues), 0)
    offsets = holding({f"{number:0200}@g": shared for number in range(maps)})
    pauses, problem = refused(offsets.table())
    assert problem == "the offsets have more than the 16777216 bytes of a frame"
    assert pauses < maps / 1_000


def test_table_that_is_larger_than_a_frame_is_written_no_further() -> None:
    """Its offsets have many digits, which nobody counts before."""
    shared = dict.fromkeys(range(16_384), 2**62)
    table = outcome(holding({f"T{number}@g": shared for number in range(120)}).table())
    pauses, problem = refused(encoded(table))
    assert problem == "ConsumerOffsetTable has more than the 16777216 bytes of a frame"
    assert pauses <= FRAME_BYTES_MAX / (16 * 1024)


def holding(table: dict[str, dict[int, int]]) -> ConsumerOffsets:
    saved = ConsumerOffsetTable(offset_table=table)
    return ConsumerOffsets(SavedTables().files, CONFIG / "o.json", broker_settings(), FakeClock(), saved)


def refused(steps: Steps[object]) -> tuple[int, str]:
    """After how many pauses, and why."""
    pauses = 0
    try:
        for _ in steps:
            pauses += 1
    except LocalProtocolError as error:
        return pauses, str(error)
    raise AssertionError("it was done to its end")


def test_offsets_are_bounded_by_the_memory_that_they_take() -> None:
    """Those of topics with one queue take three times as much as others, and long names more."""
    shared, name = dict.fromkeys(range(16_384), 0), "t" * 200
    offsets = holding({f"T{number}@g": shared for number in range(225)})
    count = 0
    while offsets.has_room("g", f"{name}{count}", 0):
        offsets.commit("g", f"{name}{count}", 0, 1)
        count += 1
    rest = OFFSETS_BYTES_MAX - 225 * 16_384 * 125
    assert rest / (125 + 250 + 210) - 300 < count < rest / (125 + 250 + 200)
    offsets.commit("g", f"{name}{count}", 0, 1)
    assert offsets.query("g", f"{name}{count}", 0) == -1
    assert offsets.has_room("g", f"{name}0", 0), "it has one already"
    assert not offsets.clone("g", "h", f"{name}0")
    outcome(offsets.remove_topics({f"{name}0"}))
    assert offsets.has_room("g", f"{name}{count}", 0)
    outcome(offsets.remove_group("g"))
    assert offsets.has_room("g", f"{name}{count}", 0)


def test_offsets_count_the_same_whatever_way_they_came_and_went() -> None:
    offsets = SavedTables().offsets
    offsets.commit("g", "T", 0, 1)
    offsets.commit("g", "T", 1, 1)
    offsets.set_pull_offset("g", "T", 0, 1)
    offsets.assign_reset("g", "T", 0, 1)
    assert offsets.take_reset("g", "T", 0) == 1
    offsets.clone("g", "h", "T")
    offsets.clone("g", "h", "T")
    outcome(offsets.remove_group("h"))
    outcome(offsets.remove_topics({"T"}))
    assert (offsets._count, offsets._bytes) == (0, 0)


def _steps_of(job: FileSave) -> Steps[None]:
    yield from job.steps()


def test_one_group_of_many_topics_is_written_in_small_pieces() -> None:
    tables = SavedTables()
    for number in range(20_000):
        tables.offsets.commit("g", f"topic-{number}", 0, 1)
    job = tables.offsets.begin_save()
    assert job is not None
    _, efforts = calls_by_step(_steps_of(job))
    assert max(efforts) < 20_000
    job.run()
    assert len(tables.restarted().offsets.topics_of("g")) == 20_000


def test_large_file_is_written_some_at_a_time() -> None:
    """In memory there is one copy of it, and no second one."""
    tracemalloc.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            save = FileSave(DiskFileSystem(), Path(folder) / "o.json", iter(["x" * 2**15] * 1000))
            for _ in save.steps():
                pass
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            save.run()
            assert tracemalloc.get_traced_memory()[1] - before < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_there_is_a_bound_for_offsets_and_those_that_are_kept_move_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "OFFSETS_MAX", 6)
    tables = SavedTables()
    offsets = tables.offsets
    for queue_id in range(8):
        offsets.commit("g", "T", queue_id, 1)
    assert offsets.offsets_of("g", "T").keys() == set(range(6))
    offsets.commit("g", "T", 0, 9)
    assert (offsets.query("g", "T", 0), offsets.has_room("g", "T", 0), offsets.has_room("g", "T", 7)) == (
        9,
        True,
        False,
    )
    assert not offsets.clone("g", "h", "T")
    offsets.assign_reset("g", "T", 1, 5)
    assert offsets.pending_reset("g", "T", 1) is None
    offsets.save()
    again = tables.restarted().offsets
    assert not again.has_room("g", "T", 7)
    outcome(again.remove_topics({"T"}))
    again.set_pull_offset("g", "U", 0, 1)
    again.assign_reset("g", "U", 0, 1)
    assert again.take_reset("g", "U", 0) == 1
    for queue_id in range(4):
        again.commit("h", "U", queue_id, 1)
    assert len(again.offsets_of("h", "U")) == 4
    assert not again.has_room("h", "U", 4)
    outcome(again.remove_group("h"))
    assert again.has_room("h", "U", 4)
    assert again.clone("g", "h", "U")
