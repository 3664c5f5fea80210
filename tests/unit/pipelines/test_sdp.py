"""`export-sdp` takes along what the definition names, and leaves nothing behind if it cannot."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import pipelines

from pipeline_files import LANDING, _modules_as_before, written
from rocketline.errors import ConfigError, PipelineError
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.sdp import Project, export

__all__ = ["_modules_as_before"]

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
