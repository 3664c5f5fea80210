"""Pipelines on a real Spark and our broker: what lands where, once, also when something fails in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketline.errors import ConfigError, PipelineError, RocketlineError, TopicNotFoundError
from rocketline.pipelines.runs.landing import Landing
from rocketline.pipelines.runs.run import run
from rocketline.pipelines.tables.iceberg import IcebergTable
from rocketline.testing import Server
from rocketline.testing.server_process import free_port
from support.pipelines.files import CHAIN, LANDING, written
from support.pipelines.runs import Trial, _iceberg_threads_end, messages, send

MIXED = CHAIN
for _path, _format in (("raw", "parquet"), ("clean", "iceberg"), ("revenue", "parquet")):
    MIXED = MIXED.replace(f'format = "{{format}}", path = "{_path}"', f'format = "{_format}", path = "{_path}"')
__all__ = ["_iceberg_threads_end"]

BOTH = LANDING + '[steps.copy]\nfrom = "orders"\ntable = {{ format = "iceberg", path = "copy" }}\n'

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python


def order(number: int, price: float = 1.0, minute: int = 0) -> dict[str, Any]:
    return {"id": f"order-{number}", "price": price, "at": f"2026-11-16T08:{minute:02}:00Z"}


ORDERS: list[bytes | dict[str, Any]] = [
    order(1),
    order(2, 2.5),
    order(1),
    order(3, -1.0),
    b"no json",
    order(4, 4.0, minute=20),
]


@pytest.fixture
def trial(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> Callable[..., Trial]:
    """Makes a trial of a file that reads the test's own topic."""

    def make(text: str, format: str = "delta") -> Trial:
        return Trial(spark, written(tmp_path, text, address=server.address, topic=topic, format=format))

    return make


@pytest.mark.thorough_with(text=CHAIN)
@pytest.mark.parametrize("text", [pytest.param(CHAIN, id="delta"), pytest.param(MIXED, id="mixed")])
def test_orders_are_landed_cleaned_and_summed_up_and_the_next_run_goes_on(
    server: Server, topic: str, trial: Callable[..., Trial], text: str
) -> None:
    pipeline = trial(text)
    send(server.address, topic, ORDERS)
    pipeline.run()

    assert pipeline.verdict().is_clean
    assert pipeline.rows("raw").count() == len(ORDERS)
    assert pipeline.values("clean", "id", "price") == [("order-1", 1.0), ("order-2", 2.5), ("order-4", 4.0)]
    assert pipeline.values("clean.quarantine", "body", "problems") == [
        (b"no json", ["parses: no JSON as declared"]),
        (json.dumps(order(3, -1.0)).encode(), ["price is positive"]),
    ]
    assert pipeline.values("revenue", "revenue") == [(3.5,)], "the last minute is still open"

    send(server.address, topic, [order(1), order(5, 5.0, minute=21), order(6, 6.0, minute=40)])
    pipeline.run()

    assert pipeline.verdict().is_clean
    assert pipeline.verdict().offsets == len(ORDERS) + 3
    clean = pipeline.values("clean", "id")
    assert clean == [("order-1",), ("order-2",), ("order-4",), ("order-5",), ("order-6",)]
    assert pipeline.values("revenue", "revenue") == [(3.5,), (4.0,), (5.0,)]


def test_rows_in_quarantine_become_dead_letters_and_results_become_messages(
    spark: SparkSession, server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    bad, out = f"{topic}-bad", f"{topic}-out"
    server.create_topic(bad)
    server.create_topic(out)
    text = CHAIN.replace('path = "quarantine" }}', f'path = "quarantine", topic = "{bad}" }}}}')
    text += f'topic = {{{{ name = "{out}", keys = "revenue", properties = {{{{ minute = "begins" }}}} }}}}\n'
    send(server.address, topic, ORDERS, tags=["new"])
    trial(text).run()

    letters = {bytes(row.body): row for row in messages(spark, server.address, bad)}
    assert letters.keys() == {b"no json", json.dumps(order(3, -1.0)).encode()}
    letter = letters[b"no json"]
    assert letter.properties["PROBLEMS"] == "parses: no JSON as declared"
    assert letter.properties["PROBLEM_TOPIC"] == topic
    assert letter.properties["number"] == "4", "its own properties are there still"
    assert (letter.tags, letter.keys) == ("new", "key-4")
    (result,) = messages(spark, server.address, out)
    assert json.loads(result.body)["revenue"] == 3.5
    assert result.keys == "3.5"
    assert result.properties["minute"] == "2026-11-16 08:00:00"
    assert result.properties["SPARK_ID"]


def test_batch_of_a_parquet_table_that_is_sent_again_has_the_same_ids_with_more_cores(
    spark: SparkSession, server: Server, topic: str, trial: Callable[..., Trial], request: pytest.FixtureRequest
) -> None:
    out = f"{topic}-out"
    server.create_topic(out)
    for number in range(4):  # a file each
        send(server.address, topic, [b"%d" % number])
        trial(LANDING, "parquet").run()
    pipeline = trial(LANDING + f'topic = "{out}"\n', "parquet")
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.leafNodeDefaultParallelism"))
    for cores in (1, 4):
        spark.conf.set("spark.sql.leafNodeDefaultParallelism", cores)
        pipeline.run()
        for done in (pipeline.pipeline.state / "checkpoints" / f"raw-to-{out}" / "commits").glob("*0*"):
            done.unlink()

    sent = [(bytes(row.body), row.properties["SPARK_ID"]) for row in messages(spark, server.address, out)]
    assert len(sent) == 8
    assert len(set(sent)) == len({name for _, name in sent}) == 4


@pytest.mark.thorough_with(moment="before the second table's commit")
@pytest.mark.parametrize("moment", ["before the second table's commit", "after the second table's commit"])
def test_batch_that_fails_between_its_tables_is_in_each_once_after_the_next_run(
    server: Server, topic: str, trial: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    pipeline = trial(BOTH)
    send(server.address, topic, [b"%d" % number for number in range(20)])
    add = IcebergTable.add

    def failing(self: IcebergTable, *given: Any) -> None:
        if moment.startswith("after"):
            add(self, *given)
        raise OSError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(IcebergTable, "add", failing)
        with pytest.raises(PipelineError, match="query from-orders: OSError: the driver is gone"):
            pipeline.run()
    assert pipeline.rows("raw").count() == 20, "its commit came first"
    pipeline.run()

    for step in ("raw", "copy"):
        assert pipeline.verdict(step).is_clean
        assert pipeline.rows(step).count() == 20
    folders = [path.name for path in (pipeline.file.parent / "copy").glob("batch-*")]
    assert len(folders) == 1, "what the first attempt wrote is removed, or is what counts"


def test_source_is_read_once_for_several_tables(
    server: Server, topic: str, trial: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    call = Landing.__call__

    def noted(self: Landing, rows: DataFrame, number: int) -> None:
        read.append(number)
        call(self, rows, number)

    monkeypatch.setattr(Landing, "__call__", noted)
    send(server.address, topic, [b"x"] * 5)
    pipeline = trial(BOTH)
    pipeline.run()

    assert read == [0], "one query, one batch"
    assert pipeline.rows("raw").count() == pipeline.rows("copy").count() == 5


def test_table_of_another_checkpoint_is_refused_before_anything_runs(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    for format in ("delta", "iceberg", "parquet"):
        pipeline = trial(LANDING.replace('path = "raw"', f'path = "{format}"'), format)
        send(server.address, topic, [b"x"])
        pipeline.run()
        (pipeline.file.parent / "orders-state").rename(pipeline.file.parent / f"{format}-state")
        with pytest.raises(PipelineError, match="was written under another checkpoint"):
            pipeline.run()
        assert pipeline.rows("raw").count() >= 1, "nothing was changed"


def test_table_with_other_columns_is_refused(server: Server, topic: str, trial: Callable[..., Trial]) -> None:
    send(server.address, topic, [b'{"a": 1}'])
    parse = 'parse = {{ format = "json", schema = "a int" }}\nquarantine = {{ format = "delta", path = "q" }}\n'
    trial(LANDING + parse).run()
    with pytest.raises(ConfigError, match="a is int32 in the table and string in the step"):
        trial(LANDING + parse.replace("a int", "a string")).run()


def test_row_that_must_not_be_fails_the_run_and_says_why(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    rule = 'expect = [{{ name = "has keys", that = "keys is null", otherwise = "fail" }}]\n'
    send(server.address, topic, [b"x"])
    with pytest.raises(PipelineError, match=r"query from-orders: a row is not as expected: has keys \(keys is null\)"):
        trial(LANDING + rule).run()


def test_rows_that_are_to_be_dropped_are_gone_without_a_trace(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    send(server.address, topic, [b"keep", b"drop"])
    pipeline = trial(LANDING + 'expect = [{{ name = "kept", that = "body = \'keep\'", otherwise = "drop" }}]\n')
    pipeline.run()

    assert pipeline.values("raw", "body") == [(b"keep",)]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("return rows.groupBy('tags').count()", "has a stateful part (Aggregate), but the step has no watermark"),
        ("return rows.dropDuplicates(['keys'])", "has a stateful part (Deduplicate)"),
        ("return rows.select('nothing')", "steps.raw: "),
        ("return 7", "gave int, no DataFrame"),
    ],
)
def test_function_that_cannot_work_is_told_before_anything_runs(
    trial: Callable[..., Trial], topic: str, code: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"steps_{topic.replace('-', '_')}"  # Spark keeps what it was given, by its name
    pipeline = trial(LANDING + f'transform = "{module}:change"\n')
    (pipeline.file.parent / f"{module}.py").write_text(f"def change(rows):\n    {code}\n")
    monkeypatch.syspath_prepend(pipeline.file.parent)
    with pytest.raises(ConfigError) as caught:
        pipeline.run()

    assert problem in str(caught.value)
    assert not (pipeline.file.parent / "raw").exists()


def test_joins_and_windows_are_functions_of_several_tables(
    server: Server, topic: str, trial: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LANDING + (
        '[steps.left]\nfrom = "orders"\ntransform = "join_steps:left"\ntable = {{ format = "delta", path = "left" }}\n'
        '[steps.both]\nfrom = ["raw", "left"]\ntransform = "join_steps:both"\n'
        'table = {{ format = "delta", path = "both" }}\n'
    )
    pipeline = trial(text)
    (pipeline.file.parent / "join_steps.py").write_text(
        "from pyspark.sql.functions import udf\n\n\n"
        "def shout(text):\n    return text.upper()\n\n\n"
        "def left(rows):\n    return rows.select('keys', udf(shout, useArrow=False)('keys').alias('loud'))\n\n\n"
        "def both(raw, left):\n    return raw.select('keys', 'body').join(left, 'keys')\n"
    )
    monkeypatch.syspath_prepend(pipeline.file.parent)
    send(server.address, topic, [b"a", b"b"])
    pipeline.run()

    assert pipeline.values("both", "loud", "body") == [("KEY-0", b"a"), ("KEY-1", b"b")]


def test_unknown_topic_and_silent_name_server_are_one_clear_error_before_any_task(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    quick = LANDING.replace("startingOffsets", '"fetchOffset.numRetries" = 0\nstartingOffsets')
    unknown = Trial(spark, written(tmp_path, quick, address=server.address, topic="nobody-made-it"))
    with pytest.raises(TopicNotFoundError, match="topic 'nobody-made-it' has no route"):
        unknown.run()
    silent = Trial(spark, written(tmp_path, quick, address=f"127.0.0.1:{free_port()}"))
    with pytest.raises(RocketlineError, match=r"127\.0\.0\.1"):
        silent.run()
    assert not (tmp_path / "raw").exists()


def test_second_run_at_the_same_time_is_refused(trial: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = trial(LANDING)
    refused: list[str] = []

    def run_again(*_: object) -> None:
        with pytest.raises(PipelineError, match="pipeline orders runs already") as caught:
            run(pipeline.pipeline, pipeline.spark)
        refused.append(str(caught.value))

    monkeypatch.setattr("rocketline.pipelines.runs.run.check_sources", run_again)
    pipeline.run()

    assert len(refused) == 1
