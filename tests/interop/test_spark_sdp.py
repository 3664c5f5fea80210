"""`export-sdp` writes a project that Spark's own `spark-pipelines` accepts and runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_files import CHAIN, written
from pipeline_runs import command, send
from rocketline.testing import Server

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(300)]
SPARK_PIPELINES = Path(sys.executable).with_name("spark-pipelines")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def test_exported_project_passes_the_dry_run_of_spark_pipelines_and_runs(server: Server, tmp_path: Path) -> None:
    topic, out = "orders", "revenue"
    server.create_topic(topic)
    server.create_topic(out)
    send(server.address, topic, [b"{}"])
    text = CHAIN + f'topic = {{{{ name = "{out}", keys = "revenue" }}}}\n'
    result = command("export-sdp", written(tmp_path, text, address=server.address, topic=topic), tmp_path / "project")
    assert result.exit_code == 0

    done = spark_pipelines("dry-run", tmp_path / "project")

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def spark_pipelines(what: str, project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SPARK_PIPELINES, what, "--conf", "spark.sql.catalogImplementation=hive"],
        cwd=project,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
