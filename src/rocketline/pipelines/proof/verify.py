"""`verify`: a landed table is compared with what its query has read, offset by offset. What is decided: `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketline.errors import ConfigError, PipelineError
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.config_section import nearest
from rocketline.pipelines.declared.queries import queries_of
from rocketline.pipelines.definition import Pipeline, Step
from rocketline.pipelines.offset_spans import spans_of
from rocketline.pipelines.proof.broker_gaps import BrokerAnswers
from rocketline.pipelines.proof.compare import (
    BLOCK,
    Block,
    OffsetFindings,
    QueueFindings,
    SpanTable,
    compare,
    done_by_all,
    expired_for_all,
    united,
)
from rocketline.pipelines.runs.checkpoint import StreamCheckpoint
from rocketline.pipelines.runs.preflight import checkpoint_of
from rocketline.pipelines.tables.reading import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE: Final = ("topic", "brokerName", "queueId", "queueOffset")
"""The columns that say where a message was stored."""
_DOUBLES_MAX: Final = 100_000
"""How many doubled offsets are looked up; the number of doubled rows is exact all the same."""


def verify(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    steps: Sequence[str] = (),
    asks_broker: bool = False,
    allows_expired: bool = False,
) -> list[OffsetFindings]:
    """A verdict on each step that reads a source and keeps all rows, or on those that are named.

    Rows in quarantine count as landed. What a step did not take part in, because it was added later, is not asked for.
    Messages that expired before they were read are a flaw, unless they are allowed.
    Raises `ConfigError` for a step that cannot be compared, `PipelineError` if there is nothing to compare with.
    """
    found = [_verified(pipeline, spark, step, asks_broker=asks_broker) for step in _chosen(pipeline, steps)]
    return [replace(each, allows_expired=allows_expired) for each in found]


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


def _verified(pipeline: Pipeline, spark: SparkSession, step: Step, *, asks_broker: bool) -> OffsetFindings:
    # The pipeline may be running. What is done before the table is looked at must be in it; what is there was planned
    # by the time that we have looked.
    done = _done(pipeline, step)
    rows = _places(read_table(spark, step.table), step.table.path)
    if step.quarantine is not None:
        rows = rows.unionByName(_places(read_table(spark, step.quarantine.table), step.quarantine.table.path))
    blocks = _blocks(rows)
    parts = _parts(pipeline, step)
    planned = united(part.checkpoint.coverage_with_planned().spans for part in parts)
    again = united(part.checkpoint.coverage_with_planned(part.since).again for part in parts)
    found = compare(done.spans, planned, blocks, again, done.expired)
    if any(queue.doubled_rows for queue in found):
        found = _with_doubles(found, rows)
    if asks_broker and any(queue.gaps for queue in found):
        with BrokerAnswers(pipeline.sources[step.inputs[0]]) as broker:
            found = tuple(broker.explained(queue) for queue in found)
    return OffsetFindings(step.name, done.batches, found, done.since)


class _Part(NamedTuple):
    """A query that writes a step's tables, and the first batch that it writes to all of these."""

    checkpoint: StreamCheckpoint
    since: int


class _Done(NamedTuple):
    """What batches that are done have read for a step, what they could not, how many they are and which was first."""

    spans: SpanTable
    expired: SpanTable
    batches: int
    since: int


def _parts(pipeline: Pipeline, step: Step) -> list[_Part]:
    wanted = {step.name, *([step.quarantine_name] if step.quarantine is not None else [])}
    found = []
    for query in queries_of(pipeline):
        if written := wanted & {branch.table for branch in query.branches}:
            checkpoint = checkpoint_of(pipeline, query.name)
            known = checkpoint.tables()
            # What was rejected before there was a quarantine was dropped, on purpose: none of it can be missing.
            found.append(_Part(checkpoint, max(known.get(name, 0) for name in written)))
    return found


def _done(pipeline: Pipeline, step: Step) -> _Done:
    parts = _parts(pipeline, step)
    for checkpoint, _ in parts:
        if checkpoint.query_id() is None:
            raise PipelineError(f"there is no checkpoint {checkpoint.folder}: has the pipeline run?")
    ends = [checkpoint.positions() for checkpoint, _ in parts]
    found = [checkpoint.coverage(since) for checkpoint, since in parts]
    read = [each.spans for each in found]
    # Where rows and rejected rows have queries of their own, what one of them has read is to be there, although the
    # other began later: who reads less than the other loses rows.
    return _Done(
        done_by_all(read, ends),
        expired_for_all(read, [each.expired for each in found]),
        min(each.batch + 1 - part.since for part, each in zip(parts, found, strict=True)),
        min(part.since for part in parts),
    )


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
