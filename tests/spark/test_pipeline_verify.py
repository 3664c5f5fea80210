"""`verify` finds what is wrong with a table, exactly: it must be able to fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from rocketline.client.sync.pull_consumer import PullConsumer
from rocketline.errors import ConfigError, PipelineError
from rocketline.pipelines.definition import TableTarget
from rocketline.pipelines.offset_spans import OffsetSpan
from rocketline.pipelines.tables.iceberg import IcebergTable
from rocketline.pipelines.tables.reading import read_table
from rocketline.testing import Server
from support.pipelines.checkpoints import altered
from support.pipelines.files import LANDING, written
from support.pipelines.runs import Trial, _iceberg_threads_end, command, send

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python

__all__ = ["_iceberg_threads_end"]

Landed = Callable[..., Trial]
COUNT = 40


@pytest.fixture
def landed(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> Landed:
    """Lands forty messages, ten in each queue."""

    def land(format: str = "delta", text: str = LANDING, tags: tuple[str, ...] = ()) -> Trial:
        trial = Trial(spark, written(tmp_path, text, address=server.address, topic=topic, format=format))
        send(server.address, topic, [b"%d" % number for number in range(COUNT)], tags=tags)
        trial.run()
        return trial

    return land


@pytest.fixture(scope="module")
def whole(spark: SparkSession, lasting_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Forty messages in a Delta table, landed once: tests damage copies of it."""
    lasting_server.create_topic("spark-whole")
    file = written(tmp_path_factory.mktemp("whole"), LANDING, address=lasting_server.address, topic="spark-whole")
    send(lasting_server.address, "spark-whole", [b"%d" % number for number in range(COUNT)])
    trial = Trial(spark, file)
    trial.run()
    return trial


@pytest.fixture
def copy(whole: Trial, tmp_path: Path) -> Trial:
    """Everything in it is relative to the file: table, checkpoint, definition."""
    shutil.copytree(whole.file.parent, tmp_path, dirs_exist_ok=True)
    return Trial(whole.spark, tmp_path / whole.file.name)


def delta(trial: Trial) -> DeltaTable:
    return DeltaTable(trial.pipeline.table("raw").path)


def test_table_with_everything_once_is_clean(whole: Trial) -> None:
    found = whole.verdict()

    assert found.is_clean
    assert found.offsets == found.rows == COUNT
    assert [queue.read for queue in found.queues] == [(OffsetSpan(0, 10),)] * 4


def test_deleted_rows_of_a_delta_table_are_gaps(copy: Trial) -> None:
    trial = copy
    delta(trial).delete("queueId = 2 AND queueOffset IN (3, 4, 9)")
    found = trial.verdict()

    assert not found.is_clean
    assert {queue.queue.queue_id: queue.gaps for queue in found.queues if queue.gaps} == {
        2: (OffsetSpan(3, 5), OffsetSpan(9, 10))
    }


def test_rows_that_are_there_twice_are_doubles(copy: Trial) -> None:
    trial = copy
    table = delta(trial).to_pyarrow_table()
    again = table.filter(
        [
            q == 1 and o in (5, 6)
            for q, o in zip(*(table[c].to_pylist() for c in ("queueId", "queueOffset")), strict=True)
        ]
    )
    write_deltalake(trial.pipeline.table("raw").path, again, mode="append")
    found = trial.verdict()

    assert not found.is_clean
    assert {queue.queue.queue_id: queue.doubles for queue in found.queues if queue.doubles} == {1: (OffsetSpan(5, 7),)}
    assert sum(queue.doubled_rows for queue in found.queues) == 2


def test_rows_that_were_never_read_are_strangers(copy: Trial) -> None:
    trial = copy
    table = delta(trial).to_pyarrow_table().slice(0, 1)
    offset = table.schema.get_field_index("queueOffset")
    moved = table.set_column(offset, table.schema.field(offset), [[1234]])
    write_deltalake(trial.pipeline.table("raw").path, moved, mode="append")
    found = trial.verdict()

    assert not found.is_clean
    assert [queue.strangers for queue in found.queues if queue.strangers] == [(OffsetSpan(1234, 1235),)]


def test_deleted_rows_of_an_iceberg_table_are_gaps_and_added_ones_doubles(landed: Landed) -> None:
    trial = landed("iceberg")
    assert trial.verdict().is_clean
    table = IcebergTable(trial.pipeline.table("raw"))._open()
    whole = table.scan().to_arrow()
    table.delete("queueId == 0 and queueOffset == 7")
    table.append(whole.slice(0, 1))
    found = trial.verdict()

    assert not found.is_clean
    assert [queue.gaps for queue in found.queues if queue.gaps] == [(OffsetSpan(7, 8),)]
    assert sum(queue.doubled_rows for queue in found.queues) == 1


def test_file_in_the_folder_that_no_log_names_is_no_double(copy: Trial) -> None:
    file = next(Path(copy.pipeline.table("raw").path).rglob("*.parquet"))
    shutil.copyfile(file, file.with_name("part-again.parquet"))

    assert copy.verdict().is_clean


def test_parquet_file_that_its_log_names_twice_and_one_that_it_forgets_are_found(landed: Landed) -> None:
    trial = landed("parquet")
    assert trial.verdict().is_clean
    folder = Path(trial.pipeline.table("raw").path)
    log = folder / "_spark_metadata" / "0"
    header, *entries = log.read_text().splitlines()
    entry = json.loads(entries[0])
    copy = Path(entry["path"].removeprefix("file://")).with_name("part-again.parquet")
    shutil.copyfile(entry["path"].removeprefix("file://"), copy)
    (log.parent / ".0.crc").unlink()
    log.write_text("\n".join([header, *entries, json.dumps(entry | {"path": copy.as_uri()})]))
    rows = pq.read_metadata(copy).num_rows
    found = trial.verdict()
    assert not found.is_clean
    assert sum(queue.doubled_rows for queue in found.queues) == rows

    log.write_text("\n".join([header, *entries[1:]]))
    if len(entries) > 1:
        found = trial.verdict()
        assert not found.is_clean
        assert sum(span.length for queue in found.queues for span in queue.gaps) == rows


def test_missing_file_is_one_clear_error(copy: Trial) -> None:
    trial = copy
    next(Path(trial.pipeline.table("raw").path).rglob("*.parquet")).unlink()
    result = command("verify", trial.file)

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("rocketline: ")
    assert ".parquet" in result.stderr


def test_verify_of_a_pipeline_that_runs_meanwhile_finds_nothing_strange(
    landed: Landed, server: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = landed()

    def read_later(spark: SparkSession, target: TableTarget) -> DataFrame:
        """The table as it is a batch after the checkpoint was looked at."""
        send(server.address, topic, [b"more"] * 8)
        trial.run()
        return read_table(spark, target)

    monkeypatch.setattr("rocketline.pipelines.proof.verify.read_table", read_later)
    found = trial.verdict()

    assert found.is_clean
    assert (found.offsets, found.rows) == (COUNT, COUNT + 8)


def test_messages_that_a_tag_filter_left_out_are_told_from_lost_ones(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LANDING.replace("startingOffsets", 'tags = "b || c"\nstartingOffsets')
    trial = landed("delta", text, tags=("a", "b", "c"))
    kept = trial.rows("raw").count()
    assert not trial.verdict().is_clean, "without asking, a gap is a gap"

    pulls: list[int] = []
    pull = PullConsumer.pull

    def counted(self: PullConsumer, *given: Any) -> Any:
        pulls.append(1)
        return pull(self, *given)

    monkeypatch.setattr(PullConsumer, "pull", counted)
    found = trial.verdict(asks_broker=True)
    assert found.is_clean
    assert len(pulls) <= 2 * len(found.queues), "as many questions as there are gaps would never end"
    assert sum(span.length for queue in found.queues for span in queue.filtered) == COUNT - kept

    row = trial.rows("raw").selectExpr("queueId", "queueOffset").first()
    assert row is not None
    delta(trial).delete(f"queueId = {row.queueId} AND queueOffset = {row.queueOffset}")
    found = trial.verdict(asks_broker=True)
    assert not found.is_clean
    assert [queue.gaps for queue in found.queues if queue.gaps] == [(OffsetSpan(row.queueOffset, row.queueOffset + 1),)]


def test_queue_that_began_anew_is_told_and_not_called_clean(copy: Trial) -> None:
    checkpoint = copy.pipeline.state / "checkpoints" / "from-orders"
    altered(checkpoint, 1, 0, queues={0: 3}, base={0: 0, 1: 10, 2: 10, 3: 10})
    shutil.copyfile(checkpoint / "commits" / "0", checkpoint / "commits" / "1")
    found = copy.verdict()

    assert not found.is_clean
    assert [queue.begun_anew for queue in found.queues] == [(OffsetSpan(0, 3),), (), (), ()]
    assert not any(queue.gaps or queue.doubled_rows for queue in found.queues)


def test_rows_that_came_between_the_starts_of_two_queries_are_gaps(landed: Landed) -> None:
    rule = (
        'expect = [{{ name = "even", that = "queueOffset % 2 = 0" }}]\nown_query = true\n'
        'quarantine = {{ format = "delta", path = "odd" }}\n'
    )
    trial = landed("delta", LANDING + rule)
    assert trial.verdict().is_clean
    altered(trial.pipeline.state / "checkpoints" / "raw.quarantine", 0, 0, base={2: 4, 3: 10})
    DeltaTable(trial.pipeline.table("raw.quarantine").path).delete(
        "queueId = 2 AND queueOffset < 4 OR queueId = 3 AND queueOffset < 10"
    )
    found = trial.verdict()

    assert [queue.gaps for queue in found.queues] == [
        (),
        (),
        (OffsetSpan(1, 2), OffsetSpan(3, 4)),
        tuple(OffsetSpan(offset, offset + 1) for offset in range(1, 10, 2)),
    ]


def test_rows_in_quarantine_count_as_landed(landed: Landed) -> None:
    rule = (
        'expect = [{{ name = "even", that = "cast(cast(body as string) as int) % 2 = 0" }}]\n'
        'quarantine = {{ format = "delta", path = "odd" }}\n'
    )
    trial = landed("delta", LANDING + rule)

    assert trial.rows("raw").count() == trial.rows("raw.quarantine").count() == COUNT // 2
    assert trial.verdict().is_clean
    DeltaTable(trial.pipeline.table("raw.quarantine").path).delete("queueOffset = 0")
    assert not trial.verdict().is_clean


def test_command_ends_with_status_0_only_if_all_is_well_and_lists_the_rest(copy: Trial) -> None:
    trial = copy
    clean = command("verify", trial.file)
    assert clean.exit_code == 0
    assert clean.stdout == f"raw: clean: {COUNT} offsets of 4 queues, read in 1 batches, are each there once\n"

    delta(trial).delete("queueId = 3 AND queueOffset < 2")
    result, machine = command("verify", trial.file), command("verify", trial.file, "--json")
    assert result.exit_code == machine.exit_code == 1
    assert "raw: NOT clean: 40 offsets of 4 queues" in result.stdout
    assert "broker-a:3: missing: 2 (0–1)" in result.stdout
    found = json.loads(machine.stdout)
    assert found["is_clean"] is False
    assert [queue["gaps"] for queue in found["queues"]] == [[], [], [], [[0, 2]]]


def test_step_that_leaves_out_rows_on_purpose_is_not_compared(whole: Trial, tmp_path: Path) -> None:
    rule = 'expect = [{{ name = "kept", that = "true", otherwise = "drop" }}]\n'
    more = '[steps.some]\nfrom = "orders"\ntable = {{ format = "delta", path = "some" }}\n' + rule
    trial = Trial(whole.spark, written(tmp_path, LANDING + more))

    assert [step.name for step in trial.pipeline.landing_steps()] == ["raw"]
    with pytest.raises(ConfigError, match=r"step 'some' leaves out rows on purpose \(expect\)"):
        trial.verdict("some")


def test_what_cannot_be_compared_is_told(whole: Trial, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'rwa' is no step that reads a source: did you mean raw\?"):
        whole.verdict("rwa")
    never = Trial(whole.spark, written(tmp_path, LANDING.replace('name = "orders"', 'name = "never"')))
    with pytest.raises(PipelineError, match="there is no checkpoint"):
        never.verdict()
