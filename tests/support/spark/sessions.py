"""A real Spark for tests: one session for all that ask for it, and what such tests may leave behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psutil
import pytest
from pyspark.sql import SparkSession

from rocketline.spark.session import session_settings, spark_session

TEST_TIMEOUT_S: Final = 180
SMALL_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For sessions of seconds and minutes: what the JVM's second compiler does costs more than it brings."""
_JVM: Final = "spark.driver.extraJavaOptions"
_MASTER: Final = "local[2,4]"
_SETTLED_S: Final = 5.0

Connection = tuple[object, object]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores, which runs a failed task up to four times, as clusters do."""
    settings = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.log.level": "ERROR",
        _JVM: f"{session_settings(_MASTER)[_JVM]} {SMALL_JVM}",
    }
    session = spark_session("tests", master=_MASTER, settings=settings)
    yield session
    session.stop()


def jobs_begun(spark: SparkSession) -> int:
    """How many jobs there were so far: without a job there is no task. Asked of the scheduler, which knows at once."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """The rule for tests with Spark: connections to its JVM, and threads for them, come as it needs them."""
    connections, threads = _connections(), set(threading.enumerate())
    yield
    deadline_s = time.monotonic() + _SETTLED_S
    while (left := _left(connections, threads)) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not left, f"left behind: {left}"


def _left(connections: set[Connection], threads: set[threading.Thread]) -> set[object]:
    new_threads = {thread for thread in set(threading.enumerate()) - threads if not thread.daemon}
    return {*(_connections() - connections), *new_threads}


def _connections() -> set[Connection]:
    """The connections of this process, by their two ends, without those to Spark: its JVM and its Python workers."""
    own = psutil.Process()
    of_spark: set[int] = set()
    for child in own.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a worker that has just ended
            of_spark |= {
                end.laddr.port for end in child.net_connections("tcp")
            }  # a JVM writes addresses as IPv6 has them
    established = [end for end in own.net_connections("tcp") if end.status == psutil.CONN_ESTABLISHED]
    return {(end.laddr, end.raddr) for end in established if not {end.laddr.port, end.raddr.port} & of_spark}
