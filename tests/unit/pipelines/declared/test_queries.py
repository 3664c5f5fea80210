"""Which queries a pipeline becomes: topics are read once, state has its own query, topics are fed from tables."""

from __future__ import annotations

from pathlib import Path

from rocketline.pipelines.declared.queries import Query, levels, queries_of
from rocketline.pipelines.definition import Pipeline
from rocketline.pipelines.definition_file import load
from support.pipelines.files import CHAIN, LANDING, written

COPY = '[steps.{name}]\nfrom = "{reads}"\ntable = {{{{ format = "{format}", path = "{name}" }}}}\n{more}\n'


def copy(name: str, reads: str, *, format: str = "delta", more: str = "") -> str:
    return COPY.format(name=name, reads=reads, format=format, more=more)


def pipeline(folder: Path, text: str, *, format: str = "delta") -> Pipeline:
    return load(written(folder, text, format=format), {})


def shape(queries: list[Query]) -> dict[str, tuple[tuple[str, ...], list[str]]]:
    return {query.name: (query.inputs, [branch.table for branch in query.branches]) for query in queries}


def test_stateless_steps_share_the_query_that_reads_the_source(tmp_path: Path) -> None:
    text = LANDING + copy("copy", "raw") + copy("other", "orders", format="iceberg") + copy("copy2", "copy")

    assert shape(queries_of(pipeline(tmp_path, text))) == {
        "from-orders": (("orders",), ["raw", "other", "copy", "copy2"]),
    }


def test_stateful_step_reads_the_table_before_it_and_its_rejects_go_with_that_tables_query(tmp_path: Path) -> None:
    assert shape(queries_of(pipeline(tmp_path, CHAIN))) == {
        "from-orders": (("orders",), ["raw", "clean.quarantine"]),
        "clean": (("raw",), ["clean"]),
        "revenue": (("clean",), ["revenue"]),
    }


def test_each_parquet_table_has_a_query_of_its_own(tmp_path: Path) -> None:
    queries = queries_of(pipeline(tmp_path, CHAIN, format="parquet"))

    assert shape(queries) == {
        "raw": (("orders",), ["raw"]),
        "clean": (("raw",), ["clean"]),
        "clean.quarantine": (("raw",), ["clean.quarantine"]),
        "revenue": (("clean",), ["revenue"]),
    }
    assert all(query.is_file_sink for query in queries)


def test_stateless_steps_after_a_parquet_table_share_a_query_that_reads_it(tmp_path: Path) -> None:
    text = LANDING + copy("a", "raw") + copy("b", "raw")

    assert shape(queries_of(pipeline(tmp_path, text, format="parquet"))) == {
        "raw": (("orders",), ["raw"]),
        "from-raw": (("raw",), ["a", "b"]),
    }


def test_step_that_wants_its_own_query_reads_the_table(tmp_path: Path) -> None:
    text = LANDING + copy("a", "raw", more="own_query = true") + copy("b", "a")

    assert shape(queries_of(pipeline(tmp_path, text))) == {
        "from-orders": (("orders",), ["raw"]),
        "a": (("raw",), ["a", "b"]),
    }


def test_topics_are_fed_from_the_table_dead_letters_from_the_side_table(tmp_path: Path) -> None:
    text = (
        CHAIN.replace('path = "quarantine" }}', 'path = "quarantine", topic = "bad" }}') + 'topic = "revenue_topic"\n'
    )
    queries = {query.name: query for query in queries_of(pipeline(tmp_path, text))}

    assert queries["clean.quarantine-to-bad"].inputs == ("clean.quarantine",)
    assert queries["revenue-to-revenue_topic"].inputs == ("revenue",)
    assert queries["revenue-to-revenue_topic"].topic is not None


def test_turns_put_each_query_after_those_that_write_what_it_reads(tmp_path: Path) -> None:
    text = CHAIN + 'topic = "revenue_topic"\n'
    turns = levels(queries_of(pipeline(tmp_path, text)))

    assert [[query.name for query in turn] for turn in turns] == [
        ["from-orders"],
        ["clean"],
        ["revenue"],
        ["revenue-to-revenue_topic"],
    ]


def test_steps_may_stand_in_any_order(tmp_path: Path) -> None:
    text = (
        LANDING.partition("[steps.raw]")[0]
        + copy("late", "raw.quarantine")
        + copy(
            "raw",
            "orders",
            more='parse = {{ format = "json", schema = "a int" }}\nquarantine = {{ format = "delta", path = "q" }}',
        )
    )

    assert shape(queries_of(pipeline(tmp_path, text))) == {
        "from-orders": (("orders",), ["raw", "raw.quarantine", "late"]),
    }
