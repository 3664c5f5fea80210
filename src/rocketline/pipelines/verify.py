"""`verify`: a landed table is compared with what its query has read, offset by offset. What is decided:
`verification`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rocketline.errors import ConfigError, PipelineError
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.broker_answers import BrokerAnswers
from rocketline.pipelines.checkpoint import Checkpoint, Coverage
from rocketline.pipelines.definition import Pipeline, Step
from rocketline.pipelines.preparation import checkpoint_of
from rocketline.pipelines.queries import queries_of
from rocketline.pipelines.section import nearest
from rocketline.pipelines.spans import spans_of
from rocketline.pipelines.tables.reading import read_table
from rocketline.pipelines.verification import (
    BLOCK,
    Block,
    Findings,
    QueueFindings,
    SpanTable,
    compare,
    done_by_all,
    united,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE: Final = ("topic", "brokerName", "queueId", "queueOffset")
"""The columns that say where a message was stored."""
_DOUBLES_MAX: Final = 100_000
"""How many doubled offsets are looked up; the number of doubled rows is exact all the same."""


def verify(
    pipeline: Pipeline, spark: SparkSession, *, steps: Sequence[str] = (), asks_broker: bool = False
) -> list[Findings]:
    """A verdict on each step that reads a source and keeps all rows, or on those that are named.

    Rows in quarantine count as landed.
    Raises `ConfigError` for a step that cannot be compared, `PipelineError` if there is nothing to compare with.
    """
    return [_verified(pipeline, spark, step, asks_broker=asks_broker) for step in _chosen(pipeline, steps)]


def _chosen(pipeline: Pipeline, names: Sequence[str]) -> list[Step]:
    landing = {step.name: step for step in pipeline.landing_steps()}
    for name in names:
        if name in pipeline.steps and (key := pipeline.steps[name].leaves_out):
            raise ConfigError(
                [f"step {name!r} leaves out rows on purpose ({key}): that none is missing cannot be proved"]
            )
        if name not in landing:
            meant = nearest(name, list(landing))
            hint = f": did you mean {meant}?" if meant else f": those that do are {', '.join(landing)}"
            raise ConfigError([f"{name!r} is no step that reads a source{hint}"])
    if not landing:
        raise ConfigError(["no step reads one source and keeps all rows: there is nothing to compare"])
    return [landing[name] for name in names] or list(landing.values())


def _verified(pipeline: Pipeline, spark: SparkSession, step: Step, *, asks_broker: bool) -> Findings:
    # The pipeline may be running. What is done before the table is looked at must be in it; what is there was planned
    # by the time that we have looked.
    done, batches = _done(pipeline, step)
    rows = _places(read_table(spark, step.table), step.table.path)
    if step.quarantine is not None:
        rows = rows.unionByName(_places(read_table(spark, step.quarantine.table), step.quarantine.table.path))
    blocks = _blocks(rows)
    planned = [checkpoint.coverage_with_planned() for checkpoint in _checkpoints(pipeline, step)]
    found = compare(done, united(each.spans for each in planned), blocks, united(each.again for each in planned))
    if any(queue.doubled_rows for queue in found):
        found = _with_doubles(found, rows)
    if asks_broker and any(queue.gaps for queue in found):
        with BrokerAnswers(pipeline.sources[step.inputs[0]]) as broker:
            found = tuple(broker.explained(queue) for queue in found)
    return Findings(step.name, batches, found)


def _checkpoints(pipeline: Pipeline, step: Step) -> list[Checkpoint]:
    """Of the queries that write the step's tables."""
    wanted = {step.name, *([step.quarantine_name] if step.quarantine is not None else [])}
    writers = [query for query in queries_of(pipeline) if wanted & {branch.table for branch in query.branches}]
    return [checkpoint_of(pipeline, query.name) for query in writers]


def _done(pipeline: Pipeline, step: Step) -> tuple[SpanTable, int]:
    """What was read by batches that are done, and how many these are."""
    found: list[Coverage] = []
    ends: list[Mapping[MessageQueue, int]] = []
    for checkpoint in _checkpoints(pipeline, step):
        if checkpoint.query_id() is None:
            raise PipelineError(f"there is no checkpoint {checkpoint.folder}: has the pipeline run?")
        ends.append(checkpoint.positions())
        found.append(checkpoint.coverage())
    return done_by_all([each.spans for each in found], ends), min(each.batch + 1 for each in found)


def _places(rows: DataFrame, path: str) -> DataFrame:
    missing = [name for name in PLACE if name not in rows.columns]
    if missing:
        raise ConfigError(
            [f"table {path} has no column {missing[0]!r}: a table that is verified keeps {', '.join(PLACE)}"]
        )
    return rows.select(*PLACE)


def _blocks(rows: DataFrame) -> list[Block]:
    """The table's side, computed by the executors: a row for each block that has any."""
    from pyspark.sql import functions as f

    offset = f.col("queueOffset")
    block = f.floor(offset / BLOCK).cast("long").alias("block")
    bitmap = f.bitmap_construct_agg(f.pmod(offset, f.lit(BLOCK)))
    grouped = rows.groupBy(*PLACE[:3], block).agg(f.count("*").alias("rows"), bitmap.alias("bitmap"))
    distinct = f.bitmap_count("bitmap")
    found = grouped.select(
        *PLACE[:3],
        "block",
        "rows",
        distinct.alias("distinct"),
        f.when(distinct < BLOCK, f.col("bitmap")).alias("bitmap"),
    ).collect()
    return [
        Block(
            MessageQueue(row.topic, row.brokerName, row.queueId),
            row.block,
            row.rows,
            row.distinct,
            None if row.bitmap is None else bytes(row.bitmap),
        )
        for row in found
    ]


def _with_doubles(found: tuple[QueueFindings, ...], rows: DataFrame) -> tuple[QueueFindings, ...]:
    from pyspark.sql import functions as f

    counted = rows.groupBy(*PLACE).agg(f.count("*").alias("times")).where("times > 1")
    offsets: dict[MessageQueue, list[int]] = {}
    for row in counted.limit(_DOUBLES_MAX).collect():
        offsets.setdefault(MessageQueue(row.topic, row.brokerName, row.queueId), []).append(row.queueOffset)
    return tuple(
        replace(queue, doubles=tuple(spans_of(offsets.get(queue.queue, [])))) if queue.doubled_rows else queue
        for queue in found
    )
