"""Parquet tables, written by Spark's file sink: the folder `_spark_metadata` says which files count.

Spark itself knows that; whoever reads the folder otherwise may see files of batches that were written twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocketline.pipelines.definition import TableTarget
from rocketline.pipelines.tables.table import local_path

METADATA: Final = "_spark_metadata"


def prepare(target: TableTarget) -> None:
    """Make an empty table that is known as one of Spark's file sink.

    A stream that follows it decides at the first files it sees whether `_spark_metadata` counts: it must be there
    before.
    """
    path = local_path(target.path)
    if path is not None:
        (path / METADATA).mkdir(parents=True, exist_ok=True)


def has_batches(target: TableTarget) -> bool:
    """Somebody has written to it. Of a path that is no local one nothing is known."""
    return last_batch(target) is not None


def last_batch(target: TableTarget) -> int | None:
    """The last batch that counts; None if there is none."""
    path = local_path(target.path)
    return None if path is None else max(map(_number, _entries(path)), default=None)


def files(target: TableTarget) -> list[str]:
    """The files that count, as Spark names them. For readers that are not Spark; the path must be a local one."""
    path = local_path(target.path)
    return [] if path is None else sorted(_logged(path))


def _entries(path: Path) -> Iterator[Path]:
    folder = path / METADATA
    return (file for file in (folder.iterdir() if folder.is_dir() else ()) if not file.name.startswith("."))


def _number(entry: Path) -> int:
    return int(entry.name.partition(".")[0])


def _logged(path: Path) -> set[str]:
    """What the log says: a file `7` adds what batch 7 wrote, a file `9.compact` has all there was until then."""
    counted: set[str] = set()
    for file in sorted(_entries(path), key=_number):
        lines = file.read_text("utf-8").splitlines()[1:]
        added = {entry["path"] for entry in map(json.loads, lines) if entry["action"] == "add"}
        counted = added if file.name.endswith(".compact") else counted | added
    return counted
