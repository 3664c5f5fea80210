"""`rocketline pipeline replay`: what was kept is sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketline.cli.examples import examples
from rocketline.cli.output import Output, output_options
from rocketline.cli.pipeline_session import SparkChoice, is_terminal, pipeline_argument, spark_options
from rocketline.cli.times import time_argument

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
@click.option("--step", help="Send the messages of this step's table.")
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
    from rocketline.pipelines.replay import replay as replay_messages
    from rocketline.pipelines.running import client_options
    from rocketline.spark.options import sink_options
    from rocketline.sync.producer import Producer

    if (step is None) == (topic is None):
        raise click.UsageError("say what to send: --step or --topic")
    if step is not None and step not in pipeline.steps:
        raise click.UsageError(f"there is no step {step!r}: there are {', '.join(pipeline.steps)}")
    options = client_options(pipeline)
    client = sink_options({**options, "topic": target}).client
    with (
        choice.session(pipeline) as spark,
        Producer(client.name_servers.split(";"), group="rocketline_replay", **client.keywords()) as producer,
    ):
        rows = _rows(pipeline, spark, step, {**options, "subscribe": topic or ""}, since, until).cache()
        with _Bar(rows.count(), is_terminal=is_terminal()) as bar:
            sent = replay_messages(rows, producer, target, rate=rate, tell=bar.add)
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
        return table_messages(spark, pipeline.steps[step].table, begin_ms=since, end_ms=until)
    return topic_messages(spark, options, begin_ms=since, end_ms=until)


class _Bar:
    """How many of how many are sent: a bar on a terminal, else a line now and then."""

    def __init__(self, total: int, *, is_terminal: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._total, self._sent, self._batches = total, 0, 0
        self._progress = Progress(
            TextColumn("sent"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.speed:,.0f} messages/s", style="dim"),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            disable=not is_terminal,
        )
        self._task = self._progress.add_task("sent", total=total)
        self._is_terminal = is_terminal

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def add(self, count: int) -> None:
        self._sent += count
        self._batches += 1
        self._progress.advance(self._task, count)
        if not self._is_terminal and self._batches % _BATCHES_PER_LINE == 0:
            click.echo(f"sent {self._sent:,} of {self._total:,}", err=True)
