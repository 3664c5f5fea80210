"""What is kept of Spark's progress, and what a report makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocketline.pipelines.report.figures import figures_of
from rocketline.pipelines.runs.landing import Landed
from rocketline.pipelines.runs.progress_log import ProgressLog, lag_of, read_log, record_of


def offset(**ends: int) -> dict[str, Any]:
    return {"version": 1, "queues": {"orders": {"broker-a": {key.removeprefix("q"): end for key, end in ends.items()}}}}


def progress(**more: Any) -> dict[str, Any]:
    return {
        "name": "raw",
        "batchId": 3,
        "timestamp": "2026-11-16T08:00:00.000Z",
        "numInputRows": 100,
        "durationMs": {"triggerExecution": 500},
        "sources": [{"endOffset": offset(q0=60, q1=40), "latestOffset": offset(q0=75, q1=40)}],
        "stateOperators": [{"numRowsTotal": 7, "numRowsDroppedByWatermark": 2}],
        "observedMetrics": {"messages": {"newest_ms": 1794816000200, "oldest_ms": 1794815999500}},
        **more,
    }


def test_record_has_rows_lag_lateness_and_waits() -> None:
    record = record_of(progress())

    assert (record["rows"], record["lag"], record["too_late"], record["state_rows"]) == (100, 15, 2, 7)
    assert record["waited_ms"] == [300, 1000], "newest and oldest, until the batch was done"
    assert record["positions"] == {"orders broker-a 0": 60, "orders broker-a 1": 40}


def test_waits_of_a_join_are_those_of_all_its_topics() -> None:
    one, other = ({"newest_ms": 1794816000200 - ms, "oldest_ms": 1794815999500 - ms} for ms in (0, 50))
    idle = {"newest_ms": None, "oldest_ms": None}
    observed = {"messages of old": one, "messages of new": other, "messages of idle": idle, "quarantine": {"rows": 1}}

    assert record_of(progress(observedMetrics=observed))["waited_ms"] == [300, 1050]


def test_lag_of_what_is_no_topic_is_not_known() -> None:
    assert lag_of([{"endOffset": {"logOffset": 3}, "latestOffset": {"logOffset": 4}}]) is None
    assert lag_of([{}]) is None
    assert lag_of([]) is None


def test_lag_of_a_join_is_that_of_all_its_topics() -> None:
    one = {"endOffset": offset(q0=60), "latestOffset": offset(q0=75)}
    other = {"endOffset": offset(q1=1), "latestOffset": offset(q1=5)}

    assert lag_of([{"endOffset": {"version": 3}, "latestOffset": {"version": 4}}, one, other]) == 19


def test_offsets_may_come_as_text() -> None:
    assert (
        lag_of([{"endOffset": '{"queues":{"t":{"b":{"0":1}}}}', "latestOffset": '{"queues":{"t":{"b":{"0":5}}}}'}]) == 4
    )


def test_log_is_read_back_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    log = ProgressLog(tmp_path, told.append)
    log.progressed(progress())
    log.landed(Landed("raw", "id-1", "clean.quarantine", 3, 5, 1, 1794816000000, 0.2))
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"kind": "progr')

    assert list(read_log(tmp_path)) == told
    assert len(told) == 2


def test_log_keeps_the_newest_and_never_grows_beyond_twice_its_bound(tmp_path: Path) -> None:
    log = ProgressLog(tmp_path, bytes_max=5000)
    for number in range(100):
        log.progressed(progress(batchId=number))
    batches = [record["batch"] for record in read_log(tmp_path)]

    assert batches == list(range(batches[0], 100))
    assert 10 < len(batches) < 60
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 11_000


def test_figures_add_up_and_count_a_batch_that_was_landed_twice_once() -> None:
    landed = {"kind": "landed", "table": "clean.quarantine", "batch": 3, "rows": 5, "time_ms": 1794816000000}
    idle = record_of(progress(numInputRows=0, observedMetrics={}))
    figures = figures_of([record_of(progress()), idle, landed, landed, {**landed, "batch": 4}])

    assert figures.queries["raw"].rows == 100
    assert figures.queries["raw"].batches == 1
    assert figures.queries["raw"].rows_per_s == 200
    assert figures.queries["raw"].too_late == 4
    assert figures.landed_rows == {"clean.quarantine": 10}
    assert [value for _, value in figures.quarantined["clean.quarantine"]] == [5, 10]
    assert [value for _, value in figures.lag["raw"]] == [15, 15]


def test_run_under_a_new_checkpoint_counts_its_batches_from_0_and_they_are_not_the_old_ones() -> None:
    """As after the advice to remove table and checkpoint and to land everything again."""
    old = {"kind": "landed", "table": "clean.quarantine", "batch": 0, "rows": 5, "time_ms": 1794816000000}
    first, second = {**old, "query_id": "id-1", "rows": 3}, {**old, "query_id": "id-2", "rows": 2}

    assert figures_of([first, second, second]).landed_rows == {"clean.quarantine": 5}
    assert figures_of([old, old, first]).landed_rows == {"clean.quarantine": 8}, "older releases gave no id"


def test_side_table_with_a_query_of_its_own_is_drawn_too() -> None:
    """A Parquet one: Spark's file sink tells nobody how many rows it wrote."""
    records = [
        record_of(progress(name="clean.quarantine", observedMetrics={"quarantine": {"rows": rows}})) for rows in (3, 4)
    ]

    assert [value for _, value in figures_of(records).quarantined["clean.quarantine"]] == [3, 7]


def test_start_of_a_query_is_told_before_it_has_done_anything(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    ProgressLog(tmp_path, told.append).started("raw", 1794816000000)

    assert [(record["kind"], record["query"]) for record in told] == [("started", "raw")]
    assert figures_of(told).queries == {}


def test_no_records_make_empty_figures(tmp_path: Path) -> None:
    assert figures_of(read_log(tmp_path)).first_ms is None
