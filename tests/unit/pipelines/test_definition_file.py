"""A pipeline's file is read whole, and everything that is wrong with it is told at once, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import ConfigError
from rocketline.pipelines.definition import Otherwise, Pipeline, TableFormat
from rocketline.pipelines.definition_file import load
from support.pipelines.files import CHAIN, LANDING, written


def problems(folder: Path, text: str) -> tuple[str, ...]:
    (folder / "orders.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(folder / "orders.toml", {})
    return caught.value.problems


def loaded(folder: Path, text: str, environ: dict[str, str] | None = None) -> Pipeline:
    (folder / "orders.toml").write_text(text)
    return load(folder / "orders.toml", environ or {})


LANDED = LANDING.format(address="127.0.0.1:9876", topic="orders", format="parquet")


def test_toml_and_yaml_declare_the_same(tmp_path: Path) -> None:
    yaml = tmp_path / "orders.yaml"
    yaml.write_text(
        "name: orders\n"
        "sources:\n  orders: {nameServer: '127.0.0.1:9876', subscribe: orders, startingOffsets: earliest}\n"
        "steps:\n  raw: {from: orders, table: {format: parquet, path: raw}}\n"
    )
    from_toml, from_yaml = loaded(tmp_path, LANDED), load(yaml, {})

    assert from_toml.steps == from_yaml.steps
    assert from_toml.sources == from_yaml.sources
    assert from_toml.state == from_yaml.state == tmp_path / "orders-state"


def test_paths_are_relative_to_the_file_and_uris_stay(tmp_path: Path) -> None:
    assert loaded(tmp_path, LANDED).steps["raw"].table.path == str(tmp_path / "raw")
    remote = LANDED.replace('path = "raw"', 'path = "s3a://lake/raw"')
    assert loaded(tmp_path, remote).steps["raw"].table.path == "s3a://lake/raw"


@pytest.mark.parametrize("path", ["../{name}/lake/raw", "lake/../lake/raw", "file:{folder}/lake/raw", "lake//raw/"])
def test_paths_are_told_as_spark_names_files_below_them(tmp_path: Path, path: str) -> None:
    text = LANDED.replace('path = "raw"', f'path = "{path.format(name=tmp_path.name, folder=tmp_path)}"')

    assert loaded(tmp_path, text).steps["raw"].table.path == str(tmp_path / "lake" / "raw")


def test_variables_of_the_environment_are_filled_in(tmp_path: Path) -> None:
    text = LANDED.replace("127.0.0.1:9876", "${SERVER:-127.0.0.1:1}").replace('"raw" }', '"${WHERE}/raw" }')
    pipeline = loaded(tmp_path, text, {"WHERE": "lake"})

    assert pipeline.sources["orders"].options["nameServer"] == "127.0.0.1:1"
    assert pipeline.steps["raw"].table.path == str(tmp_path / "lake" / "raw")
    assert any("the environment has no WHERE" in each for each in problems(tmp_path, text))


def test_options_that_are_no_texts_become_what_spark_takes(tmp_path: Path) -> None:
    text = LANDED.replace('startingOffsets = "earliest"', "maxOffsetsPerTrigger = 100\nfailOnDataLoss = false")
    options = loaded(tmp_path, text).sources["orders"].options

    assert (options["maxOffsetsPerTrigger"], options["failOnDataLoss"]) == ("100", "false")


def test_time_with_a_zone_becomes_milliseconds_and_one_without_is_refused(tmp_path: Path) -> None:
    text = LANDED.replace('startingOffsets = "earliest"', "startingTimestamp = 2026-11-16T08:00:00+01:00")
    assert loaded(tmp_path, text).sources["orders"].options["startingTimestamp"] == "1794812400000"

    (found,) = problems(tmp_path, text.replace("+01:00", ""))
    assert "sources.orders: startingTimestamp='2026-11-16T08:00:00'" in found


def test_iceberg_gets_a_name_and_a_catalog_beside_its_folder(tmp_path: Path) -> None:
    table = loaded(tmp_path, LANDED.replace("parquet", "iceberg")).steps["raw"].table

    assert table.format is TableFormat.ICEBERG
    assert table.name == "orders.raw"
    assert table.catalog == {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/iceberg.db",
        "warehouse": tmp_path.as_uri(),
    }


def test_step_with_a_watermark_is_stateful_and_one_without_is_not(tmp_path: Path) -> None:
    pipeline = load(written(tmp_path, CHAIN), {})

    assert {step.name: step.is_stateful for step in pipeline.steps.values()} == {
        "raw": False,
        "clean": True,
        "revenue": True,
    }
    assert pipeline.steps["clean"].expectations[0].otherwise is Otherwise.QUARANTINE


def test_topic_may_be_a_name_a_table_or_a_list(tmp_path: Path) -> None:
    def topics(text: str) -> list[str]:
        return [each.topic for each in loaded(tmp_path, LANDED + text).steps["raw"].topics]

    assert topics('topic = "a"\n') == ["a"]
    assert topics('topic = { name = "a", keys = "msgId" }\n') == ["a"]
    assert topics('topic = ["a", { name = "b" }]\n') == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "to", "problem"),
    [
        ('name = "orders"', 'nmae = "orders"', "nmae: there is no such key: did you mean name?"),
        ('from = "orders"', 'form = "orders"', "steps.raw.form: there is no such key: did you mean from?"),
        ('from = "orders"', 'from = "order"', "steps.raw.from: there is no 'order': did you mean orders?"),
        (
            "parquet",
            "parket",
            "steps.raw.table.format: 'parket' is none of parquet, delta, iceberg: did you mean parquet?",
        ),
        ("table = {", "tabel = {", "steps.raw.table: is missing"),
        ('path = "raw"', "path = 7", "steps.raw.table.path: a text is wanted, not 7"),
        ("subscribe", "subscribed", "there is no option subscribed: did you mean subscribe?"),
        ("nameServer", "nameServers", "did you mean nameServer?"),
        ("[steps.raw]", "[steps.Raw]", "steps.Raw: 'Raw': a name has small letters"),
        ("[steps.raw]", "[steps.orders]", "steps.orders: a source has this name, too"),
        ('path = "raw"', 'path = "raw", name = "a.b"', "steps.raw.table.name: is for iceberg tables only"),
        ("subscribe", "colour = 7\nsubscribe", "sources.orders: option colour means nothing here"),
        ("subscribe", "sendBatchSize = 7\nsubscribe", "sources.orders: option sendBatchSize means nothing here"),
        ('name = "orders"', 'name = "orders"\nstate = "s3://lake/state"', "state: is a folder that this machine sees"),
    ],
)
def test_what_is_wrong_is_told_with_file_key_and_the_nearest(
    tmp_path: Path, change: str, to: str, problem: str
) -> None:
    assert change in LANDED
    found = problems(tmp_path, LANDED.replace(change, to, 1))

    assert any(problem in each and each.startswith("orders.toml: ") for each in found), found


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('deduplicate = "id"', "steps.raw.deduplicate: needs a watermark"),
        ('aggregate = { time = "t", every = "1 minute" }', "steps.raw.aggregate.values: is missing"),
        ('expect = [{ name = "a", that = "b" }]', "steps.raw.quarantine: is missing"),
        ('expect = [{ name = "a", that = "b", otherwise = "drp" }]', "'drp' is none of quarantine, drop, fail"),
        ('quarantine = { format = "parquet", path = "q" }', "steps.raw.quarantine: has no use"),
        ('parse = { format = "json" }', "steps.raw.parse.schema: is missing"),
        ('parse = { format = "raw" }', "steps.raw.quarantine: is missing"),
        ('parse = { format = "avro", schema_file = "no.avsc" }', "steps.raw.parse.schema_file: no.avsc"),
        ('parse = { format = "json", schema = "a int", skipped_bytes = 5 }', "skipped_bytes: is for Avro only"),
        ('transform = "orders.clean"', "steps.raw.transform: 'orders.clean': name it as module:function"),
        ("watermark = { time = 5 }", "steps.raw.watermark.late: is missing"),
        ("stateful = 1", "steps.raw.stateful: true or false is wanted, not 1"),
        ('topic = { name = "a", options = { sendBatchSize = 0 } }', "steps.raw.topic: sendBatchSize='0'"),
        ('topic = { name = "a", options = { colour = 1 } }', "steps.raw.topic: option colour means nothing here"),
        ('topic = "no such name!"', "steps.raw.topic: topic='no such name!'"),
        ('topic = ["a", { name = "a", keys = "msgId" }]', "steps.raw: topic 'a' is there 2 times"),
    ],
)
def test_steps_that_cannot_be_are_told(tmp_path: Path, lines: str, problem: str) -> None:
    found = problems(tmp_path, LANDED + lines + "\n")

    assert any(problem in each for each in found), found


REJECTING = 'expect = [{ name = "a", that = "b" }]\nquarantine = { format = "delta", path = "q" }\n'
PARQUET_ASIDE = REJECTING.replace("delta", "parquet")
IN_DELTA = LANDED.replace('"parquet"', '"delta"')
WATERMARK = 'watermark = { time = "bornTimestamp", late = "1 minute" }\n'
BEGIN = 'startingOffsets = "earliest"\n'


def begun(begin: str, text: str) -> str:
    return text.replace(BEGIN, begin)


@pytest.mark.parametrize(
    "begin",
    [
        "",
        'startingOffsets = "latest"\n',
        'startingOffsets = "group"\nconsumerGroup = "readers"\n',
        "startingOffsets = { orders = { broker-a = { 0 = 5, 1 = -1 } } }\n",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        LANDED + REJECTING,
        IN_DELTA + PARQUET_ASIDE,
        IN_DELTA + REJECTING + WATERMARK,
        IN_DELTA + REJECTING + "own_query = true\n",
    ],
    ids=["parquet", "parquet-aside", "stateful", "own-query"],
)
def test_two_queries_of_a_step_must_begin_at_the_same_place(tmp_path: Path, text: str, begin: str) -> None:
    (found,) = problems(tmp_path, begun(begin, text))

    assert found.startswith("orders.toml: steps.raw.quarantine: two queries read orders, ")
    assert 'write startingOffsets = "earliest"' in found


@pytest.mark.parametrize(
    "text",
    [
        LANDED + REJECTING,
        begun("startingTimestamp = 2026-11-16T08:00:00Z\n", LANDED + REJECTING),
        begun("startingOffsets = { orders = { broker-a = { 0 = 5, 1 = -2 } } }\n", LANDED + REJECTING),
        begun("", LANDED),
        begun("", IN_DELTA + REJECTING),
    ],
    ids=["earliest", "time", "offsets", "one-table", "one-query"],
)
def test_one_query_and_two_that_know_where_they_begin_may_be(tmp_path: Path, text: str) -> None:
    assert "raw" in loaded(tmp_path, text).steps


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path, LANDED.replace("parquet", "parket").replace('"orders"\n', '"Orders"\n', 1) + "nonsense = 1\n"
    )

    assert len(found) == 3


def test_steps_in_a_circle_and_tables_in_one_folder_are_refused(tmp_path: Path) -> None:
    def step(name: str, reads: str, path: str) -> str:
        return f'[steps.{name}]\nfrom = "{reads}"\ntable = {{ format = "delta", path = "{path}" }}\n'

    found = problems(tmp_path, LANDED + step("a", "b", "a") + step("b", "a", "b") + step("c", "raw", "raw"))

    assert sum("goes round in a circle" in each for each in found) == 2
    assert any("is the path of raw already" in each for each in found)


def test_tables_that_would_get_into_each_others_way_are_refused(tmp_path: Path) -> None:
    def step(name: str, table: str) -> str:
        return f'[steps.{name}]\nfrom = "raw"\ntable = {{ {table} }}\n'

    found = problems(
        tmp_path,
        LANDED
        + step("inner", 'format = "delta", path = "raw/inner"')
        + step("one", 'format = "iceberg", path = "one", name = "shop.orders"')
        + step("two", 'format = "iceberg", path = "two", name = "shop.orders"'),
    )

    assert len(found) == 2
    assert any("has inner in it" in each for each in found)
    assert any("Iceberg's catalog has one table shop.orders, and that is one's" in each for each in found)
    assert any("has state in it" in each for each in problems(tmp_path, LANDED.replace('"raw" }', '"." }')))


def test_several_inputs_need_a_function(tmp_path: Path) -> None:
    text = LANDED + '[steps.both]\nfrom = ["raw", "raw"]\ntable = { format = "delta", path = "both" }\n'

    assert any("steps.both.transform: is missing" in each for each in problems(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("orders.ini", "", "a pipeline is a .toml or a .yaml file"),
        ("orders.toml", "name = ", "orders.toml: "),
        ("orders.yaml", "a: [", "orders.yaml: "),
        ("orders.yaml", "name: a\nsteps: {b: {c: 1}, b: {c: 2}}", "'b' is there twice"),
        ("orders.toml", "", "orders.toml: name: is missing"),
    ],
)
def test_file_that_is_none_is_one_clear_error(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name, {})

    assert problem in str(caught.value)


def test_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        load(tmp_path / "orders.toml", {})


def test_reference_pipeline_loads() -> None:
    from rocketline.pipelines.examples.orders import PIPELINE_FILE

    pipeline = load(PIPELINE_FILE, {})

    assert list(pipeline.steps) == ["raw", "clean", "revenue"]
