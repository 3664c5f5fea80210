"""A pipeline's file and a Spark session, as the commands of `rocketline pipeline` get them."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from rocketline.cli.shared.client_log import client_log
from rocketline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketline.pipelines.definition import Pipeline


LOG_FILE = "spark.log"
_STDERR = 2


@dataclass(frozen=True, slots=True)
class SparkChoice:
    """What the options say of Spark."""

    master: str | None
    settings: dict[str, str]

    @contextmanager
    def session(self, pipeline: Pipeline, *, tell: Callable[[str], None] | None = None) -> Iterator[SparkSession]:
        """A session for the pipeline; one that was there before stays. `tell` hears what takes time."""
        from rocketline.spark.session import ensure_java, spark_session

        tell = tell or functools.partial(click.echo, err=True)
        if line := ensure_java():
            tell(line)
        from py4j.protocol import Py4JError
        from pyspark import SparkContext
        from pyspark.errors import PySparkException

        from rocketline.pipelines.runs.plans import SETTINGS
        from rocketline.pipelines.spark_errors import cause_of

        is_ours = SparkContext._active_spark_context is None  # another thread's session is not this one's active one
        settings = {**SETTINGS, **pipeline.spark, **self.settings}
        if is_ours:
            tell(f"Starting Spark; its log is {pipeline.state / LOG_FILE}")
        with _logging_to(pipeline.state / LOG_FILE):
            spark = spark_session(f"rocketline {pipeline.name}", master=self.master, settings=settings)
        try:
            yield spark
        except (PySparkException, Py4JError) as error:
            raise PipelineError(cause_of(str(error))) from error
        finally:
            if is_ours:
                spark.stop()


def pipeline_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument FILE; the command gets what it declares as `pipeline`."""

    @functools.wraps(command)
    def with_pipeline(file: str, **values: Any) -> Any:
        from rocketline.pipelines.definition_file import load

        with client_log():
            return command(pipeline=load(file), **values)

    return click.argument("file", type=click.Path(dir_okay=False))(with_pipeline)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of Spark; the command gets them as `choice`."""

    @functools.wraps(command)
    def with_choice(master: str | None, settings: tuple[str, ...], **values: Any) -> Any:
        pairs = {}
        for text in settings:
            key, found, value = text.partition("=")
            if not (key and found):
                raise click.UsageError(f"--conf {text}: write it as key=value")
            pairs[key] = value
        return command(choice=SparkChoice(master, pairs), **values)

    with_choice = click.option(
        "--conf", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be given again."
    )(with_choice)
    return click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[2], spark://host:7077, …; else all cores of this machine.",
    )(with_choice)


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """What is started in the block, which is Spark with all its processes, writes its log to a file, not to us.

    The log of the time before is kept beside it: whoever looks for what went wrong may have verified meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.replace(path.with_suffix(f".old{path.suffix}"))
    sys.stderr.flush()
    ours = os.dup(_STDERR)
    with path.open("wb") as file:
        os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(ours, _STDERR)
        os.close(ours)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """A SIGTERM ends what runs as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_terminal() -> bool:
    """Somebody watches."""
    return sys.stderr.isatty()
