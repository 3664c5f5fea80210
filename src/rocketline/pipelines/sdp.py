"""The same pipeline as a project of Spark's Declarative Pipelines: `export-sdp` writes it, `Project` serves it.

The project names each table and topic in plain sight and leaves what happens in between to the definition, which is
copied along: a step means the same in both. Tables are streaming tables of Spark's catalog then, and Spark runs them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketline.errors import ConfigError, PipelineError
from rocketline.pipelines.declared.queries import begins_anywhere, in_order, queries_of
from rocketline.pipelines.definition import Pipeline, Step, TopicTarget
from rocketline.pipelines.definition_file import load, settings_from_environment
from rocketline.pipelines.runs.plans import SETTINGS, Plans
from rocketline.pipelines.steps.columns import declared_columns
from rocketline.pipelines.steps.determinism import refuse_nondeterministic
from rocketline.pipelines.steps.transformation import dead_letters, messages, table_rows
from rocketline.pipelines.steps.user_functions import load_functions, module_paths
from rocketline.spark.session import STATE_STORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPECIFICATION: Final = "spark-pipeline.yml"
_SPECIFICATION: Final = """\
# Written by `rocketline pipeline export-sdp`. Run it with
#   spark-pipelines run --conf spark.sql.catalogImplementation=hive{more}
{withheld}# (a catalog that lasts: with the one in memory the second run does not know the tables of the first).
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
{settings}"""
_AT_START: Final = (
    "spark.sql.artifact.copyFromLocalToFs.",
    "spark.sql.avro.schemaUrlAllowedSchemes",
    "spark.sql.broadcastExchange.maxThreadThreshold",
    "spark.sql.cache.serializer",
    "spark.sql.catalog.spark_catalog.defaultDatabase",
    "spark.sql.catalogImplementation",
    "spark.sql.codegen.cache.",
    "spark.sql.codegen.comments",
    "spark.sql.debug",
    "spark.sql.defaultUrlStreamHandlerFactory.",
    "spark.sql.event.truncate.length",
    "spark.sql.extensions",
    "spark.sql.filesourceTableRelationCacheSize",
    "spark.sql.globalTempDatabase",
    "spark.sql.hive.metastore.",
    "spark.sql.hive.thriftServer.",
    "spark.sql.hive.version",
    "spark.sql.kafka.disallowedOptions",
    "spark.sql.legacy.hive.thriftServer.",
    "spark.sql.legacy.sessionInitWithConfigDefaults",
    "spark.sql.metadataCacheTTLSeconds",
    "spark.sql.queryExecutionListeners",
    "spark.sql.reflect.allowList",
    "spark.sql.restrictedMode.",
    "spark.sql.resultQueryStage.maxThreadThreshold",
    "spark.sql.shuffleExchange.maxThreadThreshold",
    "spark.sql.sources.disabledJdbcConnProviderList",
    "spark.sql.sources.schemaStringLengthThreshold",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.sql.streaming.ui.",
    "spark.sql.subquery.maxThreadThreshold",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
)
"""How the settings of Spark's SQL begin that cannot be changed later; those others that begin so may be early."""
_COMPUTED_ANEW: Final = (
    "a step of the project that has a watermark or deduplicate cannot read the tables before it, and computes all "
    "their columns anew"
)
_SECRET: Final = re.compile("secret|password|token|access[.]?key|account[.]?key", re.IGNORECASE)
"""Settings with this in their names or values are not shown: what Spark itself redacts, and Azure's keys."""
_ESCAPED: Final = {"\n": r"\n", "\\": r"\\", "'": r"\'"}
"""In a word of a shell's that is quoted with $'…'."""
_HEAD: Final = '''\
"""Pipeline {name}, as {file} declares it. Written by `rocketline pipeline export-sdp`: change the declaration."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame

from rocketline.pipelines.sdp import Project

project = Project(Path(__file__).parents[1] / "{file}")
'''
_TABLE: Final = """

@dp.table(name="{table}")
def {function}() -> DataFrame:
    return project.rows("{name}", {inputs})
"""
_TOPIC: Final = """

dp.create_sink("{sink}", "rocketmq", project.sink_options("{name}", {number}))


@dp.append_flow(target="{sink}", name="{flow}")
def {function}() -> DataFrame:
    return project.messages("{name}", {number}, spark.readStream.table("{table}"))
"""


class Project:
    """What the generated files call."""

    def __init__(self, file: Path) -> None:
        self._pipeline = load(file)
        self._functions = load_functions(self._pipeline)
        # Before Spark calls the functions of the project, in which it answers no question.
        self._columns = {
            name: declared_columns(self._pipeline, name)
            for name in (*self._pipeline.sources, *(table for table, _ in self._pipeline.tables()))
        }

    def source(self, spark: SparkSession, name: str) -> DataFrame:
        """A source, as a stream."""
        return spark.readStream.format("rocketmq").options(**self._pipeline.sources[name].options).load()

    def stream(self, spark: SparkSession, name: str) -> DataFrame:
        """A source, or the rows of a table made of the sources themselves.

        Spark resolves a plan with a watermark at once, when tables of the same project are not there yet.
        """
        if name in self._pipeline.sources:
            return self.source(spark, name)
        return self.rows(name, *(self.stream(spark, each) for each in self._pipeline.step_of(name).inputs))

    def rows(self, table: str, *inputs: DataFrame) -> DataFrame:
        """The rows of a table."""
        names = self._pipeline.step_of(table).inputs[: len(inputs)]
        return table_rows(self._pipeline, table, inputs, self._functions, [self._columns[name] for name in names])

    def sink_options(self, table: str, number: int) -> dict[str, str]:
        """How a table's topic is written."""
        return self._pipeline.topic_options(topics_of(self._pipeline, table)[number])

    def messages(self, table: str, number: int, rows: DataFrame) -> DataFrame:
        """What a table's topic gets."""
        target = topics_of(self._pipeline, table)[number]
        is_quarantine = table not in self._pipeline.steps
        return dead_letters(rows, target, self._columns[table]) if is_quarantine else messages(rows, target)


def topics_of(pipeline: Pipeline, table: str) -> tuple[TopicTarget, ...]:
    """The topics that are fed from a table."""
    step = pipeline.step_of(table)
    if table == step.name:
        return step.topics
    assert step.quarantine is not None
    return (step.quarantine.topic,) if step.quarantine.topic is not None else ()


def check_flows(pipeline: Pipeline, spark: SparkSession) -> None:
    """Raise `ConfigError` for what `pipeline run` refuses, and if flows might judge a row otherwise than each other."""
    Plans(pipeline, queries_of(pipeline), spark)  # analyses all that a run would stream
    project = Project(pipeline.file)
    resolved = [step for step in pipeline.steps.values() if _is_resolved(step, step.name)]
    computed = {each.name for step in resolved for each in _steps_until(pipeline, step)}
    for step in in_order(pipeline.steps):
        if step.name in computed and (step.parse is not None or step.expectations):
            rows = project.stream(spark, step.inputs[0])
            refuse_nondeterministic(pipeline, step, rows, remedy=_COMPUTED_ANEW)


def export(pipeline: Pipeline, folder: Path) -> list[Path]:
    """Write the project into a folder that is new or empty; the files that were made.

    Raises `PipelineError` for a folder that is neither, and `ConfigError` for a pipeline that cannot be such a project.
    """
    if folder.exists() and any(folder.iterdir()):
        raise PipelineError(f"{folder} is not empty: name a new folder")
    if problems := [*_clashes(pipeline), *_strays(pipeline), *_loose_beginnings(pipeline)]:
        raise ConfigError([f"{pipeline.file.name}: {problem}" for problem in problems])
    neighbours = sorted(set(_neighbours(pipeline)))
    transformations = folder / "transformations"
    transformations.mkdir(parents=True)
    storage = (folder / "storage").resolve()
    storage.mkdir()
    made = [folder / SPECIFICATION, transformations / f"{pipeline.name}.py", folder / pipeline.file.name]
    made[0].write_text(_specification(pipeline, storage), "utf-8")
    made[1].write_text(_HEAD.format(name=pipeline.name, file=pipeline.file.name) + "".join(_parts(pipeline)), "utf-8")
    shutil.copyfile(pipeline.file, made[2])
    for path in neighbours:
        made.append(folder / path)
        made[-1].parent.mkdir(parents=True, exist_ok=True)
        origin = pipeline.file.parent / path
        if origin.is_dir():
            shutil.copytree(origin, made[-1], ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(origin, made[-1])
    return made


def _specification(pipeline: Pipeline, storage: Path) -> str:
    """With the settings that `pipeline run` has, ours last: `run` sets them whatever the file says."""
    withheld = _withheld(pipeline)
    given = {key: value for key, value in {**STATE_STORE, **pipeline.spark}.items() if key not in withheld}
    at_start = {key: value for key, value in given.items() if _counts_at_start(key)}
    settings = {key: value for key, value in given.items() if key not in at_start} | SETTINGS
    return _SPECIFICATION.format(
        name=pipeline.name,
        storage=storage.as_uri(),
        more="".join(f" --conf {_word(f'{key}={value}')}" for key, value in at_start.items()),
        withheld="".join(f"# and {_word(key)}, {reason}.\n" for key, reason in withheld.items()),
        # Texts of JSON are texts of YAML, too.
        settings="".join(
            f"  {json.dumps(key)}: {json.dumps(text, ensure_ascii=False)}\n" for key, text in settings.items()
        ),
    )


def _withheld(pipeline: Pipeline) -> dict[str, str]:
    """The settings that are not written down, with the reason: values from the environment may be secrets."""
    expanded = settings_from_environment(pipeline.file)
    found: dict[str, str] = {}
    for key, value in pipeline.spark.items():
        if _SECRET.search(key) or _SECRET.search(value):
            found[key] = "a secret that is not written down"
        elif key in expanded and key not in SETTINGS:
            found[key] = "which comes from the environment and is not written down"
    return found


def _word(text: str) -> str:
    """A word of a shell's, on one line: a comment of YAML ends with it."""
    if text.isprintable():
        return shlex.quote(text)
    plain = (each if each.isprintable() else f"\\U{ord(each):08x}" for each in text)
    return "$'" + "".join(_ESCAPED.get(raw, shown) for raw, shown in zip(text, plain, strict=True)) + "'"


def _counts_at_start(key: str) -> bool:
    """A session that runs refuses it, and the project's flows would fail with it."""
    return key.startswith("spark.") and (not key.startswith("spark.sql.") or key.startswith(_AT_START))


def _parts(pipeline: Pipeline) -> Iterator[str]:
    """The declarations. Functions are numbered: a step's name may mean something in Python, or in this file."""
    numbers, flow_numbers = count(1), count(1)
    for step in in_order(pipeline.steps):
        for name in _tables(step):
            is_resolved = _is_resolved(step, name)
            inputs = ", ".join(_input(pipeline, each, is_resolved=is_resolved) for each in _inputs(step, name))
            function = f"table_{next(numbers)}"
            yield _TABLE.format(function=function, table=_identifier(name), name=name, inputs=inputs)
        for name in _tables(step):
            for number, sink in enumerate(_sinks(pipeline, name)):
                yield _TOPIC.format(
                    function=f"messages_{next(flow_numbers)}",
                    sink=sink,
                    flow=_flow(sink),
                    name=name,
                    number=number,
                    table=_identifier(name),
                )


def _tables(step: Step) -> list[str]:
    return [step.name, *([step.quarantine_name] if step.quarantine is not None else [])]


def _inputs(step: Step, table: str) -> tuple[str, ...]:
    """What the flow of one of a step's tables is made of: a side table has what came first."""
    return step.inputs if table == step.name else step.inputs[:1]


def _is_resolved(step: Step, table: str) -> bool:
    """Spark resolves its plan at once, so that it cannot read tables of the same project: see `Project.stream`."""
    return table == step.name and (step.watermark is not None or bool(step.deduplicate))


def _sinks(pipeline: Pipeline, table: str) -> list[str]:
    return [f"{_identifier(table)}_topic{number or ''}" for number in range(len(topics_of(pipeline, table)))]


def _flow(sink: str) -> str:
    return f"{sink}_messages"


def _input(pipeline: Pipeline, name: str, *, is_resolved: bool) -> str:
    if name in pipeline.sources:
        return f'project.source(spark, "{name}")'
    return f'project.stream(spark, "{name}")' if is_resolved else f'spark.readStream.table("{_identifier(name)}")'


def _identifier(name: str) -> str:
    return name.replace(".", "_")


def _clashes(pipeline: Pipeline) -> Iterator[str]:
    """Names that two things of the project would have. A table and its flow have one; each sink has a flow beside."""
    meant: dict[str, list[str]] = {}
    for table, _ in pipeline.tables():
        meant.setdefault(_identifier(table), []).append(f"table {table}")
        for sink in _sinks(pipeline, table):
            meant.setdefault(sink, []).append(f"a topic of {table}")
            meant.setdefault(_flow(sink), []).append(f"the messages of a topic of {table}")
    for name, those in meant.items():
        if len(those) > 1:
            yield f"steps: {' and '.join(those)} would both be called {name} in the project: rename a step"


def _loose_beginnings(pipeline: Pipeline) -> Iterator[str]:
    """Sources that several flows read, each from where it finds the end, or a group, when it starts."""
    readers: dict[str, list[str]] = {}
    for step in in_order(pipeline.steps):
        for table in _tables(step):
            for name in sorted({*_sources_of_flow(pipeline, step, table)}):
                readers.setdefault(name, []).append(table)
    for name, tables in readers.items():
        if len(tables) > 1 and begins_anywhere(pipeline.sources[name]):
            yield (
                f"sources.{name}.startingOffsets: in the project the tables {' and '.join(tables)} each read {name} by "
                "themselves, and a message that comes between their starts may be in some and not in others, or in "
                'none: write startingOffsets = "earliest", an offset for each queue, or startingTimestamp'
            )


def _sources_of_flow(pipeline: Pipeline, step: Step, table: str) -> Iterator[str]:
    """The sources that a table's flow reads itself."""
    for name in _inputs(step, table):
        if name in pipeline.sources:
            yield name
        elif _is_resolved(step, table):
            yield from _origins(pipeline, name)


def _origins(pipeline: Pipeline, table: str) -> Iterator[str]:
    """The sources that a table's rows come from, by however many steps."""
    for step in _steps_until(pipeline, pipeline.step_of(table)):
        yield from (name for name in step.inputs if name in pipeline.sources)


def _steps_until(pipeline: Pipeline, step: Step) -> Iterator[Step]:
    """The step and all that its rows come from."""
    yield step
    for name in step.inputs:
        if name not in pipeline.sources:
            yield from _steps_until(pipeline, pipeline.step_of(name))


def _strays(pipeline: Pipeline) -> Iterator[str]:
    """Schemas that the definition finds by a path that leads out of the project."""
    for step, file in _schema_files(pipeline):
        if Path(os.path.normpath(file)).parts[:1] == (os.pardir,):
            yield (
                f"steps.{step.name}.parse.schema_file: {file} is not in the folder of {pipeline.file.name}, which is "
                "what the project takes along: put the schema there, or name it by its absolute path"
            )


def _schema_files(pipeline: Pipeline) -> Iterator[tuple[Step, Path]]:
    """The files of schemas that are named by relative paths."""
    for step in pipeline.steps.values():
        if step.parse is not None and step.parse.schema_file and not Path(step.parse.schema_file).is_absolute():
            yield step, Path(step.parse.schema_file)


def _neighbours(pipeline: Pipeline) -> Iterator[Path]:
    """The files that the definition names and that stand beside it: functions and schemas, by their relative paths."""
    load_functions(pipeline)
    yield from (path.relative_to(pipeline.file.parent) for path in module_paths(pipeline))
    yield from (file for _, file in _schema_files(pipeline))
