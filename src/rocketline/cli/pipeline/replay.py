"""`rocketline pipeline replay`: what was kept is sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketline.cli.pipeline.session import SparkChoice, ended_by_sigterm, is_terminal, pipeline_argument, spark_options
from rocketline.cli.shared.arguments import examples, time_argument
from rocketline.cli.shared.output import Output, output_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketline.pipelines.definition import Pipeline

_BATCHES_PER_LINE = 500


@click.command(
    epilog=examples(
        ("rocketline pipeline replay orders.toml --step raw --to orders_again", "all that was landed"),
        ("rocketline pipeline replay orders.toml --topic orders --since 2h --to copy", ""),
    )
)
@pipeline_argument
@click.option("--step", help="Send the messages of this step's table; STEP.quarantine is its side table.")
@click.option("--topic", help="Send the messages that this topic still has, in the cluster of the first source.")
@click.option("--to", "target", required=True, metavar="TOPIC", help="Where to.")
@click.option(
    "--since", type=time_argument, metavar="TIME", help="Only what was stored then or later: 2h, 2026-11-16T08:30."
)
@click.option("--until", type=time_argument, metavar="TIME", help="Only what was stored before.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Messages a second; else as fast as it goes.")
@spark_options
@output_options
def replay(
    pipeline: Pipeline,
    choice: SparkChoice,
    is_json: bool,
    step: str | None,
    topic: str | None,
    target: str,
    since: int | None,
    until: int | None,
    rate: float | None,
) -> None:
    """Send the messages of a table, or of a topic, to a topic: as they were, oldest first, each queue in order."""
    from rocketline.client.sync.producer import Producer
    from rocketline.pipelines.replay import replay as replay_messages
    from rocketline.pipelines.runs.preflight import check_topic
    from rocketline.spark.options.source_and_sink import sink_options

    if (step is None) == (topic is None):
        raise click.UsageError("say what to send: --step or --topic")
    tables = dict(pipeline.tables())
    if step is not None and step not in tables:
        raise click.UsageError(f"there is no step {step!r}: there are {', '.join(tables)}")
    options = pipeline.client_options()
    client = sink_options({**options, "topic": target}).client
    check_topic({**options, "topic": target})
    with (
        choice.session(pipeline) as spark,
        Producer(client.name_servers.split(";"), group="rocketline_replay", **client.keywords()) as producer,
        _Bar(is_terminal=is_terminal()) as bar,
        ended_by_sigterm(),
    ):
        rows = _rows(pipeline, spark, step, {**options, "subscribe": topic or ""}, since, until).cache()
        sent = replay_messages(rows, producer, target, rate=rate, tell=bar.add, begin=bar.begin)
    Output(is_json=is_json).done(f"{sent:,} messages sent to {target}", {"topic": target, "sent": sent})


def _rows(
    pipeline: Pipeline,
    spark: SparkSession,
    step: str | None,
    options: dict[str, str],
    since: int | None,
    until: int | None,
) -> DataFrame:
    from rocketline.pipelines.replay import table_messages, topic_messages

    if step is not None:
        return table_messages(spark, pipeline.table(step), begin_ms=since, end_ms=until)
    return topic_messages(spark, options, begin_ms=since, end_ms=until)


class _Bar:
    """How many of how many are sent: a bar on a terminal, else a line now and then."""

    def __init__(self, *, is_terminal: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._total, self._sent, self._batches = 0, 0, 0
        self._progress = Progress(
            TextColumn("sent"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}", style="dim"),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            disable=not is_terminal,
        )
        self._task = self._progress.add_task("sent", total=None, speed="")
        self._is_terminal = is_terminal

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def begin(self, total: int) -> None:
        self._total = total
        self._progress.update(self._task, total=total)

    def add(self, count: int) -> None:
        self._sent += count
        self._batches += 1
        speed = self._progress.tasks[0].speed
        shown = "" if speed is None else f"{speed:,.0f} messages/s"
        self._progress.update(self._task, advance=count, speed=shown)
        if not self._is_terminal and self._batches % _BATCHES_PER_LINE == 0:
            click.echo(f"sent {self._sent:,} of {self._total:,}", err=True)
