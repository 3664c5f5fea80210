"""Two drivers of one pipeline, each with a Spark of its own, on one state folder whose lock does not reach both.

The first stands still in the midst of a batch, as a machine that is paused, and its replacement does the batch and
more. Then the first wakes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketline.testing import Server
from support.pipelines import paused_driver
from support.pipelines.files import CHAIN, LANDING, written
from support.pipelines.paused_driver import OPEN, REACHED
from support.pipelines.runs import Trial, _iceberg_threads_end, command, send

__all__ = ["_iceberg_threads_end"]

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python

_PATIENCE_S = 300.0


class PausedDriver:
    """A process group that stands still when it has reached the gate."""

    def __init__(self, file: Path, table: str, moment: str) -> None:
        self._gate, self._output = file.parent / "gate", file.parent / "output.txt"
        self._gate.mkdir()
        words = [sys.executable, paused_driver.__file__, str(file), table, str(self._gate), moment]
        environment = {**os.environ, "PYTHONPATH": str(Path(paused_driver.__file__).parents[2])}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )

    def wait_and_stop(self) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not (self._gate / REACHED).exists():
            assert self._process.poll() is None, self.output()
            assert time.monotonic() < deadline_s, self.output()
            time.sleep(0.02)
        os.killpg(self._process.pid, signal.SIGSTOP)

    def wake_and_wait(self) -> int:
        """The status that it ends with."""
        (self._gate / OPEN).touch()
        os.killpg(self._process.pid, signal.SIGCONT)
        return self._process.wait(_PATIENCE_S)

    def output(self) -> str:
        return self._output.read_text("utf-8", "replace")

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextmanager
def paused(file: Path, table: str, moment: str) -> Iterator[PausedDriver]:
    driver = PausedDriver(file, table, moment)
    try:
        driver.wait_and_stop()
        yield driver
    finally:
        driver.kill()


UNSEEN = "table {home}/raw: this is run 1 of the pipeline, and run 2 has begun since"
SEEN = "{home}/orders-state: this is run 1 of the pipeline, and run 2 (process "


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("format", "moment", "why"),
    [
        pytest.param("delta", "after", UNSEEN, id="delta"),
        pytest.param("iceberg", "after", UNSEEN, id="iceberg"),
        pytest.param("delta", "before", SEEN, id="seen", marks=pytest.mark.thorough),
        pytest.param("parquet", "task", "Race while writing batch 0", id="parquet", marks=pytest.mark.thorough),
    ],
)
def test_driver_that_wakes_after_its_replacement_adds_nothing_and_says_why(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path, format: str, moment: str, why: str
) -> None:
    text = LANDING + ('transform = "paused_driver:held"\n' if moment == "task" else "")
    shutil.copy(paused_driver.__file__, tmp_path)  # beside the pipeline's file, as users have their functions
    pipeline = Trial(spark, written(tmp_path, text, address=server.address, topic=topic, format=format))
    send(server.address, topic, [b"%d" % number for number in range(20)])
    with paused(pipeline.file, "raw", moment) as first:
        (pipeline.pipeline.state / "lock").unlink()  # a share that passes no locks on
        pipeline.run()
        assert pipeline.rows("raw").count() == 20
        if why != SEEN:
            (pipeline.pipeline.state / "runs" / "2").unlink()  # … and shows what is new a little later
        status = first.wake_and_wait()

    assert status == 1, first.output()
    assert why.format(home=tmp_path) in first.output()
    _is_whole(pipeline, 20)
    send(server.address, topic, [b"%d" % number for number in range(20, 30)])
    pipeline.run()
    _is_whole(pipeline, 30)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_state_goes_on_after_a_driver_has_written_it_a_second_time(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    pipeline = Trial(spark, written(tmp_path, CHAIN, address=server.address, topic=topic))
    send(server.address, topic, [order(1), order(2), order(1), order(3, minute=20)])
    with paused(pipeline.file, "clean", "before") as first:
        (pipeline.pipeline.state / "lock").unlink()
        pipeline.run()
        (pipeline.pipeline.state / "runs" / "2").unlink()  # it does not see that it must end, and runs its tasks
        assert first.wake_and_wait() == 1

    assert f"table {tmp_path}/clean: this is run 1 of the pipeline, and run 2" in first.output()
    send(server.address, topic, [order(3, minute=20), order(4, minute=21), order(5, minute=40)])
    pipeline.run()
    assert pipeline.verdict().is_clean
    assert pipeline.values("clean", "id") == [(f"order-{number}",) for number in range(1, 6)]
    assert pipeline.values("revenue", "revenue") == [(1.0,), (1.0,), (2.0,)]


def order(number: int, *, minute: int = 0) -> dict[str, object]:
    return {"id": f"order-{number}", "price": 1.0, "at": f"2026-11-16T08:{minute:02}:00Z"}


def _is_whole(pipeline: Trial, count: int) -> None:
    assert pipeline.values("raw", "body") == sorted((b"%d" % number,) for number in range(count))
    done = command("verify", pipeline.file)
    assert done.exit_code == 0, done.output
