"""The tables `[steps.…]` of a pipeline's file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from rocketline.pipelines.config_section import Section
from rocketline.pipelines.definition import (
    QUARANTINE_SUFFIX,
    Aggregation,
    BodyFormat,
    Expectation,
    Otherwise,
    Parsing,
    Quarantine,
    Step,
    TableFormat,
    TableTarget,
    TopicTarget,
    Watermark,
)
from rocketline.pipelines.tables.table import local_path

_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_HAS_SCHEMA: Final = (BodyFormat.JSON, BodyFormat.CSV, BodyFormat.AVRO)


class StepReader:
    """Reads steps of one file, which stands in `folder`."""

    def __init__(self, pipeline: str, folder: Path) -> None:
        self._pipeline, self._folder = pipeline, folder

    def step(self, name: str, section: Section) -> Step:
        """The step; what is wrong is noted in the section."""
        inputs = section.texts("from", is_needed=True)
        watermark, deduplicate = _watermark(section), section.texts("deduplicate")
        aggregate, transform = _aggregate(section), section.text("transform", "")
        if transform and not _FUNCTION.fullmatch(transform):
            section.problem("transform", f"{transform!r}: name it as module:function")
        if len(inputs) > 1 and not transform:
            section.problem("transform", "is missing: with several inputs a function has to join them")
        for key, needs in (("deduplicate", deduplicate), ("aggregate", aggregate)):
            if needs and watermark is None:
                section.problem(key, "needs a watermark, or what it remembers would grow for ever")
        table = section.section("table")
        step = Step(
            name=name,
            inputs=inputs,
            table=self._table(name, table) if table else self._no_table(section),
            parse=self._parse(section, inputs),
            expectations=tuple(_expectations(section)),
            quarantine=self._quarantine(name, section),
            watermark=watermark,
            deduplicate=deduplicate,
            transform=transform,
            aggregate=aggregate,
            topics=tuple(_topic(each) for each in section.each("topic", word="name")),
            is_stateful=section.flag("stateful") or watermark is not None or len(inputs) > 1,
            has_own_query=section.flag("own_query"),
        )
        self._compare(step, section)
        section.finish()
        return step

    def _compare(self, step: Step, section: Section) -> None:
        if step.is_quarantining and step.quarantine is None:
            section.problem("quarantine", 'is missing: say where rows go, or write otherwise = "drop" or "fail"')
        if step.quarantine is not None and not step.is_quarantining:
            section.problem("quarantine", "has no use: no row is to go there")
        if len(step.inputs) > 1 and (step.parse or step.expectations or step.deduplicate):
            section.problem("from", "parse, expect and deduplicate are for one input: do that in the steps before")

    # --- tables

    def _no_table(self, section: Section) -> TableTarget:
        section.problem("table", "is missing: each step keeps its rows in a table, also if a topic is fed from it")
        return TableTarget(format=TableFormat.PARQUET, path="")

    def _table(self, name: str, section: Section) -> TableTarget:
        kind = section.choice("format", TableFormat)
        path = section.text("path")
        target = TableTarget(
            format=kind,
            path=self._absolute(path),
            name=section.text(
                "name", f"{self._pipeline}.{name.replace('.', '_')}" if kind is TableFormat.ICEBERG else ""
            ),
            catalog=section.options("catalog") or self._local_catalog(kind, path),
            storage=section.options("storage"),
        )
        for key, owner in (
            ("name", TableFormat.ICEBERG),
            ("catalog", TableFormat.ICEBERG),
            ("storage", TableFormat.DELTA),
        ):
            if section.has(key) and kind is not owner:
                section.problem(key, f"is for {owner.value} tables only")
        if target.name and target.name.count(".") != 1:
            section.problem("name", f"{target.name!r}: write namespace.table")
        section.finish()
        return target

    def _absolute(self, path: str) -> str:
        """As Spark will name it: it takes `a/../b` for `b`, and names files accordingly."""
        local = local_path(path)
        return path if local is None or not path else os.path.normpath(self._folder / local)

    def _local_catalog(self, kind: TableFormat, path: str) -> dict[str, str]:
        """A catalog in a file beside the table; nothing for a path that is no local one."""
        if kind is not TableFormat.ICEBERG or not path or local_path(path) is None:
            return {}
        folder = Path(self._absolute(path)).parent
        return {"type": "sql", "uri": f"sqlite:///{folder / 'iceberg.db'}", "warehouse": f"file://{folder}"}

    def _quarantine(self, name: str, section: Section) -> Quarantine | None:
        below = section.section("quarantine")
        if below is None:
            return None
        topics = [_topic(each) for each in below.each("topic", word="name")]
        if len(topics) > 1:
            below.problem("topic", "there can be one only")
        return Quarantine(self._table(name + QUARANTINE_SUFFIX, below), topics[0] if topics else None)

    # --- bodies

    def _parse(self, section: Section, inputs: tuple[str, ...]) -> Parsing | None:
        below = section.section("parse")
        if below is None:
            return None
        kind = below.choice("format", BodyFormat)
        schema = below.text("schema", "")
        if file := below.text("schema_file", ""):
            if schema:
                below.problem("schema_file", "schema is given, too: one of them is enough")
            try:
                schema = (self._folder / file).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                below.problem("schema_file", f"{file}: {error}")
        elif not schema and kind in _HAS_SCHEMA:
            below.problem("schema", "is missing: say which fields there are, here or in a schema_file")
        skipped = below.whole("skipped_bytes", 0, low=0)
        if skipped and kind is not BodyFormat.AVRO:
            below.problem("skipped_bytes", "is for Avro only")
        parsing = Parsing(
            format=kind,
            schema=schema,
            schema_file=file,
            column=below.text("column", "body"),
            into=below.text("into", "text" if kind is BodyFormat.RAW else ""),
            skipped_bytes=skipped,
            options=below.options("options"),
            otherwise=below.choice("otherwise", Otherwise, Otherwise.QUARANTINE),
        )
        below.finish()
        return parsing


def _expectations(section: Section) -> list[Expectation]:
    found = []
    for below in section.each("expect"):
        found.append(
            Expectation(
                below.text("name"), below.text("that"), below.choice("otherwise", Otherwise, Otherwise.QUARANTINE)
            )
        )
        below.finish()
    names = [each.name for each in found]
    for name in sorted({name for name in names if names.count(name) > 1}):
        section.problem("expect", f"{name!r} is there twice: rows in quarantine are told apart by these names")
    return found


def _watermark(section: Section) -> Watermark | None:
    below = section.section("watermark")
    if below is None:
        return None
    watermark = Watermark(below.text("time"), below.text("late"))
    below.finish()
    return watermark


def _aggregate(section: Section) -> Aggregation | None:
    below = section.section("aggregate")
    if below is None:
        return None
    aggregation = Aggregation(below.text("time"), below.text("every"), below.texts("by"), below.options("values"))
    if not aggregation.values:
        below.problem("values", 'is missing: say what to compute, as values = { revenue = "sum(price)" }')
    below.finish()
    return aggregation


def _topic(section: Section) -> TopicTarget:
    topic = TopicTarget(
        topic=section.text("name"),
        body=section.text("body", ""),
        keys=section.text("keys", ""),
        tags=section.text("tags", ""),
        sharding_key=section.text("sharding_key", ""),
        properties=section.options("properties"),
        options=section.options("options"),
    )
    section.finish()
    return topic
