"""Topics in and out of Spark, beside Kafka's and Parquet, in one run: `python -m benchmarks.spark`, `make bench-spark`.

Everything can be narrowed down, to look at one thing while working on it:

    python -m benchmarks.spark --work "read to noop" --body 100 --rounds 1 --no-latency
"""

from __future__ import annotations

import argparse
import datetime as dt
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks import kafka_peer, tables
from benchmarks import spark_report as report
from benchmarks.servers import RESULTS
from benchmarks.spark_contest import Contest, Plan
from benchmarks.spark_meter import Meter
from rocketline.errors import RocketlineError
from rocketline.spark.session import ensure_java, spark_session
from rocketline.testing import apache

_MASTER = "local[2]"
_QUICK = Plan(rounds=1, warm_ups=0, rows={100: 50_000, 1024: 20_000}, latency_s=5)
"""To see that it works, not to quote from."""


def _session(release: kafka_peer.KafkaRelease, home: Path) -> SparkSession:
    settings = {
        "spark.jars": ",".join(release.connector_jars),
        "spark.driver.memory": "4g",
        "spark.local.dir": str(home / "spark"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.streaming.minBatchesToRetain": "100000",
        "spark.log.level": "ERROR",
    }
    return spark_session("benchmark", master=_MASTER, settings=settings)


def _jvm_pid(spark: SparkSession) -> int:
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Topics in and out of Spark, beside Kafka's and Parquet.")
    parser.add_argument("--work", action="append", choices=Plan().works, help="this work only; may be given again")
    parser.add_argument("--body", action="append", type=int, choices=list(Plan().rows), help="bodies of this size only")
    parser.add_argument("--rounds", type=int, help=f"that the medians are taken of (default {Plan().rounds})")
    parser.add_argument("--no-latency", action="store_true", help="leave the streams out")
    parser.add_argument("--bare", action="store_true", help="our broker without the speed extra")
    parser.add_argument("--quick", action="store_true", help="one short round of all, to see that it works")
    return parser.parse_args()


def _plan(asked: argparse.Namespace) -> Plan:
    plan = _QUICK if asked.quick else Plan()
    return replace(
        plan,
        rounds=asked.rounds or plan.rounds,
        works=tuple(asked.work or plan.works),
        rows={size: rows for size, rows in plan.rows.items() if size in (asked.body or plan.rows)},
        latency_s=0 if asked.no_latency else plan.latency_s,
        has_speed=not asked.bare,
    )


def main() -> None:
    """Measure, print the tables; keep the figures if everything was measured."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # and so end what was started, like a Ctrl-C
    asked, console = _parse(), Console(width=None if sys.stdout.isatty() else 150)
    plan, began = _plan(asked), dt.datetime.now(tz=dt.UTC)
    if line := ensure_java():
        console.print(line)
    problem = None
    with tempfile.TemporaryDirectory(prefix="rocketline-bench-") as folder:
        try:
            kafka, release = kafka_peer.fetch(), apache.fetch()
            spark = _session(kafka, Path(folder))
            meter = Meter(_jvm_pid(spark))
            with kafka_peer.KafkaBroker(kafka, Path(folder) / "kafka") as broker:
                contest = Contest(plan, spark, meter, broker, release, Path(folder), console)
                contest.run()
            spark.stop()
        except (RocketlineError, PySparkException, Py4JError, OSError, ValueError) as error:
            problem = str(error)
    if problem:
        sys.exit(f"The benchmark could not be finished. {problem}")
    _conclude(
        contest.results, plan, began, console, is_kept=not (asked.quick or asked.work or asked.body or asked.bare)
    )


def _conclude(results: report.Results, plan: Plan, began: dt.datetime, console: Console, *, is_kept: bool) -> None:
    console.print(report.rate_table(results))
    if results.latencies:
        console.print(report.latency_table(results))
    for line in report.goal_lines(results):
        console.print(line, highlight=False)
    console.print(report.noise_line(results), highlight=False)
    minutes = (dt.datetime.now(tz=dt.UTC) - began).total_seconds() / 60
    console.print(f"It took {minutes:.0f} minutes.")
    if is_kept:
        date = began.date().isoformat()
        path = RESULTS / f"spark-{date}.json"
        tables.save(path, report.document(date, asdict(plan), results))
        console.print(f"All figures: benchmarks/results/{path.name}", highlight=False)


if __name__ == "__main__":
    main()
