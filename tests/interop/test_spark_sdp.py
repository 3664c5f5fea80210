"""`export-sdp` writes a project that Spark's own `spark-pipelines` accepts and runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rocketline.testing import Server
from support.pipelines.files import CHAIN, written
from support.pipelines.runs import command, send
from support.spark.sessions import SMALL_JVM

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(300)]
SETTINGS = ("spark.sql.catalogImplementation=hive", f"spark.driver.extraJavaOptions={SMALL_JVM}")
SPARK_PIPELINES = Path(sys.executable).with_name("spark-pipelines")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def test_exported_project_passes_the_dry_run_of_spark_pipelines_and_runs(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    topic, out = "orders", "revenue"
    server.create_topic(topic)
    server.create_topic(out)
    # Times without a zone are times of the session's zone.
    orders = [{"id": str(number), "price": 1.0, "at": "2026-11-16T08:00:00"} for number in range(20)]
    send(server.address, topic, [*orders, b"no order"])
    # A word of Python's is a name like any other.
    text = CHAIN.replace("clean", "class") + f'topic = {{{{ name = "{out}", keys = "revenue" }}}}\n'
    text += '[spark]\n"spark.driver.memory" = "1g"\n"spark.sql.shuffle.partitions" = "2"\n'
    result = command("export-sdp", written(tmp_path, text, address=server.address, topic=topic), tmp_path / "project")
    assert result.exit_code == 0

    for what in ("dry-run", "run"):
        done = spark_pipelines(what, tmp_path / "project")
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    raw, clean = (table(tmp_path / "project" / "spark-warehouse" / name) for name in ("raw", "class"))
    assert (len(raw), len(clean)) == (21, 20)
    assert {at.isoformat() for at in clean["at"].cast(pa.timestamp("us", "UTC")).to_pylist()} == {
        "2026-11-16T08:00:00+00:00"
    }


def table(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in folder.glob("*.parquet"))


def spark_pipelines(what: str, project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SPARK_PIPELINES, what, *(word for setting in SETTINGS for word in ("--conf", setting))],
        cwd=project,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TZ": "Europe/Berlin",
            # Its Connect server then takes any free port, and not always 15002, which somebody else may have.
            "SPARK_TESTING": "yes",  # with 1 its launcher looks for a checkout of Spark
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
