"""What was read is known from Spark's checkpoint, also after Spark has forgotten its oldest batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketline.errors import PipelineError
from rocketline.files import replace_file
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.offset_spans import OffsetSpan
from rocketline.pipelines.runs.checkpoint import COVERAGE_FILE, TABLES_FILE, StreamCheckpoint
from support.pipelines.checkpoints import Spark, offset

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    return Spark(tmp_path)


def test_nothing_was_read_before_the_first_batch(tmp_path: Path) -> None:
    checkpoint = StreamCheckpoint(tmp_path / "none")

    assert checkpoint.query_id() is None
    assert checkpoint.last_done() == -1
    assert checkpoint.coverage().spans == {}


def test_batches_add_up_from_where_each_queue_began(spark: Spark) -> None:
    spark.plan(0, offset({0: 15}, {0: 10}))
    spark.plan(1, offset({0: 20, 1: 7}, {1: 5}))
    spark.plan(2, offset({0: 20, 1: 7}, {1: 5}))  # without input: the same offset again
    for batch in range(3):
        spark.done(batch)
    checkpoint = StreamCheckpoint(spark.folder)

    assert checkpoint.coverage().spans == {QUEUES[0]: [OffsetSpan(10, 20)], QUEUES[1]: [OffsetSpan(5, 7)]}
    assert checkpoint.positions() == {QUEUES[0]: 20, QUEUES[1]: 7}


def test_batch_that_is_begun_counts_apart(spark: Spark) -> None:
    spark.plan(0, offset({0: 15}, {0: 10}))
    spark.done(0)
    spark.plan(1, offset({0: 18}))
    checkpoint = StreamCheckpoint(spark.folder)

    assert checkpoint.coverage().spans == {QUEUES[0]: [OffsetSpan(10, 15)]}
    assert checkpoint.coverage_with_planned().spans == {QUEUES[0]: [OffsetSpan(10, 18)]}


def test_jump_over_lost_messages_leaves_a_hole(spark: Spark) -> None:
    spark.plan(0, offset({0: 15}, {0: 10}))
    spark.plan(1, offset({0: 40}, {0: 30}))
    spark.done(0)
    spark.done(1)

    found = StreamCheckpoint(spark.folder).coverage()
    assert found.spans == {QUEUES[0]: [OffsetSpan(10, 15), OffsetSpan(30, 40)]}
    assert found.expired == {QUEUES[0]: [OffsetSpan(15, 30)]}


def test_what_expired_before_the_first_read_is_remembered(spark: Spark) -> None:
    """The topic was new and empty when the stream began; when it came back, nothing of queue 0 was left."""
    checkpoint = StreamCheckpoint(spark.folder)
    spark.plan(0, offset({0: 0, 1: 0}, {0: 0, 1: 0}))
    spark.plan(1, offset({0: 100, 1: 3}, {0: 100}))
    for batch in range(2):
        spark.done(batch)
    assert checkpoint.coverage().expired == {QUEUES[0]: [OffsetSpan(0, 100)]}

    checkpoint.keep_coverage(1)
    spark.forget(0)
    spark.plan(2, offset({0: 110, 1: 3}))
    spark.done(2)
    assert checkpoint.coverage().spans == {QUEUES[0]: [OffsetSpan(100, 110)], QUEUES[1]: [OffsetSpan(0, 3)]}
    assert checkpoint.coverage().expired == {QUEUES[0]: [OffsetSpan(0, 100)]}


def test_what_was_to_be_read_and_had_expired_at_the_start_is_a_loss(spark: Spark) -> None:
    spark.plan(0, offset({0: 510}, {0: 500}, {0: 100}))
    spark.plan(1, offset({0: 510, 1: 30}, {1: 20}, {1: 0}))  # a further queue, whose beginning had expired
    for batch in range(2):
        spark.done(batch)
    found = StreamCheckpoint(spark.folder).coverage()

    assert found.spans == {QUEUES[0]: [OffsetSpan(500, 510)], QUEUES[1]: [OffsetSpan(20, 30)]}
    assert found.expired == {QUEUES[0]: [OffsetSpan(100, 500)], QUEUES[1]: [OffsetSpan(0, 20)]}


def test_where_a_queue_begins_and_what_is_made_anew_is_no_loss(spark: Spark) -> None:
    spark.plan(0, offset({0: 100}, {0: 90}))
    spark.plan(1, offset({0: 4, 1: 55}, {0: 0, 1: 50}))  # queue 0 was made anew and is shorter, queue 1 is new
    for batch in range(2):
        spark.done(batch)
    found = StreamCheckpoint(spark.folder).coverage()

    assert found.spans == {QUEUES[0]: [OffsetSpan(0, 4), OffsetSpan(90, 100)], QUEUES[1]: [OffsetSpan(50, 55)]}
    assert found.expired == {}


def test_jump_over_what_a_topic_that_is_gone_had_at_these_offsets_is_a_loss(spark: Spark) -> None:
    spark.plan(0, offset({0: 100}, {0: 0}))
    spark.plan(1, offset({0: 0}, {0: 0}))
    spark.plan(2, offset({0: 20}, {0: 20}))
    for batch in range(3):
        spark.done(batch)

    assert StreamCheckpoint(spark.folder).coverage().expired == {QUEUES[0]: [OffsetSpan(0, 20)]}


def test_topic_that_was_made_anew_is_read_again_and_that_is_remembered(spark: Spark) -> None:
    checkpoint = StreamCheckpoint(spark.folder)
    spark.plan(0, offset({0: 100, 1: 7}, {0: 90, 1: 0}))
    spark.plan(1, offset({0: 93, 1: 0}, {0: 93, 1: 0}))  # made anew, and all but empty
    spark.plan(2, offset({0: 95, 1: 4}))
    for batch in range(3):
        spark.done(batch)
    found = checkpoint.coverage()
    assert found.spans == {QUEUES[0]: [OffsetSpan(90, 100)], QUEUES[1]: [OffsetSpan(0, 7)]}
    assert found.again == {QUEUES[0]: [OffsetSpan(93, 95)], QUEUES[1]: [OffsetSpan(0, 4)]}

    checkpoint.keep_coverage(1)
    for batch in range(2):
        spark.forget(batch)
    spark.plan(3, offset({0: 102, 1: 4}))
    assert checkpoint.coverage().again == found.again
    assert checkpoint.coverage_with_planned().again == {QUEUES[0]: [OffsetSpan(93, 100)], QUEUES[1]: [OffsetSpan(0, 4)]}


def test_coverage_that_an_older_release_wrote_down_is_read(spark: Spark) -> None:
    old = {"batch": 0, "spans": [["orders", "broker-a", 0, [[10, 15]]]]}
    (spark.folder / COVERAGE_FILE).write_text(json.dumps(old))
    spark.plan(0, offset({0: 15}, {0: 10}))
    spark.plan(1, offset({0: 12}, {0: 11}))
    spark.done(1)

    assert StreamCheckpoint(spark.folder).coverage().again == {QUEUES[0]: [OffsetSpan(11, 12)]}


def test_what_expired_in_a_coverage_of_an_older_release_shows_in_its_holes(spark: Spark) -> None:
    old = {"batch": 2, "spans": [["orders", "broker-a", 0, [[10, 15], [20, 25]]]]}
    (spark.folder / COVERAGE_FILE).write_text(json.dumps(old))
    spark.plan(2, offset({0: 30}, {0: 30}))
    spark.plan(3, offset({0: 40}))
    spark.done(3)

    assert StreamCheckpoint(spark.folder).coverage().expired == {QUEUES[0]: [OffsetSpan(15, 20), OffsetSpan(25, 30)]}


def test_what_spark_forgets_was_written_down(spark: Spark) -> None:
    checkpoint = StreamCheckpoint(spark.folder)
    spark.plan(0, offset({0: 15}, {0: 10}))
    spark.plan(1, offset({0: 20}))
    spark.done(0)
    spark.done(1)
    checkpoint.keep_coverage(1)
    spark.forget(0)
    spark.plan(2, offset({0: 22}))
    spark.done(2)

    assert checkpoint.coverage().spans == {QUEUES[0]: [OffsetSpan(10, 22)]}


def test_driver_that_wakes_within_writing_takes_nothing_back(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its replacement has read and kept a hundred batches since, and Spark has forgotten those before."""
    place = "rocketline.pipelines.runs.checkpoint.replace_file"

    def read_on(batches: range) -> None:
        for batch in batches:
            spark.plan(batch, offset({0: 10 + batch}, {0: 10} if batch == 0 else None))
            spark.done(batch)

    def wake_later(path: Path, content: bytes) -> None:
        monkeypatch.setattr(place, replace_file)
        read_on(range(3, 120))
        StreamCheckpoint(spark.folder).keep_coverage(2)
        for batch in range(15):
            spark.forget(batch)
        replace_file(path, content)

    read_on(range(3))
    monkeypatch.setattr(place, wake_later)
    StreamCheckpoint(spark.folder).keep_coverage(1)

    assert StreamCheckpoint(spark.folder).coverage().spans == {QUEUES[0]: [OffsetSpan(10, 129)]}


def test_file_of_the_newest_run_is_the_only_one_that_stays(spark: Spark) -> None:
    (spark.folder / COVERAGE_FILE).write_text(json.dumps({"batch": -1, "spans": []}))
    for batch in range(3):
        spark.plan(batch, offset({0: 11 + batch}, {0: 10} if batch == 0 else None))
        spark.done(batch)
        StreamCheckpoint(spark.folder).keep_coverage(7 + batch)

    assert [file.name for file in spark.folder.glob("*coverage*")] == [f"{COVERAGE_FILE}.9"]
    assert StreamCheckpoint(spark.folder).coverage().spans == {QUEUES[0]: [OffsetSpan(10, 13)]}


def test_what_was_forgotten_and_not_written_down_is_told(spark: Spark) -> None:
    spark.plan(1, offset({0: 20}))
    spark.done(0)
    spark.done(1)

    with pytest.raises(PipelineError, match="does not go back to batch 0"):
        StreamCheckpoint(spark.folder).coverage()


def test_first_batch_may_have_no_offset(spark: Spark) -> None:
    spark.plan(0, None)
    spark.done(0)
    spark.plan(1, offset({0: 3}, {0: 0}))
    spark.done(1)

    assert StreamCheckpoint(spark.folder).coverage().spans == {QUEUES[0]: [OffsetSpan(0, 3)]}


def test_positions_are_those_of_all_sources_and_tables_have_none(spark: Spark) -> None:
    """Spark finds sources in the order in which a join has them, which is not that of the inputs."""
    spark.done(0)
    table, first, second = {"version": 3}, offset({0: 15, 1: 9}), offset({0: 11})
    lines = [json.dumps(each) for each in (table, first, second)]
    (spark.folder / "offsets" / "0").write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *lines]))

    assert StreamCheckpoint(spark.folder).positions() == {QUEUES[0]: 11, QUEUES[1]: 9}


def test_tables_that_were_made_are_remembered(tmp_path: Path) -> None:
    checkpoint = StreamCheckpoint(tmp_path / "new")
    assert checkpoint.tables() == {}
    checkpoint.keep_tables(["raw"])
    checkpoint.keep_tables(["raw", "clean"])

    assert checkpoint.tables() == {"raw": 0, "clean": 0}
    assert checkpoint.query_id() is None


def test_tables_that_an_older_release_wrote_down_are_there_from_the_beginning(spark: Spark) -> None:
    checkpoint = StreamCheckpoint(spark.folder)
    (spark.folder / TABLES_FILE).write_text('["raw"]')
    spark.done(6)
    assert checkpoint.tables() == {"raw": 0}

    checkpoint.keep_tables(["raw", "copy"])
    assert checkpoint.tables() == {"raw": 0, "copy": 7}


def test_table_that_comes_back_is_a_new_one(spark: Spark) -> None:
    """The step was out of the file for a while: its table does not have the batches of that time."""
    checkpoint = StreamCheckpoint(spark.folder)
    checkpoint.keep_tables(["raw", "copy"])
    spark.done(3)
    checkpoint.keep_tables(["raw"])
    spark.done(6)
    checkpoint.keep_tables(["raw", "copy"])

    assert checkpoint.tables() == {"raw": 0, "copy": 7}


def test_table_that_is_added_later_has_a_coverage_of_its_own_that_outlasts_sparks_memory(spark: Spark) -> None:
    checkpoint = StreamCheckpoint(spark.folder)
    checkpoint.keep_tables(["raw"])
    spark.plan(0, offset({0: 15}, {0: 10}))
    spark.done(0)
    spark.plan(1, offset({0: 20}))  # not done when the table is added: it will get this batch
    checkpoint.keep_tables(["raw", "copy"])
    spark.done(1)
    assert checkpoint.tables() == {"raw": 0, "copy": 1}
    checkpoint.keep_coverage(1)
    spark.plan(2, offset({0: 22}))
    spark.done(2)
    spark.forget(0)

    assert checkpoint.coverage().spans == {QUEUES[0]: [OffsetSpan(10, 22)]}
    assert checkpoint.coverage(1).spans == {QUEUES[0]: [OffsetSpan(15, 22)]}
    spark.plan(3, offset({0: 30}))
    assert checkpoint.coverage_with_planned(1).spans == {QUEUES[0]: [OffsetSpan(15, 30)]}
    assert checkpoint.planned_positions() == {QUEUES[0]: 30}


def test_damaged_file_is_named(spark: Spark) -> None:
    (spark.folder / "offsets" / "0").write_text("v1\n")
    spark.done(0)

    with pytest.raises(PipelineError, match="offsets/0 is damaged"):
        StreamCheckpoint(spark.folder).coverage()
