"""A failure is told in one line, the one that says what happened."""

from __future__ import annotations

import pytest

from rocketline.pipelines.spark_errors import cause_of, query_failure

WORKER = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "rocketline/spark/pulling/range_reader.py", line 7, in read
rocketline.errors.PipelineError: queue 3 of topic 'orders' begins at 40 now: 30 to 39 are gone

	at org.apache.spark.api.python.BasePythonRunner (PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WORKER, "queue 3 of topic 'orders' begins at 40 now: 30 to 39 are gone"),
        (
            "x [USER_RAISED_EXCEPTION] a row is not as expected: a (b) SQLSTATE: P0001\n",
            "a row is not as expected: a (b)",
        ),
        (
            "Traceback\n  File x\nZeroDivisionError: division by zero\n\n\tat java",
            "ZeroDivisionError: division by zero",
        ),
        ("Traceback\nfoo.bar.SomeError: it broke", "SomeError: it broke"),
        ("[STREAM_FAILED] [A_CLASS] the reason", "the reason"),
        ("plain words\nand more", "plain words"),
        ("", "no reason was given"),
    ],
)
def test_line_is_the_one_that_tells(text: str, line: str) -> None:
    assert cause_of(text) == line


def test_failure_names_the_query_and_stays_short() -> None:
    text = str(query_failure("raw", "SomeError: " + "x" * 10_000))

    assert text.startswith("query raw: SomeError: xxx")
    assert len(text) < 1000
