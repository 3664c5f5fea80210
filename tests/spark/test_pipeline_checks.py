"""What does not fit together is refused before anything runs; what only looks unusual works."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketline.errors import ConfigError, PipelineError, TopicNotFoundError
from rocketline.pipelines.report.figures import figures_of
from rocketline.pipelines.runs.progress_log import read_log
from rocketline.testing import Server
from support.pipelines.files import LANDING, written
from support.pipelines.runs import Trial, _iceberg_threads_end, command, send

pytestmark = pytest.mark.interop  # not for its needs, which are Python's, but because it takes long

__all__ = ["_iceberg_threads_end"]


@pytest.fixture
def trial(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> Callable[..., Trial]:
    """Makes a trial of a file that reads the test's own topic."""

    def make(text: str, format: str = "delta") -> Trial:
        return Trial(spark, written(tmp_path, text, address=server.address, topic=topic, format=format))

    return make


def step(name: str, reads: str, format: str, path: str, more: str = "") -> str:
    return f'[steps.{name}]\nfrom = {reads}\ntable = {{{{ format = "{format}", path = "{path}" }}}}\n{more}\n'


@pytest.mark.thorough_with(format="parquet", is_elsewhere=False)
@pytest.mark.parametrize(
    ("format", "is_elsewhere"),
    [("delta", False), ("parquet", False), ("parquet", True)],
    ids=["delta", "parquet", "parquet on another file system"],
)
def test_table_and_checkpoint_of_different_times_are_refused(
    spark: SparkSession,
    server: Server,
    topic: str,
    trial: Callable[..., Trial],
    tmp_path: Path,
    format: str,
    is_elsewhere: bool,
) -> None:
    """With an old checkpoint, the next batch would have a number that the table has, and be left out without a word.
    Without its table, a checkpoint would go on in the middle."""
    # A file system that Hadoop alone knows, of the test's own: it remembers those that were opened once.
    spark.conf.set(f"fs.viewfs.mounttable.{topic}.link./lake", tmp_path.as_uri())
    path = f"viewfs://{topic}/lake/raw" if is_elsewhere else "raw"
    pipeline = trial(LANDING.replace('path = "raw"', f'path = "{path}"'), format)
    state, table = pipeline.pipeline.state, tmp_path / "raw"
    send(server.address, topic, [b"1"])
    pipeline.run()
    shutil.copytree(state, state.with_name("old"))
    send(server.address, topic, [b"2"])
    pipeline.run()
    state.rename(state.with_name("new"))
    state.with_name("old").rename(state)
    with pytest.raises(PipelineError, match=r"has batch 1, and checkpoint .* knows those until 0 only"):
        pipeline.run()
    assert pipeline.rows("raw").count() == 2
    shutil.rmtree(state)
    with pytest.raises(PipelineError, match="was written under another checkpoint"):
        pipeline.run()

    shutil.rmtree(state)
    state.with_name("new").rename(state)
    shutil.rmtree(table)
    with pytest.raises(PipelineError, match=r"raw is gone, and checkpoint .* says that batches until 1 are in it"):
        pipeline.run()
    assert not table.exists()


def test_step_that_is_added_later_has_no_table_yet_and_sees_what_comes(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    send(server.address, topic, [b"1"])
    trial(LANDING).run()
    send(server.address, topic, [b"2"])
    pipeline = trial(LANDING + step("copy", '"orders"', "delta", "copy"))
    pipeline.run()

    assert pipeline.values("raw", "body") == [(b"1",), (b"2",)]
    assert pipeline.values("copy", "body") == [(b"2",)]


def test_topic_to_be_fed_that_is_not_there_is_told_before_anything_runs(trial: Callable[..., Trial]) -> None:
    pipeline = trial(LANDING + 'topic = "nobody-made-it"\n')
    with pytest.raises(TopicNotFoundError, match="topic 'nobody-made-it' has no route"):
        pipeline.run()
    result = command("dry-run", pipeline.file)

    assert result.exit_code == 1
    assert "topic 'nobody-made-it' has no route" in result.stderr
    assert not (pipeline.file.parent / "raw").exists()


def test_all_that_spark_would_refuse_later_is_told_at_once_before_anything_runs(
    server: Server, topic: str, trial: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"checks_{topic.replace('-', '_')}"
    out = f"{topic}-out"
    server.create_topic(out)
    pipeline = trial(
        LANDING
        + f'topic = {{{{ name = "{out}", body = "queueOffset" }}}}\n'
        + step("sums", '"raw"', "delta", "sums", f'transform = "{module}:sums"\nstateful = true')
        + step("after", '"sums"', "delta", "after", 'expect = [{{ name = "x", that = "nothing", otherwise = "drop" }}]')
        + step("rule", '"raw"', "delta", "rule", 'expect = [{{ name = "x", that = "nothing", otherwise = "drop" }}]')
        + step("part", '"raw"', "parquet", "part", f'transform = "{module}:first"')
    )
    (pipeline.file.parent / f"{module}.py").write_text(
        "def sums(rows):\n    return rows.groupBy('tags').count()\n\n\ndef first(rows):\n    return rows.limit(7)\n"
    )
    monkeypatch.syspath_prepend(pipeline.file.parent)
    with pytest.raises(ConfigError) as caught:
        pipeline.run()

    found = sorted(caught.value.problems)
    assert len(found) == 4, found
    assert found[0].startswith(f"orders.toml: query raw-to-{out}: column body")
    assert found[1].startswith("orders.toml: query sums: ")
    assert "watermark" in found[1]
    assert found[2].startswith("orders.toml: steps.part.transform: ")
    assert found[3].startswith("orders.toml: steps.rule: ")
    assert not (pipeline.file.parent / "raw").exists()


def test_trigger_that_is_no_time_is_told_before_anything_runs(trial: Callable[..., Trial]) -> None:
    pipeline = trial('trigger = "1 secnd"\n' + LANDING)
    with pytest.raises(ConfigError, match="trigger '1 secnd' is no time"):
        pipeline.run()
    assert "trigger 'often' is no time" in command("run", trial(LANDING).file, "--trigger", "often").stderr
    assert not (pipeline.file.parent / "raw").exists()


def test_tables_in_folders_with_blanks_and_dots_are_written_followed_and_read(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    pipeline = trial(
        LANDING.replace('path = "raw"', 'path = "elsewhere/../my lake/raw 100%"')
        + step("copy", '"raw"', "iceberg", "my lake/copy", "own_query = true")
        + step("again", '"copy"', "parquet", "my lake/again", "own_query = true")
    )
    send(server.address, topic, [b"1", b"2"])
    pipeline.run()

    assert pipeline.verdict().is_clean
    for name in ("raw", "copy", "again"):
        assert pipeline.values(name, "body") == [(b"1",), (b"2",)]


def test_join_whose_function_turns_its_inputs_round_goes_on_and_tells_its_offsets(
    server: Server, topic: str, trial: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"join_{topic.replace('-', '_')}"
    pipeline = trial(LANDING + step("both", '["orders", "raw"]', "delta", "both", f'transform = "{module}:both"'))
    (pipeline.file.parent / f"{module}.py").write_text(
        "def both(orders, raw):\n    return raw.select('keys').join(orders.select('keys', 'body'), 'keys')\n"
    )
    monkeypatch.syspath_prepend(pipeline.file.parent)
    send(server.address, topic, [b"a"])
    pipeline.run()
    send(server.address, topic, [b"b"])

    assert pipeline.values("both", "body") == [(b"a",)]
    lines = command("status", pipeline.file, "--json").stdout.splitlines()
    lags = {row["query"]: row["lag"] for row in map(json.loads, lines)}
    assert lags == {"from-orders": 1, "both": 1}


def test_parquet_side_table_without_a_row_is_one_and_other_columns_are_refused(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    parse = 'parse = {{ format = "json", schema = "a int" }}\nquarantine = {{ format = "parquet", path = "q" }}\n'
    pipeline = trial(LANDING + parse, "parquet")
    send(server.address, topic, [b'{"a": 1}'])
    pipeline.run()
    assert pipeline.rows("raw.quarantine").count() == 0
    assert pipeline.verdict().is_clean
    drawn = figures_of(read_log(pipeline.pipeline.state)).quarantined["raw.quarantine"]
    assert [value for _, value in drawn] == [0]
    with pytest.raises(ConfigError, match="a is int32 in the table and string in the step"):
        trial(LANDING + parse.replace("a int", "a string"), "parquet").run()
