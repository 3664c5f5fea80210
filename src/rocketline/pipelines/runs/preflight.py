"""What must be right before a run may start: sources that answer, tables that fit, checkpoints that belong to them.

A table and the checkpoint of the query that writes it go together. With a new checkpoint batches are numbered from 0
again, so a table that was written under another one would get rows twice, or miss them: Spark's own file sink leaves
out, without a word, batches whose numbers it has seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rocketline.errors import ConfigError, PipelineError
from rocketline.pipelines.declared.queries import Query
from rocketline.pipelines.definition import Pipeline, TableFormat, TableTarget
from rocketline.pipelines.runs.checkpoint import StreamCheckpoint
from rocketline.pipelines.tables import parquet
from rocketline.pipelines.tables.table import Table, Writer, open_table

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketline.model.queue import MessageQueue
    from rocketline.pipelines.runs.plans import Plans
    from rocketline.spark.options.source_and_sink import SourceOptions


def checkpoint_of(pipeline: Pipeline, query: str) -> StreamCheckpoint:
    """Where a query's checkpoint is."""
    return StreamCheckpoint(pipeline.state / "checkpoints" / query)


def check_sources(pipeline: Pipeline, queries: Sequence[Query]) -> None:
    """Raise `TopicNotFoundError`, `DataLossError`, `TransportError`, … unless every source can be read by each of its
    queries, from where that is: before anything is started."""
    from rocketline.spark.cluster.cluster import RocketMQCluster
    from rocketline.spark.options.source_and_sink import source_options
    from rocketline.spark.planning.data_loss import report_gone

    for query in queries:
        known = checkpoint_of(pipeline, query.name).planned_positions()
        sources = [pipeline.sources[name] for name in query.inputs if name in pipeline.sources]
        wanted = [source_options(source.options, is_stream=True) for source in sources]
        for options in wanted:
            own = _own(known, [other for other in wanted if other is not options])
            with RocketMQCluster(options) as cluster:
                # Who allows losses goes on without a topic that was there, whichever source has read it.
                look = cluster.look(own if options.fail_on_data_loss else known)
                report_gone(look.gone & own.keys(), own, fails=options.fail_on_data_loss)
                cluster.check_reading(look.bounds)


def _own(known: Mapping[MessageQueue, int], others: Sequence[SourceOptions]) -> dict[MessageQueue, int]:
    """The queues that no other source of the query means.

    Topics of two clusters may have one name, and in which order Spark has numbered the sources is up to the step's
    function. Of the queues that are left out the stream itself finds out, when it starts, which are gone.
    """
    from rocketline.spark.cluster.queries import is_meant

    return {queue: at for queue, at in known.items() if not any(is_meant(other, queue) for other in others)}


def check_topics(pipeline: Pipeline, queries: Sequence[Query]) -> None:
    """Raise likewise unless every topic that is fed can be written to."""
    for query in queries:
        if query.topic is not None:
            check_topic(pipeline.topic_options(query.topic))


def check_topic(options: Mapping[str, str]) -> None:
    """Raise unless the topic of a sink's options is there: one that is mistyped is not made by writing to it."""
    from rocketline.spark.options.source_and_sink import sink_options
    from rocketline.spark.sink.client import SinkClient

    with closing(SinkClient(sink_options(options))) as client:
        client.queues(options["topic"])


def prepare_tables(plans: Plans) -> None:
    """Make the tables that are not there. Raises like `check_tables`, and then nothing is made."""
    for table, schema in check_tables(plans):
        if isinstance(table, TableTarget):
            parquet.prepare(plans.spark, table)
        else:
            table.create(schema)
    for query in plans.queries:
        checkpoint_of(plans.pipeline, query.name).keep_tables(branch.table for branch in query.branches)


def check_tables(plans: Plans) -> list[tuple[Table | TableTarget, pa.Schema]]:
    """The tables that are not there yet, with their columns. Raises unless those that are there fit."""
    missing: list[tuple[Table | TableTarget, pa.Schema]] = []
    for query in plans.queries:
        for branch in query.branches:
            missing += _checked(plans, query, branch.table)
    return missing


def _checked(plans: Plans, query: Query, name: str) -> list[tuple[Table | TableTarget, pa.Schema]]:
    """The table if it is not there yet. Raises unless it fits the step and the query's checkpoint.

    A table of Parquet files is no `Table`: Spark's own sink commits to it, and knows the numbers of batches but not
    whose they are. So what is asked is the same for all, and is asked of Spark's log there, of the commits elsewhere.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    target, schema = plans.pipeline.table(name), to_arrow_schema(plans.schemas[name], timezone="UTC")
    checkpoint = checkpoint_of(plans.pipeline, query.name)
    if target.format is TableFormat.PARQUET:
        last_batch = parquet.last_batch(plans.spark, target)
        if last_batch is None:
            _refuse_lost_table(target, checkpoint, name)
            return [(target, schema)]
        if checkpoint.query_id() is None:
            raise _lost_checkpoint(target, checkpoint, "")
        _refuse_old_checkpoint(target, checkpoint, last_batch)
        there = plans.spark.read.parquet(target.path).schema
        _compare_columns(target, to_arrow_schema(there, timezone="UTC"), schema)
        return []
    table = open_table(target)
    if not table.exists():
        _refuse_lost_table(target, checkpoint, name)
        return [(table, schema)]
    _compare_columns(target, table.schema(), schema)
    last, query_id = table.last_writer(), checkpoint.query_id()
    if last is not None and last != query_id:
        raise _lost_checkpoint(target, checkpoint, last)
    if query_id is not None:
        _refuse_old_checkpoint(target, checkpoint, table.standing(Writer(query_id)).batch)
    return []


def newest_run(plans: Plans) -> int:
    """The highest number of a run that the tables tell of; 0 if none does."""
    pipeline = plans.pipeline
    found = [0]
    for query in plans.queries:
        query_id = checkpoint_of(pipeline, query.name).query_id()
        if query_id is not None and not query.is_file_sink:
            tables = (open_table(pipeline.table(branch.table)) for branch in query.branches)
            found += [table.standing(Writer(query_id)).run for table in tables]
    return max(found)


def _lost_checkpoint(target: TableTarget, checkpoint: StreamCheckpoint, writer: str) -> PipelineError:
    who = f" (query {writer})" if writer else ""
    return PipelineError(
        f"table {target.path} was written under another checkpoint{who} than {_shown(checkpoint.folder)}: put that one "
        "back, or remove table and checkpoint and land everything again; else rows would be there twice, or not at all"
    )


def _refuse_lost_table(target: TableTarget, checkpoint: StreamCheckpoint, name: str) -> None:
    """Raise if the table was there and its batches are done: they would not come again."""
    if name in checkpoint.tables() and (done := checkpoint.last_done()) >= 0:
        raise PipelineError(
            f"table {target.path} is gone, and checkpoint {_shown(checkpoint.folder)} says that batches until {done} "
            "are in it: put it back, or remove the checkpoint and all its tables and land everything again"
        )


def _refuse_old_checkpoint(target: TableTarget, checkpoint: StreamCheckpoint, last: int | None) -> None:
    """Raise if the table has a batch that the checkpoint has not heard of: another would get its number."""
    known = max(checkpoint.planned_batches(), default=-1)
    if last is not None and last > known:
        raise PipelineError(
            f"table {target.path} has batch {last}, and checkpoint {_shown(checkpoint.folder)} knows those until "
            f"{known} only: it is an old copy. Put the newest back, or remove table and checkpoint and land everything "
            "again; else rows would be missing"
        )


def _compare_columns(target: TableTarget, there: pa.Schema, wanted: pa.Schema) -> None:
    """Raise `ConfigError` unless the table has the columns that the step makes."""
    have = {field.name: _kind(field.type) for field in there}
    want = {field.name: _kind(field.type) for field in wanted}
    differing = [
        f"{name} is {have.get(name, 'not there')} in the table and {want.get(name, 'not there')} in the step"
        for name in sorted(have.keys() | want.keys())
        if have.get(name) != want.get(name)
    ]
    if differing:
        raise ConfigError([
            f"table {target.path} has other columns than its step makes: {'; '.join(differing)}. Alter the table, "
            "or remove it and the step's checkpoint"
        ])  # fmt: skip


def _kind(kind: pa.DataType) -> str:
    """A type's name, the same for twins that differ in how Arrow lays them out."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_list(kind) or types.is_large_list(kind) or isinstance(kind, pa.ListViewType):
        return f"array<{_kind(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{_kind(kind.key_type)},{_kind(kind.item_type)}>"
    if types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_kind(field.type)}' for field in kind)}>"
    return str(kind).removeprefix("large_").removesuffix("_view")


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
