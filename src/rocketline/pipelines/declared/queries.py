"""Which queries of Spark a pipeline becomes: pure, so that `dry-run` and tests can tell before anything starts.

Tables are written batch by batch, each batch once. Where that is possible, one query writes several tables from the
same batch: a source is read once, however many stateless steps there are. A query of its own has

- what is stateful (a watermark, several inputs): it reads the table of the step before;
- a Parquet table: Spark's own file sink writes it, which serves one table;
- each topic: it is fed from a table, so that a batch that is sent again has the same rows in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rocketline.errors import ConfigError
from rocketline.pipelines.config_section import nearest
from rocketline.pipelines.definition import QUARANTINE_SUFFIX, Pipeline, Source, Step, TableFormat, TopicTarget


@dataclass(frozen=True, slots=True)
class Branch:
    """One table that a query writes: the table's name, and what its rows are made of."""

    table: str
    parent: str
    """A branch of the same query, or the query's input."""


@dataclass(slots=True)
class Query:
    """One streaming query. Either `branches` or `topic` says what becomes of its rows."""

    name: str
    """Also the name of its checkpoint, so it must not change when others are added."""
    inputs: tuple[str, ...]
    """Sources, or tables of other queries."""
    branches: list[Branch] = field(default_factory=list)
    topic: TopicTarget | None = None
    is_file_sink: bool = False
    """Spark writes its one table, in Parquet, by itself."""


def queries_of(pipeline: Pipeline) -> list[Query]:
    """All queries, those first whose tables others read."""
    made: dict[str, Query] = {}
    writer: dict[str, Query] = {}
    for step in in_order(pipeline.steps):
        for table in _tables_of(step):
            query = _query_for(pipeline, step, table, made, writer)
            parent = step.inputs[0]
            query.branches.append(Branch(table, parent))
            writer[table] = query
        for table, topic in _publications_of(step):
            name = f"{table}-to-{topic.topic}"
            made[name] = Query(name, (table,), topic=topic)
    return list(made.values())


def is_stateful(pipeline: Pipeline, query: Query) -> bool:
    """What it streams depends on earlier batches."""
    step = pipeline.steps.get(query.name)
    return step is not None and step.is_stateful


def levels(queries: list[Query]) -> list[list[Query]]:
    """The queries in turns: those of a turn read only what earlier turns have written."""
    writer = {branch.table: query.name for query in queries for branch in query.branches}
    depth: dict[str, int] = {}
    for query in queries:
        before = [depth[writer[name]] for name in query.inputs if name in writer]
        depth[query.name] = max(before, default=-1) + 1
    turns: list[list[Query]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for query in queries:
        turns[depth[query.name]].append(query)
    return turns


def in_order(steps: Mapping[str, Step]) -> list[Step]:
    """The steps, each behind those that it reads. What reads itself, however indirectly, is left out."""
    ordered: dict[str, Step] = {}
    left = dict(steps)
    while left:
        ready = [step for step in left.values() if not any(_step_name(name) in left for name in step.inputs)]
        if not ready:
            break
        for step in ready:
            ordered[step.name] = left.pop(step.name)
    return list(ordered.values())


def check_inputs(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """What is wrong between steps: the place, and the problem."""
    known = [*pipeline.sources, *(name for name, _ in pipeline.tables())]
    for step in pipeline.steps.values():
        place = f"steps.{step.name}"
        if step.name in pipeline.sources:
            yield place, "a source has this name, too: choose another"
        for name in step.inputs:
            if name not in known:
                meant = nearest(name, known)
                yield f"{place}.from", f"there is no {name!r}{f': did you mean {meant}?' if meant else ''}"
    for name in pipeline.steps.keys() - {step.name for step in in_order(pipeline.steps)}:
        yield f"steps.{name}.from", "goes round in a circle: a step cannot read what is made of its own rows"
    yield from _check_places(pipeline)
    yield from _check_beginnings(pipeline)
    fed = Counter((table, topic.topic) for step in pipeline.steps.values() for table, topic in _publications_of(step))
    for (table, topic), count in fed.items():
        if count > 1:
            yield f"steps.{table}", f"topic {topic!r} is there {count} times: feed it from a step of its own"


def _check_places(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Tables that would get into each other's way."""
    paths: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, table in pipeline.tables():
        if not table.path:
            continue
        if (other := paths.setdefault(table.path, name)) != name:
            yield f"steps.{name}", f"{table.path} is the path of {other} already: each table has its own folder"
        known = f"{sorted(table.catalog.items())} {table.name}"
        if table.name and (other := names.setdefault(known, name)) != name:
            yield (
                f"steps.{name}",
                f"Iceberg's catalog has one table {table.name}, and that is {other}'s: name it otherwise",
            )
    for path, name in paths.items():
        places = {**paths, str(pipeline.state): "state"}
        for inner in [each for each in places if each.startswith(f"{path.rstrip('/')}/")]:
            yield (
                f"steps.{name}",
                f"{path} has {places[inner]} in it: who cleans up a table's folder would remove what is not its own",
            )


def _check_beginnings(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Steps whose two queries may begin at different places: what lies between would be in neither table."""
    for step in pipeline.steps.values():
        source = pipeline.sources.get(step.inputs[0]) if step.inputs else None
        if source is None or not _is_split(pipeline, step) or not begins_anywhere(source):
            continue
        yield (
            f"steps.{step.name}.quarantine",
            f"two queries read {source.name}, one for the table and one for this, and a row that comes between their "
            'starts would be in neither: write startingOffsets = "earliest" there, an offset for each queue, or '
            "startingTimestamp",
        )


def _is_split(pipeline: Pipeline, step: Step) -> bool:
    """The step has a table and a side table, and a source that it reads is read for each by itself."""
    return step.quarantine is not None and any(_has_own_query(pipeline, step, table) for table in _tables_of(step))


def begins_anywhere(source: Source) -> bool:
    """Where it begins depends on when it is asked: at the end of a queue, or where a group is."""
    from rocketline.spark.options.source_and_sink import EARLIEST, LATEST_OFFSET, source_options

    try:
        starting = source_options(source.options, is_stream=True).starting
    except ConfigError:
        return False  # the source itself is wrong, which is told elsewhere
    if starting.time_ms is not None or starting.times_ms is not None:
        return False
    if starting.offsets is not None:
        return LATEST_OFFSET in starting.offsets.values()
    return starting.word != EARLIEST


def _step_name(table: str) -> str:
    return table.removesuffix(QUARANTINE_SUFFIX)


def _tables_of(step: Step) -> list[str]:
    return [step.name, *([step.quarantine_name] if step.quarantine is not None else [])]


def _query_for(pipeline: Pipeline, step: Step, table: str, made: dict[str, Query], writer: dict[str, Query]) -> Query:
    """The query that writes a table: one that is there already, if it can."""
    if _has_own_query(pipeline, step, table):
        inputs = step.inputs if table == step.name else step.inputs[:1]
        made[table] = Query(table, inputs, is_file_sink=_is_parquet(pipeline, table))
        return made[table]
    before = step.inputs[0]
    if before in writer and not writer[before].is_file_sink:
        return writer[before]
    name = f"from-{before}"
    return made.setdefault(name, Query(name, (before,)))


def _has_own_query(pipeline: Pipeline, step: Step, table: str) -> bool:
    is_stateful = step.is_stateful and table == step.name
    return _is_parquet(pipeline, table) or is_stateful or step.has_own_query


def _is_parquet(pipeline: Pipeline, table: str) -> bool:
    return pipeline.table(table).format is TableFormat.PARQUET


def _publications_of(step: Step) -> list[tuple[str, TopicTarget]]:
    """The topics that a step's tables feed, with the tables."""
    found = [(step.name, topic) for topic in step.topics]
    if step.quarantine is not None and step.quarantine.topic is not None:
        found.append((step.quarantine_name, step.quarantine.topic))
    return found
