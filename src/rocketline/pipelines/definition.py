"""What a pipeline is made of: plain values, read from a file by `definition_file`.

Sources are topics. A step reads a source or the table of another step, does in this order what it declares (parse,
expect, watermark, deduplicate, transform, aggregate), and writes one table; topics may be fed from that table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

QUARANTINE_SUFFIX = ".quarantine"
TRIGGER = "1 second"
ROW_AS_JSON = "to_json(struct(*))"
_CLIENT_OPTIONS = ("nameserver", "rocketmq.")


class TableFormat(Enum):
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


class BodyFormat(Enum):
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    RAW = "raw"


class Otherwise(Enum):
    """What becomes of a row that is not as expected."""

    QUARANTINE = "quarantine"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """Where rows are kept. `path` is a folder; Iceberg's also has a name in a catalog."""

    format: TableFormat
    path: str
    name: str = ""
    """Of an Iceberg table, `namespace.table`; else the pipeline's name and the step's."""
    catalog: Mapping[str, str] = field(default_factory=dict)
    """What Iceberg's catalog is opened with; else a SQLite file in the tables' parent folder."""
    storage: Mapping[str, str] = field(default_factory=dict)
    """Delta's storage options: how to reach a store that is no local disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTarget:
    """Messages made of a table's rows. All but `topic` and `options` are SQL expressions over its columns."""

    topic: str
    body: str = ""
    """Empty: the row as JSON, or of a row in quarantine the body that it came with."""
    keys: str = ""
    tags: str = ""
    sharding_key: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Expressions by the names of properties."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the sink; name servers and keys of the first source are used where none are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing:
    """How bodies become columns."""

    format: BodyFormat
    schema: str = ""
    """Columns as in `id string, price double`; of Avro, the schema in JSON."""
    schema_file: str = ""
    """Where the schema was read, relative to the pipeline's file; empty: it stands there."""
    column: str = "body"
    into: str = ""
    """The one column that holds all fields; empty: each field is a column of its own."""
    skipped_bytes: int = 0
    """Of Avro: how many bytes stand before the value, 5 if a schema registry was used."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Spark's own, of its JSON and CSV readers."""
    otherwise: Otherwise = Otherwise.QUARANTINE
    """What becomes of a row whose body cannot be read."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold for a row: an SQL predicate. One that is null does not hold."""

    name: str
    that: str
    otherwise: Otherwise = Otherwise.QUARANTINE


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Where rows go that were not as expected, as the step read them, with the names of what failed."""

    table: TableTarget
    topic: TopicTarget | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late a row may come, by the time in one of its columns."""

    time: str
    late: str


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A row for each window of time and each value of the `by` columns, written once the watermark has passed it."""

    time: str
    every: str
    by: tuple[str, ...]
    values: Mapping[str, str]
    """SQL aggregates by the names of their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One table and how it comes about."""

    name: str
    inputs: tuple[str, ...]
    table: TableTarget
    parse: Parsing | None = None
    expectations: tuple[Expectation, ...] = ()
    quarantine: Quarantine | None = None
    watermark: Watermark | None = None
    deduplicate: tuple[str, ...] = ()
    transform: str = ""
    """`module:function`, from DataFrames to one; one argument for each input."""
    aggregate: Aggregation | None = None
    topics: tuple[TopicTarget, ...] = ()
    is_stateful: bool = False
    """Rows of one batch depend on those of others: it needs a query of its own."""
    has_own_query: bool = False

    @property
    def quarantine_name(self) -> str:
        """What its side table is called."""
        return self.name + QUARANTINE_SUFFIX

    @property
    def is_quarantining(self) -> bool:
        """Rows may have to go to a side table."""
        asked = {each.otherwise for each in self.expectations}
        if self.parse is not None:
            asked.add(self.parse.otherwise)
        return Otherwise.QUARANTINE in asked

    @property
    def leaves_out(self) -> str:
        """The key by which it leaves out rows on purpose; empty if it has none."""
        if self.deduplicate or self.aggregate is not None:
            return "aggregate" if self.aggregate is not None else "deduplicate"
        if self.parse is not None and self.parse.otherwise is Otherwise.DROP:
            return "parse"
        return "expect" if any(each.otherwise is Otherwise.DROP for each in self.expectations) else ""


@dataclass(frozen=True, slots=True)
class Source:
    """A read of `format("rocketmq")`: its options as Spark takes them."""

    name: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The whole, with every path made absolute."""

    name: str
    file: Path
    state: Path
    """The folder of checkpoints, of the progress log and of the lock: it belongs to the tables."""
    sources: Mapping[str, Source]
    steps: Mapping[str, Step]
    trigger: str = TRIGGER
    """How often a continuous run looks for more."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Spark session."""

    def tables(self) -> Iterator[tuple[str, TableTarget]]:
        """Every table by its name, side tables among them."""
        for step in self.steps.values():
            yield step.name, step.table
            if step.quarantine is not None:
                yield step.quarantine_name, step.quarantine.table

    def table(self, name: str) -> TableTarget:
        return dict(self.tables())[name]

    def step_of(self, table: str) -> Step:
        """The step that makes a table, or whose side table it is."""
        return self.steps[table.removesuffix(QUARANTINE_SUFFIX)]

    def landing_steps(self) -> list[Step]:
        """The steps that read one source and keep all rows: their tables can be compared with what was read."""
        return [
            step
            for step in self.steps.values()
            if step.inputs[0] in self.sources and len(step.inputs) == 1 and not step.leaves_out
        ]

    def client_options(self) -> dict[str, str]:
        """How the first source reaches its cluster: what topics are written with, too."""
        source = next(iter(self.sources.values()))
        return {key: value for key, value in source.options.items() if key.lower().startswith(_CLIENT_OPTIONS)}

    def topic_options(self, target: TopicTarget) -> dict[str, str]:
        """The options of the sink that feeds a topic."""
        return {**self.client_options(), **target.options, "topic": target.topic}
