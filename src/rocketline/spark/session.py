"""A Spark session that is set up well for topics: what pipelines, the demo, tests and benchmarks start with.

    spark = spark_session("orders", master="local[2]")
    spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("subscribe", "orders").load()

Nothing here is needed to read or write topics: any session does, on any cluster that has the wheel installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rocketline.errors import MissingExtraError
from rocketline.spark.java_runtime import ensure_java as ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
_ON_THIS_MACHINE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Nobody else needs to reach the driver; and Python workers are spoken to without a detour over the network stack."""
_ONE_MACHINE: Final = ("local",)
_SHUFFLE_PARTITIONS_PER_CORE: Final = 1


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
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in (session_settings(master) | dict(settings or {})).items():
        if (settings and key in settings) or not submitted.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def session_settings(master: str) -> dict[str, str]:
    """What we set for Spark on this master.

    >>> session_settings("local[2]")["spark.sql.shuffle.partitions"]
    '2'
    >>> "spark.driver.host" in session_settings("spark://10.0.0.1:7077")
    False
    """
    if not master.startswith(_ONE_MACHINE):
        return dict(_EVERYWHERE)
    return _EVERYWHERE | _ON_THIS_MACHINE | {"spark.sql.shuffle.partitions": str(_cores(master))}


def _cores(master: str) -> int:
    """How many tasks run at once with a master on this machine: `local`, `local[4]`, `local[*]`, `local[2,4]`."""
    count = master.partition("[")[2].partition("]")[0].partition(",")[0]
    return int(count) if count.isdecimal() and int(count) else (os.cpu_count() or 1) if count == "*" else 1
