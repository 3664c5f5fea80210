"""A pipeline's file, TOML or YAML, becomes a `Pipeline`; what is wrong with it is told all at once.

`${NAME}` in any text is the environment's variable of that name, `${NAME:-else}` has a text for when there is none.
Paths are relative to the file's folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketline.errors import ConfigError, MissingExtraError
from rocketline.pipelines.config_section import Problems, Section, option_texts
from rocketline.pipelines.declared.queries import check_inputs
from rocketline.pipelines.declared.step_section import StepReader
from rocketline.pipelines.definition import TRIGGER, Pipeline, Source, Step
from rocketline.pipelines.tables.table import local_path

if TYPE_CHECKING:
    from rocketline.spark.options.source_and_sink import SinkOptions, SourceOptions

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SUFFIXES: Final = (".toml", ".yaml", ".yml")


def load(path: str | Path, environ: Mapping[str, str] = os.environ) -> Pipeline:
    """The pipeline that a file declares. Raises `ConfigError` that lists all problems, each with file and key."""
    file = Path(path)
    problems = Problems(file.name)
    content = _substituted(_parsed(file), environ, problems, "")
    pipeline = _pipeline(Section(problems, "", content), file.resolve(), problems)
    problems.finish()
    return pipeline


def settings_from_environment(file: Path) -> set[str]:
    """The settings of Spark in a valid file that the environment has a part in."""
    return {str(key) for key, value in _parsed(file).get("spark", {}).items() if _VARIABLE.search(str(value))}


def _parsed(file: Path) -> Any:
    if file.suffix not in _SUFFIXES:
        raise ConfigError([f"{file}: a pipeline is a .toml or a .yaml file"])
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError([f"{file}: {(error.strerror or str(error)).lower()}"]) from None
    try:
        return tomllib.loads(data.decode("utf-8")) if file.suffix == ".toml" else _yaml(data)
    except ValueError as error:  # bad TOML, bad YAML and bad UTF-8 alike
        raise ConfigError([f"{file.name}: {' '.join(str(error).split())}"]) from None


def _yaml(data: bytes) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtraError("A pipeline in YAML", "PyYAML", "pipelines") from None

    class Loader(yaml.SafeLoader):
        """Refuses a key that is there twice, of which one would silently be lost."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for number, (key, _) in enumerate(node.value):
                if key.value in names[:number]:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} is there twice", problem_mark=key.start_mark)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(data, Loader)  # noqa: S506  # it is a safe one
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _substituted(value: Any, environ: Mapping[str, str], problems: Problems, place: str) -> Any:
    if isinstance(value, Mapping):
        below = f"{place}." if place else ""
        return {key: _substituted(each, environ, problems, f"{below}{key}") for key, each in value.items()}
    if isinstance(value, list):
        return [_substituted(each, environ, problems, place) for each in value]
    if not isinstance(value, str):
        return value

    def text(match: re.Match[str]) -> str:
        found = environ.get(match[1]) or match[2]
        if found is None:
            problems.add(place, f"the environment has no {match[1]}: set it, or write ${{{match[1]}:-else}}")
        return found or ""

    return _VARIABLE.sub(text, value)


def _pipeline(top: Section, file: Path, problems: Problems) -> Pipeline:
    name = _checked_name(top, "name", top.text("name"))
    folder = file.parent
    state = local_path(top.text("state", f"{name}-state"))
    if state is None:
        top.problem("state", "is a folder that this machine sees, no address: checkpoints and the lock are files there")
    reader = StepReader(name, folder)
    sources: dict[str, Source] = {}
    for key, section in top.sections("sources"):
        _checked_name(section, "", key)
        sources[key] = _source(key, section)
    steps: dict[str, Step] = {}
    for key, section in top.sections("steps"):
        _checked_name(section, "", key)
        steps[key] = reader.step(key, section)
    if not sources:
        top.problem("sources", "there is none: a pipeline reads at least one, as [sources.orders]")
    if not steps:
        top.problem("steps", "there is none: a pipeline has at least one, as [steps.raw]")
    pipeline = Pipeline(
        name=name,
        file=file,
        state=folder / (state or ""),
        sources=sources,
        steps=steps,
        trigger=top.text("trigger", TRIGGER),
        spark=top.options("spark"),
    )
    top.finish()
    if problems.is_empty:
        _check_topics(pipeline, problems)
    for place, problem in check_inputs(pipeline):
        problems.add(place, problem)
    return pipeline


def _check_topics(pipeline: Pipeline, problems: Problems) -> None:
    """Options of the sinks; those of the client come from a source, which is all right."""
    from rocketline.spark.options.source_and_sink import sink_options

    for step in pipeline.steps.values():
        targets = [("topic", topic) for topic in step.topics]
        if step.quarantine is not None and step.quarantine.topic is not None:
            targets.append(("quarantine.topic", step.quarantine.topic))
        for key, target in targets:
            for problem in _option_problems(sink_options, pipeline.topic_options(target)):
                problems.add(f"steps.{step.name}.{key}", problem)


def _checked_name(section: Section, key: str, name: str) -> str:
    if name and not _NAME.fullmatch(name):
        section.problem(key, f"{name!r}: a name has small letters, digits and _, and begins with a letter")
    return name


def _source(name: str, section: Section) -> Source:
    from rocketline.spark.options.source_and_sink import source_options

    options = option_texts(section.given)
    for problem in _option_problems(partial(source_options, is_stream=True), options):
        section.problem("", problem)
    return Source(name, options)


def _option_problems(
    parse: Callable[[Mapping[str, str]], SourceOptions | SinkOptions], options: Mapping[str, str]
) -> list[str]:
    """What is wrong with options. One that means nothing would be a line in a log; in a file it is a mistake."""
    try:
        unknown = parse(options).unknown
    except ConfigError as error:
        return list(error.problems)
    return [f"option {name} means nothing here" for name in unknown]
