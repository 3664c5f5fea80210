"""`export-sdp` takes along what the definition names, and leaves nothing behind if it cannot."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark import pipelines

from rocketline.errors import ConfigError, PipelineError
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.runs.plans import SETTINGS as OWN_SETTINGS
from rocketline.pipelines.sdp import Project, export
from rocketline.spark.session import STATE_STORE
from support.pipelines.files import CHAIN, LANDING, _modules_as_before, written

__all__ = ["_modules_as_before"]

SETTINGS = {**STATE_STORE, **OWN_SETTINGS}
STEP = """
[steps.{name}]
from = "orders"
table = {{ format = "delta", path = "{name}" }}
"""
QUARANTINE = """\
expect = [{{ name = "is there", that = "body is not null" }}]
quarantine = {{ format = "delta", path = "bad" }}
"""
TOPIC = 'topic = {{ name = "{topic}" }}\n'


def steps(*names: str) -> str:
    """A pipeline with these steps beside `raw`, to be filled in; what follows belongs to the last of them."""
    return LANDING + "".join(STEP.format(name=name).replace("{", "{{").replace("}", "}}") for name in names)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What a project declares when it is run, by its kind; Spark's own declarations need a running server."""
    found: dict[str, list[str]] = {"table": [], "flow": [], "sink": []}

    def noted(kind: str, name: str) -> Callable[[Any], None]:
        found[kind].append(name)
        return lambda function: None

    monkeypatch.setattr(pipelines, "table", lambda *, name: noted("table", name))
    monkeypatch.setattr(pipelines, "append_flow", lambda *, target, name: noted("flow", name))
    monkeypatch.setattr(pipelines, "create_sink", lambda name, format, options: noted("sink", name))
    return found


def test_definition_functions_and_schemas_are_copied(tmp_path: Path) -> None:
    (tmp_path / "sdp_shop").mkdir()
    (tmp_path / "sdp_shop" / "__init__.py").write_text("")
    (tmp_path / "sdp_shop" / "steps.py").write_text("def clean(rows): ...\n")
    (tmp_path / "order.avsc").write_text("{}")
    more = (
        'parse = {{ format = "avro", schema_file = "order.avsc", otherwise = "drop" }}\n'
        'transform = "sdp_shop.steps:clean"\n'
        '[steps.other]\nfrom = "raw"\ntable = {{ format = "delta", path = "other" }}\n'
        f'parse = {{{{ format = "avro", schema_file = "{tmp_path}/order.avsc", otherwise = "drop" }}}}\n'
    )
    made = export(load(written(tmp_path, LANDING + more), {}), tmp_path / "project")

    names = sorted(str(path.relative_to(tmp_path / "project")) for path in made)
    assert names == ["order.avsc", "orders.toml", "sdp_shop", "spark-pipeline.yml", "transformations/orders.py"]
    assert (tmp_path / "project" / "sdp_shop" / "steps.py").is_file()
    compile((tmp_path / "project" / "transformations" / "orders.py").read_text(), "orders.py", "exec")
    with pytest.raises(PipelineError, match="is not empty: name a new folder"):
        export(load(tmp_path / "orders.toml", {}), tmp_path / "project")


def test_function_that_is_not_there_leaves_no_half_of_a_project(tmp_path: Path) -> None:
    file = written(tmp_path, LANDING + 'transform = "sdp_nothing:clean"\n')
    with pytest.raises(ConfigError, match="there is no module 'sdp_nothing'"):
        export(load(file, {}), tmp_path / "project")

    assert not (tmp_path / "project").exists()


def test_step_may_be_called_like_anything_in_python(tmp_path: Path, declared: dict[str, list[str]]) -> None:
    names = ("project", "class", "dp", "spark", "table_1")
    made = export(load(written(tmp_path, steps(*names) + QUARANTINE + TOPIC), {}), tmp_path / "project")

    content = runpy.run_path(str(made[1]), {"spark": None})
    assert isinstance(content["project"], Project)
    assert content["dp"] is pipelines
    assert declared == {
        "table": ["raw", *names, "table_1_quarantine"],
        "sink": ["table_1_topic"],
        "flow": ["table_1_topic_messages"],
    }


@pytest.mark.parametrize(
    ("names", "more", "problem"),
    [
        (("a_quarantine", "a"), QUARANTINE, "table a_quarantine and table a.quarantine would both be called a_quar"),
        (("a_topic", "a"), TOPIC, "table a_topic and a topic of a would both be called a_topic in the project"),
        (("a_topic_messages", "a"), TOPIC, "the messages of a topic of a would both be called a_topic_messages"),
    ],
)
def test_names_that_would_be_the_same_in_the_project_are_refused(
    tmp_path: Path, names: tuple[str, ...], more: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        export(load(written(tmp_path, steps(*names) + more), {}), tmp_path / "project")
    assert not (tmp_path / "project").exists()


def test_specification_has_the_settings_that_a_run_has(tmp_path: Path) -> None:
    own = '[spark]\n"spark.sql.shop" = \'the "shop": ä\'\n"spark.sql.session.timeZone" = "Asia/Tokyo"\n'
    own += '"spark.driver.memory" = "1 g"\n"spark.hadoop.fs.s3a.secret.key" = "${{KEY}}"\n'
    made = export(load(written(tmp_path, LANDING + own), {"KEY": "hush"}), tmp_path / "project")

    text = made[0].read_text("utf-8")
    assert "hush" not in text
    assert " --conf 'spark.driver.memory=1 g'\n# and spark.hadoop.fs.s3a.secret.key, a secret that" in text
    assert yaml.safe_load(text)["configuration"] == {
        "spark.sql.shop": 'the "shop": ä',
        **SETTINGS,
    }


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('"spark.driver.extraJavaOptions" = "-Dfirst=${{PART}}"', "which comes from the environment and is"),
        ('"spark.sql.shop" = "${{PART:-else}}"', "which comes from the environment and is"),
        ('"spark.driver.extraJavaOptions" = "-DtrustStorePassword=hush"', "a secret that is"),
        ('"spark.hadoop.fs.azure.account.key.shop" = "hush"', "a secret that is"),
    ],
)
def test_values_that_may_be_secrets_are_not_written_down(tmp_path: Path, setting: str, told: str) -> None:
    made = export(load(written(tmp_path, f"{LANDING}[spark]\n{setting}\n"), {"PART": "hush"}), tmp_path / "project")

    text, key = made[0].read_text("utf-8"), setting.split('"')[1]
    assert "hush" not in text
    assert f"# and {key}, {told} not written down.\n" in text
    assert yaml.safe_load(text)["configuration"] == SETTINGS


def test_state_store_of_the_file_is_the_projects(tmp_path: Path) -> None:
    (key,) = STATE_STORE
    made = export(load(written(tmp_path, f'{LANDING}[spark]\n"{key}" = "shop.Store"\n'), {}), tmp_path / "project")

    assert yaml.safe_load(made[0].read_text("utf-8"))["configuration"] == {**OWN_SETTINGS, key: "shop.Store"}


def test_setting_of_the_environment_that_the_pipeline_has_itself_is_not_asked_for(tmp_path: Path) -> None:
    own = '[spark]\n"spark.sql.session.timeZone" = "${{ZONE}}"\n'
    made = export(load(written(tmp_path, LANDING + own), {"ZONE": "Asia/Tokyo"}), tmp_path / "project")

    assert "environment" not in made[0].read_text("utf-8")


def test_setting_with_line_breaks_is_one_word_of_the_command(tmp_path: Path) -> None:
    value = "-Da='b c'\n-Dd=\\e\r\n\u2028-Df=ä"
    own = f'[spark]\n"spark.driver.extraJavaOptions" = {json.dumps(value)}\n"spark.my\\npassword" = "hush"\n'
    made = export(load(written(tmp_path, LANDING + own), {}), tmp_path / "project")

    text = made[0].read_text("utf-8")
    command = next(line for line in text.splitlines() if "spark-pipelines run" in line)
    shown = subprocess.run(
        ["bash", "-c", f"printf %s {command.rpartition(' --conf ')[2]}"],
        capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert shown.stdout.decode() == f"spark.driver.extraJavaOptions={value}"
    assert yaml.safe_load(text)["configuration"] == SETTINGS


def test_flows_that_would_begin_at_different_places_are_refused(tmp_path: Path) -> None:
    """Spark has the step with a watermark read the topic for itself."""
    file = written(tmp_path, CHAIN.replace('startingOffsets = "earliest"', 'startingOffsets = "latest"'))
    with pytest.raises(ConfigError) as refused:
        export(load(file, {}), tmp_path / "project")

    assert refused.value.problems == (
        "orders.toml: sources.orders.startingOffsets: in the project the tables raw and clean and revenue each read "
        "orders by themselves, and a message that comes between their starts may be in some and not in others, or in "
        'none: write startingOffsets = "earliest", an offset for each queue, or startingTimestamp',
    )
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("more", ["", '[steps.copy]\nfrom = "raw"\ntable = {{ format = "delta", path = "copy" }}\n'])
def test_source_that_one_flow_reads_may_begin_at_its_end(tmp_path: Path, more: str) -> None:
    file = written(tmp_path, LANDING.replace('startingOffsets = "earliest"\n', "") + more)

    assert export(load(file, {}), tmp_path / "project")


@pytest.mark.parametrize("file", ["../schemas/order.avsc", "inner/../../schemas/order.avsc", "../home/order.avsc"])
def test_schema_outside_of_the_folder_is_refused_and_nothing_is_written(tmp_path: Path, file: str) -> None:
    home = tmp_path / "home"
    for folder in (home / "inner", tmp_path / "schemas"):
        folder.mkdir(parents=True)
    for folder in (home, tmp_path / "schemas"):
        (folder / "order.avsc").write_text("{}")
    parse = f'parse = {{{{ format = "avro", schema_file = "{file}", otherwise = "drop" }}}}\n'
    with pytest.raises(ConfigError) as refused:
        export(load(written(home, LANDING + parse), {}), tmp_path / "project")

    assert refused.value.problems == (
        f"orders.toml: steps.raw.parse.schema_file: {file} is not in the folder of orders.toml, which is what the "
        "project takes along: put the schema there, or name it by its absolute path",
    )
    assert not (tmp_path / "project").exists()
