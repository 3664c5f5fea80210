"""Folders as Hadoop sees them: on the same file systems that Spark writes to, whatever their scheme."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """Those that a session reaches, with its settings. What fails there is one of py4j's errors."""

    spark: SparkSession

    def statuses(self, folder: str) -> Iterator[Any]:
        """What is in a folder; nothing if it is not there."""
        files, path = self._file_system(folder), self._path(folder)
        yield from files.listStatus(path) if files.exists(path) else ()

    def names(self, folder: str) -> list[str]:
        return [status.getPath().getName() for status in self.statuses(folder)]

    def make_folder(self, folder: str) -> None:
        """Make it, and those that it is in, unless it is there."""
        self._file_system(folder).mkdirs(self._path(folder))

    def remove(self, status: Any) -> None:
        """Remove what `statuses` has told of, with all that is in it."""
        path = status.getPath()
        path.getFileSystem(self.configuration()).delete(path, True)

    def configuration(self) -> Any:
        return self.spark._jsparkSession.sessionState().newHadoopConf()

    def _file_system(self, folder: str) -> Any:
        return self._path(folder).getFileSystem(self.configuration())

    def _path(self, path: str) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.org.apache.hadoop.fs.Path(path)
