"""Folders as Hadoop sees them: on the same file systems that Spark writes to, whatever their scheme."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """The file systems that a session reaches, with its settings. Raises `PipelineError` with what they say."""

    spark: SparkSession

    def statuses(self, folder: str) -> list[Any]:
        """What is in a folder; nothing if it is not there."""
        with _told_of(folder):
            files, path = self._file_system(folder), self._path(folder)
            return list(files.listStatus(path)) if files.exists(path) else []

    def names(self, folder: str) -> list[str]:
        return [status.getPath().getName() for status in self.statuses(folder)]

    def make_folder(self, folder: str) -> None:
        """Make it, and those that it is in, unless it is there."""
        with _told_of(folder):
            self._file_system(folder).mkdirs(self._path(folder))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing if it is not there."""
        with _told_of(path):
            self._file_system(path).delete(self._path(path), True)

    def configuration(self) -> Any:
        return self.spark._jsparkSession.sessionState().newHadoopConf()

    def _file_system(self, folder: str) -> Any:
        return self._path(folder).getFileSystem(self.configuration())

    def _path(self, path: str) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.org.apache.hadoop.fs.Path(path)


@contextmanager
def _told_of(place: str) -> Iterator[None]:
    """Have an error name the place, and what went wrong there: py4j's own says which object of Java's was called."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise PipelineError(f"{place}: {error.java_exception.toString()}") from error
