"""`rocketline pipeline run FILE`, as a driver that stands still in the midst of its first batch.

    python paused_driver.py FILE TABLE GATE MOMENT

At the moment, `before` or `after` a batch's files are written for the table, or in the midst of a `task`, it makes the
file GATE/reached, and goes on when GATE/open is there. For the last, the pipeline's step calls `held`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REACHED, OPEN = "reached", "open"
_GATE = "PAUSED_DRIVER_GATE"


def held(rows: DataFrame) -> DataFrame:
    """The function of a step: its rows come when the gate is open, in the processes that have one."""
    from pyspark.sql.functions import udf

    return rows.where(udf(_is_let_through, "boolean", useArrow=False)("queueOffset"))


def _is_let_through(_: Any) -> bool:
    wait_at(os.environ.get(_GATE))
    return True


def wait_at(gate: str | None) -> None:
    if gate is not None:
        (Path(gate) / REACHED).touch()
        while not (Path(gate) / OPEN).exists():
            time.sleep(0.02)


def main(file: str, table: str, gate: str, moment: str) -> None:
    from rocketline.cli.commands import rocketline
    from rocketline.pipelines.tables.staging import StagedBatch
    from support.pipelines.kills import MASTER

    if moment == "task":
        os.environ[_GATE] = gate
    write = StagedBatch.write

    def paused(self: StagedBatch, rows: DataFrame) -> Any:
        is_meant = self.table_path.endswith(table)
        if is_meant and moment == "before":
            wait_at(gate)
        files = write(self, rows)
        if is_meant and moment == "after":
            wait_at(gate)
        return files

    StagedBatch.write = paused  # type: ignore[method-assign]
    rocketline(["pipeline", "run", file, *MASTER])


if __name__ == "__main__":
    main(*sys.argv[1:])
