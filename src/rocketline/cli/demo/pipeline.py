"""The second half of `rocketline demo`: orders become revenue, on Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rocketline.cli.pipeline.checks import verdict
from rocketline.cli.pipeline.progress import RunView
from rocketline.cli.pipeline.session import SparkChoice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.table import Table

    from rocketline.pipelines.definition import Pipeline
    from rocketline.pipelines.examples.orders.events import Counts

_MESSAGES = 20_000
_IN_FLIGHT = 500


def is_possible() -> str:
    """An empty text if all is there that Spark needs; else the line that says what to install."""
    from importlib.util import find_spec

    from rocketline.errors import MissingExtraError
    from rocketline.spark.session import ensure_java

    for package in ("pyspark", "pyarrow", "deltalake"):
        if find_spec(package) is None:
            return str(MissingExtraError("The rest of the demo, a pipeline on Spark,", package, "cli,pipelines"))
    try:
        ensure_java(dict(os.environ))  # only asked; the run itself tells which Java it takes
    except MissingExtraError as error:
        return str(error)
    return ""


def play(console: Console, name_server: str, folder: Path) -> None:
    """Send orders, land them, prove it, print the revenue and write the report."""
    from rocketline.pipelines.definition_file import load
    from rocketline.pipelines.examples.orders import PIPELINE_FILE
    from rocketline.pipelines.runs.run import run

    with console.status("A shop sends orders …"):
        counts = _send_orders(name_server)
    console.print(
        f"[bold]4.[/bold] A shop sent {counts.messages:,} orders: {counts.late:,} late, {counts.duplicates:,} twice, "
        f"{counts.malformed:,} that nobody can read, {counts.senseless:,} that sell nothing."
    )
    pipeline = load(PIPELINE_FILE, {**os.environ, "NAMESRV_ADDR": name_server, "ORDERS_FOLDER": str(folder)})
    with SparkChoice("local[*]", {}).session(pipeline, tell=console.print) as spark:
        console.print("[bold]5.[/bold] Spark lands them, cleans them and sums them up, as a file declares it:")
        console.print(f"   [dim]{PIPELINE_FILE}[/dim]")
        with RunView(is_terminal=console.is_terminal) as view:
            run(pipeline, spark, tell=view.tell)
        _show(console, pipeline, spark, counts)


def _send_orders(name_server: str) -> Counts:
    from rocketline import Producer
    from rocketline.pipelines.examples.orders import TOPIC
    from rocketline.pipelines.examples.orders.events import OrderStream

    stream = OrderStream(TOPIC, seed=1)
    with Producer(name_server, group="shop") as producer:
        waiting = []
        for message in stream.messages(_MESSAGES):
            waiting.append(producer.send_soon(message))
            if len(waiting) == _IN_FLIGHT:
                for receipt in waiting:
                    receipt.result()
                waiting = []
        for receipt in waiting:
            receipt.result()
    return stream.counts


def _show(console: Console, pipeline: Pipeline, spark: SparkSession, counts: Counts) -> None:
    from rocketline.errors import PipelineError
    from rocketline.pipelines.proof.verify import verify
    from rocketline.pipelines.report.write import write_report
    from rocketline.pipelines.tables.reading import read_table

    (found,) = verify(pipeline, spark)
    console.print(
        f"[bold]6.[/bold] [italic]verify[/italic] compared the landed table with what was read: {verdict(found)}."
    )
    if not found.is_clean:
        raise PipelineError("the landed table is not what was read")
    clean = read_table(spark, pipeline.table("clean")).count()
    rejected = read_table(spark, pipeline.table("clean.quarantine")).count()
    console.print(f"   {clean:,} orders are clean, each once; {rejected:,} messages wait in quarantine.")
    revenue = read_table(spark, pipeline.table("revenue"))
    minutes = revenue.select("begins").distinct().count()
    totals = revenue.groupBy("product").agg({"orders": "sum", "revenue": "sum"}).orderBy("product").collect()
    console.print(
        f"[bold]7.[/bold] Revenue, by product, of the {minutes} minutes that no order is waited for any more:"
    )
    console.print(_revenue_table([(row[0], row["sum(orders)"], row["sum(revenue)"]) for row in totals]))
    report = pipeline.state.parent / "report.html"
    write_report(pipeline, spark, report, verdicts={found.table: verdict(found)})
    console.print(
        "   The same rows went back to the topic [italic]revenue[/italic], one message for a minute and product."
    )
    console.print(f"[bold]8.[/bold] Everything else is in the report: [cyan]{report}[/cyan]")


def _revenue_table(rows: Sequence[tuple[str, int, float]]) -> Table:
    from rich.table import Table

    table = Table(header_style="bold")
    table.add_column("product")
    table.add_column("orders", justify="right")
    table.add_column("revenue", justify="right")
    for product, orders, revenue in rows:
        table.add_row(product, f"{orders:,}", f"{revenue:,.2f}")
    return table
