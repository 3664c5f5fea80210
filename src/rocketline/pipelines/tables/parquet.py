"""Parquet tables, written by Spark's file sink: the folder `_spark_metadata` says which files count.

Spark itself knows that; whoever reads the folder otherwise may see files of batches that were written twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketline.pipelines.definition import TableTarget
from rocketline.pipelines.tables.hadoop_files import HadoopFiles
from rocketline.pipelines.tables.table import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METADATA: Final = "_spark_metadata"
_ENTRY: Final = re.compile(r"([0-9]+)(\.compact)?")
"""What the log's files are called; others there are check sums, or were not finished."""


def prepare(spark: SparkSession, target: TableTarget) -> None:
    """Make an empty table that is known as one of Spark's file sink.

    A stream that follows it decides at the first files it sees whether `_spark_metadata` counts: it must be there
    before.
    """
    HadoopFiles(spark).make_folder(_log_folder(target))


def has_batches(spark: SparkSession, target: TableTarget) -> bool:
    """Somebody has written to it."""
    return last_batch(spark, target) is not None


def last_batch(spark: SparkSession, target: TableTarget) -> int | None:
    """The last batch that counts; None if there is none."""
    return max(_numbered(HadoopFiles(spark).names(_log_folder(target))).values(), default=None)


def files(target: TableTarget) -> list[str]:
    """The files that count, as Spark names them. For readers that are not Spark; the path must be a local one."""
    path = local_path(target.path)
    return [] if path is None else sorted(_logged(path))


def _log_folder(target: TableTarget) -> str:
    return f"{target.path.rstrip('/')}/{METADATA}"


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """The files of the log by their names, each with the number of its batch."""
    return {name: int(found[1]) for name in names if (found := _ENTRY.fullmatch(name))}


def _logged(path: Path) -> set[str]:
    """What the log says: a file `7` adds what batch 7 wrote, a file `9.compact` has all there was until then."""
    counted: set[str] = set()
    folder = path / METADATA
    entries = _numbered(file.name for file in folder.iterdir()) if folder.is_dir() else {}
    for name in sorted(entries, key=entries.__getitem__):
        lines = (folder / name).read_text("utf-8").splitlines()[1:]
        added = {entry["path"] for entry in map(json.loads, lines) if entry["action"] == "add"}
        counted = added if name.endswith(".compact") else counted | added
    return counted
