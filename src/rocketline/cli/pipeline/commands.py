"""`rocketline pipeline`: pipelines from topics to tables and back, on Spark."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketline.cli.pipeline.checks import status, verify
from rocketline.cli.pipeline.progress import RunView
from rocketline.cli.pipeline.replay import replay
from rocketline.cli.pipeline.session import (
    SparkChoice,
    ended_by_sigterm,
    is_terminal,
    pipeline_argument,
    spark_options,
)
from rocketline.cli.shared.arguments import examples
from rocketline.cli.shared.output import Output, output_options
from rocketline.errors import RocketlineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketline.pipelines.definition import Pipeline


@click.group(short_help="Land, clean, aggregate and publish topics with Spark.")
def pipeline() -> None:
    """Pipelines from topics to tables and back, declared in a TOML or YAML file and run on Spark."""


@pipeline.command(
    epilog=examples(
        ("rocketline pipeline run orders.toml", "what is there now, then end"),
        ("rocketline pipeline run orders.toml --continuous", "and what comes, until Ctrl-C"),
        ("rocketline pipeline run orders.toml --master spark://10.0.0.5:7077", "on a cluster"),
    )
)
@pipeline_argument
@click.option("--continuous", is_flag=True, help="Go on until Ctrl-C, with the trigger of the file.")
@click.option("--trigger", metavar="TIME", help="Go on until Ctrl-C, with this time between batches: '5 seconds'.")
@spark_options
@output_options
def run(pipeline: Pipeline, choice: SparkChoice, is_json: bool, continuous: bool, trigger: str | None) -> None:
    """Run the pipeline that FILE declares: once for what is there now, or continuously.

    It goes on where the last run ended, however that was. Each message is in each table once.
    """
    from rocketline.pipelines.runs.run import run as run_pipeline

    interval = trigger or (pipeline.trigger if continuous else None)
    with choice.session(pipeline) as spark, RunView(is_terminal=is_terminal()) as view, ended_by_sigterm():
        if interval is None:
            run_pipeline(pipeline, spark, tell=view.tell)
        else:
            with suppress(KeyboardInterrupt):
                run_pipeline(pipeline, spark, trigger=interval, tell=view.tell)
    rows = [(name, each.batches, each.rows, each.rows_per_s, each.lag) for name, each in view.totals.items()]
    Output(is_json=is_json).table(("query", "batches", "rows", "rows_per_s", "lag"), rows, empty="Nothing was new.")


@pipeline.command("dry-run")
@pipeline_argument
@spark_options
@output_options
def dry_run(pipeline: Pipeline, choice: SparkChoice, is_json: bool) -> None:
    """Check all of FILE, its functions, its sources and its tables, and tell what would run. Nothing is changed."""
    from rocketline.pipelines.declared.queries import queries_of
    from rocketline.pipelines.runs.plans import Plans
    from rocketline.pipelines.runs.preflight import check_sources, check_tables, check_topics

    queries = queries_of(pipeline)
    check_sources(pipeline, queries)
    check_topics(pipeline, queries)
    with choice.session(pipeline) as spark:
        plans = Plans(pipeline, queries, spark)
        check_tables(plans)
        rows: list[tuple[str | None, ...]] = []
        for query in queries:
            reads = " ".join(query.inputs)
            if query.topic is not None:
                rows.append((query.name, reads, query.topic.topic, "topic", None))
            for branch in query.branches:
                columns = plans.schemas[branch.table].simpleString().removeprefix("struct<").removesuffix(">")
                kind = pipeline.table(branch.table).format.value
                rows.append((query.name, reads, branch.table, kind, columns))
    Output(is_json=is_json).table(("query", "reads", "writes", "as", "columns"), rows)


@pipeline.command()
@pipeline_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the page.")
@click.option("--no-verify", is_flag=True, help="Leave out the comparison of tables and offsets.")
@spark_options
def report(pipeline: Pipeline, choice: SparkChoice, output: Path | None, no_verify: bool) -> None:
    """Write one HTML page with what the pipeline did: throughput, lag, latency, quarantine, tables."""
    from rocketline.pipelines.report.write import write_report

    path = output or pipeline.state / "report.html"
    with choice.session(pipeline) as spark:
        verdicts = {} if no_verify else _verdicts(pipeline, spark)
        write_report(pipeline, spark, path, verdicts=verdicts)
    click.echo(path)


def _verdicts(pipeline: Pipeline, spark: SparkSession) -> dict[str, str]:
    """On each step that can be compared; a report tells why another cannot, and all the rest."""
    from rocketline.cli.pipeline.checks import verdict
    from rocketline.pipelines.proof.verify import verify as verify_pipeline

    found = {}
    for step in pipeline.landing_steps():
        try:
            found[step.name] = verdict(*verify_pipeline(pipeline, spark, steps=[step.name]))
        except RocketlineError as error:
            found[step.name] = f"not compared: {error}"
    return found


@pipeline.command("export-sdp")
@pipeline_argument
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@spark_options
def export_sdp(pipeline: Pipeline, choice: SparkChoice, folder: Path) -> None:
    """Write the pipeline as a project of Spark Declarative Pipelines into FOLDER.

    Spark is started to check its steps; no server is asked.
    """
    from rocketline.pipelines.sdp import check_flows, export

    with choice.session(pipeline) as spark:
        check_flows(pipeline, spark)
    for path in export(pipeline, folder):
        click.echo(path)


for command in (status, verify, replay):
    pipeline.add_command(command)
