"""`export-sdp` starts Spark to look at plans: what `run` refuses is refused, and what flows would judge otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rocketline.errors import ConfigError
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.sdp import _counts_at_start, check_flows
from support.pipelines.files import CHAIN, LANDING, _modules_as_before, written
from support.pipelines.runs import command

__all__ = ["_modules_as_before"]

YOUNG = 'expect = [{{ name = "young", that = "storeTimestamp > now() - interval 1 day"{more} }}]\n'
QUARANTINE = 'quarantine = {{ format = "delta", path = "bad" }}\n'
STAMPED = """
[steps.stamped]
from = "raw"
transform = "export_steps:stamped"
table = {{ format = "delta", path = "stamped" }}

[steps.clean]
from = "stamped"
expect = [{{ name = "in time", that = "seen < storeTimestamp + interval 1 day" }}]
table = {{ format = "delta", path = "clean" }}
quarantine = {{ format = "delta", path = "bad" }}
own_query = true
"""
STATE = 'watermark = {{ time = "storeTimestamp", late = "1 hour" }}\ndeduplicate = "msgId"\n'
UNIQUE = f'[steps.unique]\nfrom = "raw"\ntable = {{{{ format = "delta", path = "unique" }}}}\n{STATE}'


def problems(spark: SparkSession, file: Path) -> tuple[str, ...]:
    try:
        check_flows(load(file, {}), spark)
    except ConfigError as error:
        return error.problems
    return ()


def scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def test_what_a_run_refuses_is_not_exported(spark: SparkSession, tmp_path: Path) -> None:
    file = written(tmp_path, LANDING + YOUNG.replace("{more}", "") + QUARANTINE)
    result = command("export-sdp", file, tmp_path / "project")

    assert result.exit_code != 0
    assert "steps.raw.expect 'young': now() may differ each time" in result.output
    assert not (tmp_path / "project").exists()


def test_steady_pipeline_is_exported(spark: SparkSession, tmp_path: Path) -> None:
    result = command("export-sdp", written(tmp_path, CHAIN), tmp_path / "project")

    assert result.exit_code == 0, result.output
    assert (tmp_path / "project" / "transformations" / "orders.py").is_file()


@pytest.mark.parametrize(("more", "count"), [("", 0), (STATE, 1)])
def test_column_that_a_flow_computes_anew_is_judged_by_no_step(
    spark: SparkSession, tmp_path: Path, more: str, count: int
) -> None:
    """A run reads it from the table before; so does the project, unless Spark resolves the step's plan at once."""
    (tmp_path / "export_steps.py").write_text(
        "from pyspark.sql import functions as f\n\n\n"
        "def stamped(rows):\n    return rows.withColumn('seen', f.current_timestamp())\n"
    )
    found = problems(spark, written(tmp_path, LANDING + STAMPED + more))

    assert len(found) == count
    for each in found:
        assert "steps.clean.expect 'in time': current_timestamp() in column seen may differ each time" in each
        assert each.endswith("cannot read the tables before it, and computes all their columns anew")


@pytest.mark.parametrize(("more", "count"), [("", 0), (UNIQUE, 1)])
def test_table_that_a_flow_computes_anew_drops_no_row_by_the_clock(
    spark: SparkSession, tmp_path: Path, more: str, count: int
) -> None:
    """A run reads it from the table before, and what was dropped there is dropped for all."""
    dropped = YOUNG.replace("{more}", ', otherwise = "drop"')

    assert len(problems(spark, written(tmp_path, LANDING + dropped + more))) == count


def test_all_settings_that_spark_takes_at_its_start_only_are_known(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    sql = jvm.org.apache.spark.sql
    scala_object(sql.hive, "HiveUtils")  # makes Hive's settings known when it is loaded
    settings = scala_object(sql.internal, "SQLConf")
    keys = [entry.key() for entry in settings.getConfigEntries().toArray()]
    fixed = [key for key in keys if settings.isStaticConfigKey(key)]

    assert {"spark.sql.warehouse.dir", "spark.sql.hive.metastore.version"} <= {*fixed}
    assert [key for key in fixed if not _counts_at_start(key)] == []
