"""A Spark session that is set up well for topics: what pipelines, the demo, tests and benchmarks start with.

    spark = spark_session("orders", master="local[2]")
    spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("subscribe", "orders").load()

Nothing here is needed to read or write topics: any session does, on any cluster that has the wheel installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketline.errors import MissingExtraError
from rocketline.spark.java_runtime import ensure_java as ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
STATE_STORE: Final = {
    # State on disk: windows, joins and the search for duplicates may hold more than memory does.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"',
    **STATE_STORE,
}
_ON_THIS_MACHINE: Final = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
}
"""Nobody else needs to reach the driver."""


def spark_session(
    app_name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or get the session that runs already.

    `master` is any of Spark's; None leaves it to `spark-submit`, or else takes all cores of this machine. `settings`
    win over ours. Without a Java of its own, the machine uses the one from PyPI (`ensure_java` has the line to tell).
    Raises `MissingExtraError` if there is no Java or no PySpark.
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers start whatever python3 comes first
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("The data pipeline", "pyspark", "spark") from None
    submitted = SparkConf()
    master = master or submitted.get("spark.master") or "local[*]"
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    own = {key: value for key, value in session_settings(master).items() if not submitted.contains(key)}
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in (own | dict(settings or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # A thread that did not make the session has none of its own, and Spark asks just that one for data sources.
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    return session


def session_settings(master: str) -> dict[str, str]:
    """What we set for Spark on this master.

    >>> session_settings("local[2]")["spark.sql.shuffle.partitions"]
    '2'
    >>> "spark.driver.host" in session_settings("spark://10.0.0.1:7077")
    False
    """
    if not is_local(master):
        return dict(_EVERYWHERE)
    return _EVERYWHERE | _ON_THIS_MACHINE | {"spark.sql.shuffle.partitions": str(_cores(master))}


def is_local(master: str) -> bool:
    """Driver and executors are on this machine."""
    return master.startswith("local")


def _cores(master: str) -> int:
    """How many tasks run at once with a master on this machine: `local`, `local[4]`, `local[*]`, `local[2,4]`."""
    count = master.partition("[")[2].partition("]")[0].partition(",")[0]
    if count == "*":
        return os.cpu_count() or 1
    return max(int(count), 1) if count.isdecimal() else 1
