"""A run of a pipeline: its queries, started and waited for.

A scheduled run reads what is there now and ends (Spark's AvailableNow): queries run in turns, each after those that
write what it reads. A continuous run has all queries at once, each with its trigger, until it is stopped or one fails.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rocketline.errors import ConfigError, PipelineError, SupersededError
from rocketline.pipelines.declared.queries import Query, levels, queries_of
from rocketline.pipelines.definition import Pipeline
from rocketline.pipelines.runs.landing import Landing
from rocketline.pipelines.runs.plans import SETTINGS, Plans, check_trigger
from rocketline.pipelines.runs.preflight import check_sources, check_topics, checkpoint_of, newest_run, prepare_tables
from rocketline.pipelines.runs.progress_log import Listener, ProgressLog, Record
from rocketline.pipelines.runs.run_numbers import Run, begin_run
from rocketline.pipelines.spark_errors import query_failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_POLL_S: Final = 0.2


def run(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    trigger: str | None = None,
    tell: Callable[[Record], None] = lambda record: None,
) -> None:
    """Run until everything that is there now is done; with a `trigger`, as `1 second`, until somebody interrupts.

    `tell` hears of each batch as it is written down. Raises `ConfigError`, `PipelineError`, or what a client raises;
    `SupersededError` if another run begins meanwhile, which the lock does not show.
    """
    with _locked(pipeline):
        for key, value in SETTINGS.items():
            spark.conf.set(key, value)
        queries = queries_of(pipeline)
        check_sources(pipeline, queries)
        check_topics(pipeline, queries)
        if trigger is not None:
            check_trigger(spark, trigger)
        plans = Plans(pipeline, queries, spark)
        prepare_tables(plans)
        log = ProgressLog(pipeline.state, tell)
        starter = _Starter(plans, log, trigger, begin_run(pipeline.state, newest_run(plans)))
        with _listening(plans, log, starter):
            for turn in levels(queries) if trigger is None else [queries]:
                _run_all(starter, turn)


class _Starter:
    """Starts queries of one run, and remembers them."""

    def __init__(self, plans: Plans, log: ProgressLog, trigger: str | None, run: Run) -> None:
        self._plans, self._log, self._trigger, self.run = plans, log, trigger, run
        self.started: set[str] = set()
        """Spark's ids of all runs of queries."""
        self.refusal: SupersededError | None = None
        """Why a batch was not landed. Spark hands on its text only."""

    def start(self, query: Query) -> StreamingQuery:
        pipeline = self._plans.pipeline
        writer = self._plans.rows(query).writeStream.queryName(query.name)
        writer = writer.option("checkpointLocation", str(checkpoint_of(pipeline, query.name).folder))
        if self._trigger is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=self._trigger)
        started = self._to(query, writer).start()
        self.started.add(started.runId)
        return started

    def _to(self, query: Query, writer: DataStreamWriter) -> DataStreamWriter:
        pipeline = self._plans.pipeline
        if query.topic is not None:
            return writer.format("rocketmq").options(**pipeline.topic_options(query.topic))
        if query.is_file_sink:
            return writer.format("parquet").option("path", pipeline.table(query.name).path)
        landing = Landing(pipeline, query, self._plans.functions, self.run, self._log.landed)

        def land(batch: DataFrame, number: int) -> None:
            try:
                landing(batch, number)
            except SupersededError as error:
                self.refusal = error
                raise

        return writer.foreachBatch(land)

    def has_ended(self, query: StreamingQuery) -> bool:
        """Raises why, if it has failed. Whatever fails while a newer run is at work fails for that reason."""
        if query.isActive:
            return False
        if (error := query.exception()) is not None:
            if self.refusal is not None:
                raise self.refusal from error
            self.run.check()
            raise query_failure(query.name, str(error)) from error
        return True


def _run_all(starter: _Starter, queries: list[Query]) -> None:
    """Return when all have ended. When one fails, or we are interrupted, all are stopped."""
    started: list[StreamingQuery] = []
    try:
        for query in queries:
            started.append(starter.start(query))  # noqa: PERF401  # those before a failed start must be stopped
        running = started
        while running:
            time.sleep(_POLL_S)
            running = [each for each in running if not starter.has_ended(each)]
            if running:
                starter.run.check()
    finally:
        for each in started:
            each.stop()


@contextmanager
def _listening(plans: Plans, log: ProgressLog, starter: _Starter) -> Iterator[None]:
    """Keep the progress log, and what each query has read from topics, until the run is over."""
    pipeline = plans.pipeline
    reading = {query.name: checkpoint_of(pipeline, query.name) for query in plans.queries if _lands(pipeline, query)}

    def keep(name: str) -> None:
        if name in reading and starter.run.refusal() is None:
            reading[name].keep_coverage(starter.run.number)

    for name in reading:
        keep(name)
    listener = Listener(log, keep)
    plans.spark.streams.addListener(listener)
    try:
        yield
    finally:
        listener.wait_for_ends(starter.started)
        plans.spark.streams.removeListener(listener)
        for name in reading:
            keep(name)


def _lands(pipeline: Pipeline, query: Query) -> bool:
    """The query reads one source and nothing else: what it has read is what its tables are compared with."""
    return len(query.inputs) == 1 and query.inputs[0] in pipeline.sources


@contextmanager
def _locked(pipeline: Pipeline) -> Iterator[None]:
    """One run of a pipeline at a time, on this machine. Elsewhere a newer run ends an older one, see `runs`."""
    pipeline.state.mkdir(parents=True, exist_ok=True)
    with (pipeline.state / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"pipeline {pipeline.name} runs already: {pipeline.state / 'lock'} is held") from None
        except OSError as error:
            raise ConfigError([f"{pipeline.state / 'lock'}: {error.strerror or error}"]) from None
        yield
