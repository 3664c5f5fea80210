"""A real cluster on this machine: a master and two workers of the pip package, our wheel installed, nothing else of us.

The wheel goes into a virtual environment of its own, which sees the packages of this one, PySpark among them, but not
the checkout: whatever the wheel lacks is missing there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyspark
import pytest

from rocketline.spark.java_runtime import ensure_java
from rocketline.testing import Server
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port, running
from support.clients.topic_contents import topic_contents
from support.pipelines.files import CHAIN, written
from support.pipelines.runs import send
from support.spark.sessions import SMALL_JVM

pytestmark = pytest.mark.interop  # not for its needs, which are Python's, but because it takes long

_ROOT = Path(__file__).parents[2]
_JOB = Path(__file__).with_name("cluster_job.py")
_ROWS = 2000
_JOB_S = 300


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has our wheel."""
    home = tmp_path_factory.mktemp("wheel")
    wheel = _build_wheel(home / "source", home)
    venv.create(home / "venv", with_pip=False, symlinks=True)
    program = home / "venv" / "bin" / "python"
    packages = Path(
        subprocess.run(
            [program, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # A line with a path shows the packages there, and not what a .pth file among them adds, which is the checkout.
    shared = {Path(package.__file__ or "").parents[1] for package in (pyspark, np)}
    (packages / "shared.pth").write_text("".join(f"{folder}\n" for folder in sorted(shared)))
    return program


def _build_wheel(source: Path, target: Path) -> Path:
    """Made of a copy, so that nothing is left in the checkout."""
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / name, source)
    shutil.copytree(_ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def _spark_class(name: str, port: int, folder: Path, *arguments: str) -> ServerProcess:
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", LOOPBACK,
        "--port", str(port), "--webui-port", str(free_port()), *arguments,
    ]  # fmt: skip
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
        "SPARK_LOG_DIR": str(folder),
    }
    return ServerProcess(name, command, port=port, output=folder / "output.txt", environment=environment)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The master's address, while it and two workers with one core each run."""
    ensure_java()
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    master = f"spark://{LOOPBACK}:{port}"
    with _spark_class("master.Master", port, folder / "master"):
        workers = [
            _spark_class(
                "worker.Worker", free_port(), folder / name, "--cores", "1", "--memory", "1g",
                "--work-dir", str(folder / name), master,
            )
            for name in ("worker-1", "worker-2")
        ]  # fmt: skip
        with running(*workers):
            yield master


def test_wheel_reads_and_writes_batches_and_streams_on_two_workers(
    server: Server, python: Path, master: str, tmp_path: Path
) -> None:
    for topic in ("cluster-source", "cluster-target"):
        server.create_topic(topic)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    arguments = [master, server.address, "cluster-source", "cluster-target", str(tmp_path / "checkpoint"), str(_ROWS)]
    job = subprocess.run(
        [python, _JOB, *arguments], capture_output=True, text=True, env=environment, timeout=_JOB_S, cwd=tmp_path
    )
    assert job.returncode == 0, job.stderr[-5000:]
    seen = json.loads(job.stdout.splitlines()[-1])
    folders, packages = (set(values) for values in zip(*seen["places"], strict=True))
    assert {Path(folder).parents[1].name for folder in folders} == {"worker-1", "worker-2"}, "both workers took part"
    assert all(Path(package).is_relative_to(python.parents[1]) for package in packages), "the wheel, not the checkout"
    assert (seen["batch"], seen["stream"]) == ([_ROWS, _ROWS, 10], [_ROWS, _ROWS])
    written = topic_contents(server.address, "cluster-target")
    assert sorted(int(message.body) for message in written) == list(range(_ROWS))
    assert {message.properties["SPARK_ID"].split("/")[0] for message in written} == {seen["query"]}


@pytest.mark.timeout(400)  # two programs, each of which starts Spark
def test_pipeline_of_the_wheel_lands_cleans_and_is_verified_on_two_workers(
    server: Server, python: Path, master: str, tmp_path: Path
) -> None:
    server.create_topic("cluster-orders")
    file = written(tmp_path, CHAIN, address=server.address, topic="cluster-orders")
    orders = [{"id": str(number % 50), "price": 1.0, "at": "2026-11-16T08:00:00Z"} for number in range(100)]
    send(server.address, "cluster-orders", [*orders, b"no order"])
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    settings = (f"spark.driver.host={LOOPBACK}", "spark.sql.shuffle.partitions=4")  # 200 are for large clusters
    options = ("--master", master, *(word for one in settings for word in ("--conf", one)), "--json")
    results = [
        subprocess.run(
            [python, "-m", "rocketline", "pipeline", what, str(file), *options],
            capture_output=True,
            text=True,
            env=environment,
            timeout=_JOB_S,
            cwd=tmp_path,
        )
        for what in ("run", "verify")
    ]
    for result in results:
        assert result.returncode == 0, result.stdout + result.stderr[-5000:]
    rows = {row["query"]: row["rows"] for row in map(json.loads, results[0].stdout.splitlines())}
    assert (rows["from-orders"], rows["clean"], rows["revenue"]) == (101, 101, 50)
    assert json.loads(results[1].stdout)["rows"] == 101
