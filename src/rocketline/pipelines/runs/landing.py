"""A batch reaches its tables: each once, whatever dies in between.

Spark gives a batch that it runs again the same number and the same rows. So, for each table: if the table's own log
says that this writer has committed this batch, there is nothing to do; otherwise Spark writes the batch's files, and
one commit of the table adds them together with the batch's number. A crash before the commit leaves files that no
table knows; one after it finds the batch there the next time. Tables of one query may be at different batches after a
crash: each is asked by itself.

A second driver may do the same batch meanwhile, so the table is asked once more by the commit itself. It has the number
of the run, too: after a newer run's first commit, an older one is refused. One that comes before it is no harm, as the
rows are the same, and the newer run finds the batch there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocketline.clock import Clock, SystemClock
from rocketline.errors import PipelineError
from rocketline.pipelines.declared.queries import Query, is_stateful
from rocketline.pipelines.definition import Pipeline
from rocketline.pipelines.runs.run_numbers import Run
from rocketline.pipelines.steps.transformation import table_rows
from rocketline.pipelines.tables.commits import refuse_superseded
from rocketline.pipelines.tables.staging import StagedBatch
from rocketline.pipelines.tables.table import Table, Writer, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from rocketline.pipelines.steps.user_functions import Transform

QUERY_ID_PROPERTY = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Landed:
    """What one batch brought to one table."""

    query: str
    query_id: str
    """Spark's own, of its checkpoint: with a new one batches are counted from 0 again."""
    table: str
    batch: int
    rows: int
    files: int
    time_ms: int
    seconds: float


@dataclass(slots=True)
class Landing:
    """The function of a query's `foreachBatch`."""

    pipeline: Pipeline
    query: Query
    functions: Mapping[str, Transform]
    run: Run
    tell: Callable[[Landed], None]
    """Called with what was landed, for the progress log."""
    clock: Clock = field(default_factory=SystemClock)
    tables: dict[str, Table] = field(default_factory=dict)
    first: int | None = None
    """The first batch of this run: the only one that an earlier run may have begun."""

    def __post_init__(self) -> None:
        self.tables = {branch.table: open_table(self.pipeline.table(branch.table)) for branch in self.query.branches}

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Bring the batch to every table that does not have it yet."""
        writer = Writer(_query_id(batch), self.run.number, self.run.token)
        if self.first is None:
            self.first = number
        missing = [name for name, table in self.tables.items() if _is_missing(table, writer, number)]
        if not missing:
            if is_stateful(self.pipeline, self.query):
                # The driver died before Spark wrote down that the batch is done. Spark learns where the watermark is
                # from running the plan, and fails the batch if its state was not written again.
                batch.write.format("noop").mode("overwrite").save()
            return
        with _kept(batch, is_used_twice=len(self.tables) > 1) as rows:
            made = self._rows(rows)
            for name in missing:
                self._land(name, made[name], writer, number)

    def _rows(self, batch: DataFrame) -> dict[str, DataFrame]:
        """The rows of every table, as plans. The first branch of a stateful query is the batch itself."""
        made: dict[str, DataFrame] = {}
        for branch in self.query.branches:
            is_done = self.pipeline.step_of(branch.table).is_stateful and branch.table == self.query.name
            parent = made.get(branch.parent, batch)
            made[branch.table] = batch if is_done else table_rows(self.pipeline, branch.table, [parent], self.functions)
        return made

    def _land(self, name: str, rows: DataFrame, writer: Writer, number: int) -> None:
        table = self.tables[name]
        began_s = self.clock.monotonic()
        attempt = StagedBatch(rows.sparkSession, table.target.path, writer, number)
        files = attempt.write(rows)
        if (refusal := self.run.refusal()) is not None:
            attempt.remove()
            raise refusal
        if not files:
            attempt.remove()
        elif not table.add(writer, number, files):
            attempt.remove()
            return  # an earlier run was faster, and has told of it
        elif number == self.first:
            attempt.remove_others()
        took_s = self.clock.monotonic() - began_s
        count = sum(file.rows for file in files)
        now_ms = self.clock.wall_ms()
        self.tell(Landed(self.query.name, writer.query_id, name, number, count, len(files), now_ms, took_s))


def _is_missing(table: Table, writer: Writer, number: int) -> bool:
    standing = table.standing(writer)
    refuse_superseded(table.target, writer, standing)
    return not standing.has(number)


def _query_id(batch: DataFrame) -> str:
    context: Any = batch.sparkSession.sparkContext
    found: str | None = context.getLocalProperty(QUERY_ID_PROPERTY)
    if found is None:
        raise PipelineError("this batch belongs to no streaming query: Spark has not said which")
    return found


@contextmanager
def _kept(batch: DataFrame, *, is_used_twice: bool) -> Iterator[DataFrame]:
    """The batch in the executors' memory, or on their disks, if several tables are made of it: topics are read once."""
    if not is_used_twice:
        yield batch
        return
    kept = batch.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
