"""`rocketline pipeline status` and `verify`: how far it is, and the proof that nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from rocketline.cli.pipeline.session import SparkChoice, pipeline_argument, spark_options
from rocketline.cli.shared.arguments import examples
from rocketline.cli.shared.output import Output, output_options

if TYPE_CHECKING:
    from rocketline.pipelines.definition import Pipeline
    from rocketline.pipelines.offset_spans import OffsetSpan
    from rocketline.pipelines.proof.compare import OffsetFindings, QueueFindings

_SPANS_SHOWN = 5
_PROBLEMS = (
    ("gaps", "missing"),
    ("doubles", "there more than once"),
    ("strangers", "there, but never read"),
    ("unknown", "missing, and the broker does not tell why"),
    ("begun_anew", "begun anew: cannot be proved"),
)
_REMARKS = (
    ("filtered", "left out on purpose, by the filter or by compaction"),
    ("skipped", "expired before they were read (failOnDataLoss=false)"),
    ("gone", "missing, and gone from the broker by now"),
)
_ASK_BROKER = "what is missing may have expired, or a filter left it out: --ask-broker tells what the broker still has"


@click.command()
@pipeline_argument
@click.option("--queues", "is_queues", is_flag=True, help="Each queue, with offset and lag, instead of each query.")
@click.option("--offline", is_flag=True, help="Do not ask brokers: no lag.")
@output_options
def status(pipeline: Pipeline, is_json: bool, is_queues: bool, offline: bool) -> None:
    """Show how far the pipeline's queries are, and how many messages wait for them."""
    from rocketline.pipelines.runs.status import query_statuses, queue_statuses

    queues = queue_statuses(pipeline, asks_brokers=not offline)
    output = Output(is_json=is_json)
    if is_queues:
        output.table(
            ("query", "topic", "broker", "queue", "offset", "end", "lag"),
            [
                (
                    each.query,
                    each.queue.topic,
                    each.queue.broker_name,
                    each.queue.queue_id,
                    each.offset,
                    each.end,
                    each.lag,
                )
                for each in queues
            ],
            empty="nothing was read yet",
        )
        return
    lags = {
        query: _sum(each.lag for each in queues if each.query == query) for query in {each.query for each in queues}
    }
    output.table(
        ("query", "reads", "writes", "batches", "is_batch_open", "last_rows", "last_ms", "watermark_ms", "lag"),
        [
            (
                each.query,
                each.reads,
                each.writes,
                each.batches_done,
                each.is_batch_open,
                each.last_rows,
                each.last_ms,
                each.watermark_ms,
                lags.get(each.query),
            )
            for each in query_statuses(pipeline)
        ],
    )


@click.command(
    epilog=examples(
        ("rocketline pipeline verify orders.toml", "exit status 0 only if all is well"),
        ("rocketline pipeline verify orders.toml --ask-broker", "tell what a tag filter left out from what is lost"),
    )
)
@pipeline_argument
@click.option("--step", "steps", multiple=True, help="Only this step; may be given again.")
@click.option("--ask-broker", "asks_broker", is_flag=True, help="Have brokers explain what is missing.")
@click.option(
    "--allow-expired",
    "allows_expired",
    is_flag=True,
    help="Put up with messages that had expired before they were read (failOnDataLoss=false), and with missing ones "
    "that --ask-broker finds gone from the broker by now; they are told still.",
)
@spark_options
@output_options
@click.pass_context
def verify(
    context: click.Context,
    pipeline: Pipeline,
    choice: SparkChoice,
    is_json: bool,
    steps: tuple[str, ...],
    asks_broker: bool,
    allows_expired: bool,
) -> None:
    """Prove that each landed table has every offset that was read exactly once.

    What was read is known from the checkpoint, what is there from the table. Each gap and each double is listed, and
    what had expired before it was read; the exit status is 1 if there is any.
    """
    from rocketline.pipelines.proof.verify import verify as verify_pipeline

    with choice.session(pipeline) as spark:
        found = verify_pipeline(pipeline, spark, steps=steps, asks_broker=asks_broker, allows_expired=allows_expired)
    output = Output(is_json=is_json)
    if is_json:
        output.table(
            ("table", "is_clean", "since", "batches", "offsets", "rows", "expired", "queues"),
            [_machine_row(each) for each in found],
        )
    else:
        for each in found:
            click.echo(f"{each.table}: {verdict(each)}")
            for line in _problems(each):
                click.echo(f"  {line}")
            if not asks_broker and any(queue.gaps for queue in each.queues):
                click.echo(f"  {_ASK_BROKER}")
    if not all(each.is_clean for each in found):
        context.exit(1)


def verdict(found: OffsetFindings) -> str:
    """One line that tells it all."""
    range_text = f"{found.offsets:,} offsets of {len(found.queues)} queues, read in {found.batches:,} batches"
    if found.since:
        range_text += f" from batch {found.since:,} on, when it was added"
    expired = f"; {found.expired:,} messages had expired before they were read" if found.expired else ""
    if found.gone:
        expired += f", or are missing and gone from the broker by now ({found.gone:,})"
    if found.is_clean:
        left_out = sum(span.length for queue in found.queues for span in queue.filtered)
        remark = f" ({left_out:,} left out on purpose)" if left_out else ""
        return f"clean: {range_text}, are each there once{remark}{expired}"
    return f"NOT clean: {range_text}; {found.rows:,} rows are there{expired}"


def _problems(found: OffsetFindings) -> Iterator[str]:
    for queue in found.queues:
        place = f"{queue.queue.topic} {queue.queue.broker_name}:{queue.queue.queue_id}"
        for name, words in (*_PROBLEMS, *_REMARKS):
            if spans := getattr(queue, name):
                yield f"{place}: {words}: {_listed(spans)}"
        if queue.doubled_rows and not queue.doubles:
            yield f"{place}: {queue.doubled_rows:,} rows too many"


def _listed(spans: tuple[OffsetSpan, ...]) -> str:
    count = sum(span.length for span in spans)
    shown = ", ".join(map(str, spans[:_SPANS_SHOWN])) + (" …" if len(spans) > _SPANS_SHOWN else "")
    return f"{count:,} ({shown})"


def _machine_row(found: OffsetFindings) -> tuple[object, ...]:
    counts = found.since, found.batches, found.offsets, found.rows, found.expired
    return found.table, found.is_clean, *counts, [_machine_queue(queue) for queue in found.queues]


def _machine_queue(queue: QueueFindings) -> dict[str, object]:
    names = ("read", "gaps", "doubles", "strangers", "skipped", "filtered", "unknown", "gone", "begun_anew")
    spans = {name: [list(span) for span in getattr(queue, name)] for name in names}
    place = {"topic": queue.queue.topic, "broker": queue.queue.broker_name, "queue": queue.queue.queue_id}
    return {**place, "rows": queue.rows, "doubled_rows": queue.doubled_rows, **spans}


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
