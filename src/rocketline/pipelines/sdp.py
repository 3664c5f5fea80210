"""The same pipeline as a project of Spark's Declarative Pipelines: `export-sdp` writes it, `Project` serves it.

The project names each table and topic in plain sight and leaves what happens in between to the definition, which is
copied along: a step means the same in both. Tables are streaming tables of Spark's catalog then, and Spark runs them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketline.errors import PipelineError
from rocketline.pipelines.columns import declared_columns
from rocketline.pipelines.definition import Pipeline, Step, TopicTarget
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.functions import load_functions, module_paths
from rocketline.pipelines.queries import in_order
from rocketline.pipelines.transformation import dead_letters, messages, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPECIFICATION: Final = "spark-pipeline.yml"
_SPECIFICATION: Final = """\
# Written by `rocketline pipeline export-sdp`. Run it with
#   spark-pipelines run --conf spark.sql.catalogImplementation=hive
# (a catalog that lasts: with the one in memory the second run does not know the tables of the first).
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
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
def {table}() -> DataFrame:
    return project.rows("{name}", {inputs})
"""
_TOPIC: Final = """

dp.create_sink("{sink}", "rocketmq", project.sink_options("{name}", {number}))


@dp.append_flow(target="{sink}")
def {sink}_messages() -> DataFrame:
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


def export(pipeline: Pipeline, folder: Path) -> list[Path]:
    """Write the project into a folder that is new or empty; the files that were made. Raises `PipelineError`."""
    if folder.exists() and any(folder.iterdir()):
        raise PipelineError(f"{folder} is not empty: name a new folder")
    neighbours = sorted(set(_neighbours(pipeline)))
    transformations = folder / "transformations"
    transformations.mkdir(parents=True)
    storage = (folder / "storage").resolve()
    storage.mkdir()
    made = [folder / SPECIFICATION, transformations / f"{pipeline.name}.py", folder / pipeline.file.name]
    made[0].write_text(_SPECIFICATION.format(name=pipeline.name, storage=storage.as_uri()), "utf-8")
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


def _parts(pipeline: Pipeline) -> Iterator[str]:
    for step in in_order(pipeline.steps):
        names = [step.name, *([step.quarantine_name] if step.quarantine is not None else [])]
        for name in names:
            read = step.inputs if name == step.name else step.inputs[:1]
            is_resolved = name == step.name and (step.watermark is not None or bool(step.deduplicate))
            inputs = ", ".join(_input(pipeline, each, is_resolved=is_resolved) for each in read)
            yield _TABLE.format(table=_identifier(name), name=name, inputs=inputs)
        for name in names:
            yield from _topics(pipeline, step, name)


def _topics(pipeline: Pipeline, step: Step, name: str) -> Iterator[str]:
    for number in range(len(topics_of(pipeline, name))):
        sink = f"{_identifier(name)}_topic{number or ''}"
        yield _TOPIC.format(sink=sink, name=name, number=number, table=_identifier(name))


def _input(pipeline: Pipeline, name: str, *, is_resolved: bool) -> str:
    if name in pipeline.sources:
        return f'project.source(spark, "{name}")'
    return f'project.stream(spark, "{name}")' if is_resolved else f'spark.readStream.table("{_identifier(name)}")'


def _identifier(name: str) -> str:
    return name.replace(".", "_")


def _neighbours(pipeline: Pipeline) -> Iterator[Path]:
    """The files that the definition names and that stand beside it: functions and schemas, by their relative paths."""
    load_functions(pipeline)
    yield from (path.relative_to(pipeline.file.parent) for path in module_paths(pipeline))
    for step in pipeline.steps.values():
        if step.parse is not None and step.parse.schema_file and not Path(step.parse.schema_file).is_absolute():
            yield Path(step.parse.schema_file)
