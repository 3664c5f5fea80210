"""Checkpoints as they would be if other things had happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def altered(checkpoint: Path, batch: int, source: int, **more: dict[int, int]) -> None:
    """Write what a batch was to read as it was in another one, with other numbers for some queues."""
    *lines, last = (checkpoint / "offsets" / str(source)).read_text().splitlines()
    offset = json.loads(last)
    for key, numbers in more.items():
        ((queues,),) = (brokers.values() for brokers in offset[key].values())
        queues.update({str(queue): number for queue, number in numbers.items()})
    (checkpoint / "offsets" / f".{batch}.crc").unlink(missing_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text("\n".join([*lines, json.dumps(offset)]))
    for kept in checkpoint.glob("rocketline-coverage.json*"):
        kept.unlink()


def offset(
    ends: dict[int, int], base: dict[int, int] | None = None, wanted: dict[int, int] | None = None
) -> dict[str, Any]:
    """How far a batch reads the queues of topic orders, as Spark writes it down."""

    def table(numbers: dict[int, int]) -> dict[str, Any]:
        return {"orders": {"broker-a": {str(queue): number for queue, number in numbers.items()}}} if numbers else {}

    lost = {"wanted": table(wanted)} if wanted else {}
    return {"version": 1, "queues": table(ends), "base": table(base or {}), "times": {}, **lost}


class Spark:
    """Writes the files that Spark writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True)

    def plan(self, batch: int, content: dict[str, Any] | None) -> None:
        line = "-" if content is None else json.dumps(content)
        (self.folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}')

    def done(self, batch: int) -> None:
        (self.folder / "commits" / str(batch)).write_text("v1\n{}")

    def forget(self, batch: int) -> None:
        (self.folder / "offsets" / str(batch)).unlink()
