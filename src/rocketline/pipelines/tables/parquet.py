"""Parquet tables, written by Spark's file sink: the folder `_spark_metadata` says which files count.

Spark itself knows that; whoever reads the folder otherwise may see files of batches that were written twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

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
    """Somebody has written to it."""
    path = local_path(target.path)
    return path is not None and any(_entries(path))


def file_count(target: TableTarget) -> int:
    """How many files count. For what is no local path: none are known."""
    path = local_path(target.path)
    return 0 if path is None else len({entry["path"] for entry in _logged(path)})


def _entries(path: Path) -> Iterator[Path]:
    folder = path / METADATA
    return (file for file in (folder.iterdir() if folder.is_dir() else ()) if not file.name.startswith("."))


def _logged(path: Path) -> Iterator[dict[str, Any]]:
    for file in _entries(path):
        for line in file.read_text("utf-8").splitlines()[1:]:
            yield json.loads(line)
