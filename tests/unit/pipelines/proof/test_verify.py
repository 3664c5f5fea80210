"""What a step's tables must have, by the checkpoints of the queries that write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketline.model.queue import MessageQueue
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.offset_spans import OffsetSpan
from rocketline.pipelines.proof.verify import _Done, _done
from rocketline.pipelines.runs.checkpoint import TABLES_FILE
from support.pipelines.checkpoints import Spark, offset
from support.pipelines.files import LANDING, written

QUEUE = MessageQueue("orders", "broker-a", 0)
CLEAN = """\
[steps.clean]
from = "orders"
expect = [{{ name = "some", that = "queueOffset % 2 = 0" }}]
table = {{ format = "{format}", path = "clean" }}
quarantine = {{ format = "delta", path = "q" }}
"""


def query(folder: Path, name: str, tables: dict[str, int], *batches: int) -> None:
    """The checkpoint of a query with the tables that it writes, and where each of its batches ended."""
    spark = Spark(folder / "orders-state" / "checkpoints" / name)
    (spark.folder / "metadata").write_text('{"id": "some"}')
    (spark.folder / TABLES_FILE).write_text(json.dumps(tables))
    for batch, end in enumerate(batches):
        spark.plan(batch, offset({0: end}, {} if batch else {0: 0}))
        spark.done(batch)


def done(folder: Path, format: str) -> _Done:
    pipeline = load(written(folder, LANDING.replace("{format}", "delta") + CLEAN, format=format))
    return _done(pipeline, pipeline.steps["clean"])


def test_what_only_one_of_a_steps_two_queries_took_is_to_be_there(tmp_path: Path) -> None:
    """The quarantine joined a query that had run: what the step rejects of the first two batches is in no table."""
    query(tmp_path, "from-orders", {"raw": 0, "clean.quarantine": 2}, 10, 20, 30)
    query(tmp_path, "clean", {"clean": 0}, 30)
    found = done(tmp_path, "parquet")

    assert found.spans == {QUEUE: [OffsetSpan(0, 30)]}
    assert found.since == 0


@pytest.mark.parametrize("since", [0, 2])
def test_step_that_got_its_quarantine_later_is_compared_from_then_on(tmp_path: Path, since: int) -> None:
    """Until then it dropped what it rejected: the table is the elder one, or as old as its quarantine."""
    query(tmp_path, "from-orders", {"raw": 0, "clean": since, "clean.quarantine": 2}, 10, 20, 30)
    found = done(tmp_path, "delta")

    assert found.spans == {QUEUE: [OffsetSpan(20, 30)]}
    assert (found.since, found.batches) == (2, 1)
