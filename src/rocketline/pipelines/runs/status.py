"""`status`: how far each query is, by its checkpoint, and how far behind its topics, by the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rocketline.model.queue import MessageQueue
from rocketline.pipelines.declared.queries import Query, queries_of
from rocketline.pipelines.definition import Pipeline
from rocketline.pipelines.runs.preflight import checkpoint_of
from rocketline.pipelines.runs.progress_log import PROGRESS, read_log


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """How far one query is."""

    query: str
    reads: str
    writes: str
    batches_done: int
    is_batch_open: bool
    """A batch was begun and is not done: it runs, or will be run again."""
    last_rows: int | None
    last_ms: int | None
    """When the last batch with rows began."""
    watermark_ms: int | None


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far one queue is read."""

    query: str
    queue: MessageQueue
    offset: int
    end: int | None
    """What the broker's next message will have; None if it was not asked."""

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.offset)


def query_statuses(pipeline: Pipeline) -> list[QueryStatus]:
    """All queries of a pipeline."""
    last: dict[str, dict[str, int]] = {}
    for record in read_log(pipeline.state):
        if record["kind"] == PROGRESS and record["rows"]:
            last[record["query"]] = record
    return [_status(pipeline, query, last.get(query.name, {})) for query in queries_of(pipeline)]


def _status(pipeline: Pipeline, query: Query, last: dict[str, int]) -> QueryStatus:
    checkpoint = checkpoint_of(pipeline, query.name)
    done, planned = checkpoint.last_done(), max(checkpoint.planned_batches(), default=-1)
    written = [query.topic.topic] if query.topic is not None else [branch.table for branch in query.branches]
    return QueryStatus(
        query=query.name,
        reads=", ".join(query.inputs),
        writes=", ".join(written),
        batches_done=done + 1,
        is_batch_open=planned > done,
        last_rows=last.get("rows"),
        last_ms=last.get("time_ms"),
        watermark_ms=checkpoint.watermark_ms(),
    )


def queue_statuses(pipeline: Pipeline, *, asks_brokers: bool = True) -> list[QueueProgress]:
    """Every queue that a query reads. Raises what a client raises if brokers are asked and cannot be."""
    found = []
    for query in queries_of(pipeline):
        sources = [name for name in query.inputs if name in pipeline.sources]
        positions = checkpoint_of(pipeline, query.name).positions() if sources else {}
        ends: dict[MessageQueue, int] = {}
        for source in sources if asks_brokers else []:
            ends |= _ends(pipeline, source, positions)
        found += [QueueProgress(query.name, queue, at, ends.get(queue)) for queue, at in sorted(positions.items())]
    return found


def _ends(pipeline: Pipeline, source: str, known: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Of the queues that are there. That others are gone is for the next run to tell: to look at them loses nothing."""
    from rocketline.spark.cluster.cluster import RocketMQCluster
    from rocketline.spark.options.source_and_sink import source_options

    options = source_options(pipeline.sources[source].options, is_stream=True)
    with RocketMQCluster(replace(options, fail_on_data_loss=False)) as cluster:
        return {queue: bounds.high for queue, bounds in cluster.look(known).bounds.items()}
