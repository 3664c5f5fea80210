"""`export-sdp` takes along what the definition names, and leaves nothing behind if it cannot."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pipeline_files import LANDING, _modules_as_before, written
from rocketline.errors import ConfigError, PipelineError
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.sdp import export

__all__ = ["_modules_as_before"]


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
    ast.parse((tmp_path / "project" / "transformations" / "orders.py").read_text())
    with pytest.raises(PipelineError, match="is not empty: name a new folder"):
        export(load(tmp_path / "orders.toml", {}), tmp_path / "project")


def test_function_that_is_not_there_leaves_no_half_of_a_project(tmp_path: Path) -> None:
    file = written(tmp_path, LANDING + 'transform = "sdp_nothing:clean"\n')
    with pytest.raises(ConfigError, match="there is no module 'sdp_nothing'"):
        export(load(file, {}), tmp_path / "project")

    assert not (tmp_path / "project").exists()
