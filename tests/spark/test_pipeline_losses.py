"""What would lose rows is refused, what has lost them is told: never in silence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from rocketline.admin.sync import Admin
from rocketline.errors import ConfigError, TopicNotFoundError
from rocketline.pipelines.declared.queries import queries_of
from rocketline.pipelines.offset_spans import OffsetSpan
from rocketline.pipelines.runs.plans import Plans
from rocketline.pipelines.runs.preflight import check_sources
from rocketline.spark.planning.data_loss import DataLossError
from rocketline.testing import Server
from support.brokers.forgetful import SMALL_LOG_FILES, Forgetful
from support.clients.clusters import ClientCluster
from support.pipelines.checkpoints import altered
from support.pipelines.files import LANDING, _modules_as_before, written
from support.pipelines.runs import Trial, command, send

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python

__all__ = ["_modules_as_before"]

COPY = '[steps.copy]\nfrom = "orders"\ntable = {{ format = "delta", path = "copy" }}\n'
QUARANTINE = 'quarantine = {{ format = "delta", path = "q" }}\n'
PARSED = """\
[steps.parsed]
from = "orders"
parse = {{ format = "json", schema = "now string, at timestamp", otherwise = "drop" }}
transform = "{module}:timed"
table = {{ format = "delta", path = "parsed" }}

[steps.clean]
from = "parsed"
expect = [{{ name = "is new", that = "{that}" }}]
quarantine = {{ format = "delta", path = "q" }}
table = {{ format = "delta", path = "clean" }}
"""
TIMED = """\
from pyspark.sql import functions as f


def timed(rows):
    seen = rows.withColumn("seen", f.current_timestamp()).withColumn("late", f.col("seen") > f.col("at"))
    other = rows.withColumn("seen", f.col("at")).withColumn("late", f.expr("uuid() = now"))
    return seen.union(other).withColumn("stored", f.col("at"))
"""
REVENUE = """\
[steps.revenue]
from = "orders"
parse = {{ format = "json", schema = "price double, at timestamp", otherwise = "drop" }}
watermark = {{ time = "at", late = "10 minutes" }}
aggregate = {{ time = "at", every = "1 minute", values = {{ revenue = "sum(price)" }} }}
table = {{ format = "delta", path = "revenue" }}
"""
LENIENT = LANDING.replace("startingOffsets", "failOnDataLoss = false\nstartingOffsets")


@pytest.fixture
def trial(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> Callable[..., Trial]:
    """Makes a trial of a file that reads the test's own topic."""

    def make(text: str, **more: Any) -> Trial:
        return Trial(spark, written(tmp_path, text, **{"address": server.address, "topic": topic, **more}))

    return make


@pytest.fixture
def forgetful() -> Iterator[Forgetful]:
    with Server(settings=SMALL_LOG_FILES) as server:
        cluster = ClientCluster("ours", server.address, server.broker_addresses)
        yield Forgetful(cluster, lambda: server.advance(1))


# --- rows that are judged differently each time


@pytest.mark.parametrize(
    ("that", "what"),
    [
        ("storeTimestamp <= current_timestamp()", "current_timestamp()"),
        ("unix_seconds(storeTimestamp) < unix_timestamp()", "current_timestamp()"),
        ("rand() < 0.5", "rand()"),
        ("storeTimestamp < timestamp 'now'", "timestamp 'now'"),
        ("storeTimestamp < 'now'", "'now'"),
    ],
)
def test_expectation_that_may_find_otherwise_the_next_time_is_refused_before_anything_runs(
    trial: Callable[..., Trial], that: str, what: str
) -> None:
    pipeline = trial(LANDING + f'expect = [{{{{ name = "is new", that = "{that}" }}}}]\n' + QUARANTINE)
    with pytest.raises(ConfigError) as caught:
        pipeline.run()
    (problem,) = caught.value.problems
    result = command("dry-run", pipeline.file)

    assert problem.startswith(f"orders.toml: steps.raw.expect 'is new': {what} may differ each time")
    assert "compare with a column of the row, as storeTimestamp" in problem
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not (pipeline.file.parent / "raw").exists()


@pytest.mark.parametrize(
    ("that", "what"),
    [
        ("seen > at", "current_timestamp() in column seen"),
        ("not late", "current_timestamp() in column seen"),
        ("stored > at and now <> 'current_timestamp()' and `now` is not null", None),
    ],
)
def test_expectation_depends_on_what_the_step_before_computes(
    trial: Callable[..., Trial], topic: str, that: str, what: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"losses_{topic.replace('-', '_')}"
    pipeline = trial(LANDING + PARSED.replace("{module}", module).replace("{that}", that))
    (pipeline.file.parent / f"{module}.py").write_text(TIMED)
    monkeypatch.syspath_prepend(pipeline.file.parent)
    problems: list[str] = []
    try:
        Plans(pipeline.pipeline, queries_of(pipeline.pipeline), pipeline.spark)
    except ConfigError as error:
        problems += error.problems

    assert [what in each for each in problems if what] == ([True] if what else [])
    assert all("own_query = true" in each for each in problems)


# --- topics that are gone


def test_pipeline_goes_on_without_a_topic_that_is_gone_if_losses_are_allowed(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    other = f"{topic}-b"
    server.create_topic(other)
    for name in (topic, other):
        send(server.address, name, [b"1"] * 4)
    trial(LENIENT, topic=f"{topic},{other}").run()
    with Admin(server.address) as admin:
        admin.topics.delete(other)

    strict = trial(LANDING, topic=f"{topic},{other}")
    with pytest.raises(DataLossError, match=r"offsets from 1 were to be read, nothing is there.*failOnDataLoss=false"):
        strict.run()
    assert f"topic '{other}'" in command("dry-run", strict.file).stderr
    assert command("status", strict.file).exit_code == 0

    send(server.address, topic, [b"2"])
    pipeline = trial(LENIENT, topic=f"{topic},{other}")
    assert command("dry-run", pipeline.file).exit_code == 0
    pipeline.run()
    assert pipeline.rows("raw").count() == 9
    assert command("status", pipeline.file, "--queues").exit_code == 0
    never = trial(LENIENT, topic=f"{topic},{topic}-never")
    assert f"topic '{topic}-never' has no route" in command("dry-run", never.file).stderr


@pytest.mark.thorough_with(allowed="")
@pytest.mark.parametrize("allowed", ["", "failOnDataLoss = false\n"])
def test_sources_on_two_clusters_may_have_topics_of_one_name(
    server: Server, topic: str, trial: Callable[..., Trial], allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cluster has four queues of that name, the other eight: neither is asked for those of the other."""
    module = f"both_{topic.replace('-', '_')}"
    old = LANDING.partition("[steps.raw]")[0].replace("startingOffsets", f"{allowed}startingOffsets")
    new = old.partition("\n\n")[2].replace("sources.orders", "sources.new").replace("{address}", "OTHER")
    step = f'[steps.raw]\nfrom = ["new", "orders"]\ntransform = "{module}:both"\nstateful = true\n'
    with Server() as other:
        other.create_topic(topic, queues=8)
        file = old + new.replace("OTHER", other.address) + step + 'table = {{ format = "delta", path = "raw" }}\n'
        pipeline = trial(file)
        (pipeline.file.parent / f"{module}.py").write_text("def both(new, old):\n    return old.union(new)\n")
        monkeypatch.syspath_prepend(pipeline.file.parent)
        for _ in range(2):
            for address in (server.address, other.address):
                send(address, topic, [b"1"] * 8)
            pipeline.run()
        assert pipeline.rows("raw").count() == 32

        with Admin(other.address) as admin:
            admin.topics.delete(topic)
        with nullcontext() if allowed else pytest.raises(TopicNotFoundError):
            check_sources(pipeline.pipeline, queries_of(pipeline.pipeline))


# --- a driver that dies


@pytest.mark.thorough_with(is_killed=False)
@pytest.mark.parametrize("is_killed", [False, True])
def test_windows_are_closed_although_the_driver_died_when_the_table_had_the_batch(
    server: Server, topic: str, trial: Callable[..., Trial], is_killed: bool
) -> None:
    """Batch 2 both writes a window and brings the order that closes the next one."""
    pipeline = trial(LANDING + REVENUE)
    checkpoint = pipeline.pipeline.state / "checkpoints" / "revenue"

    def order(minute: str) -> None:
        send(server.address, topic, [{"price": 1.0, "at": f"2026-11-16T{minute}:10Z"}])
        pipeline.run()

    empty_batches = "spark.sql.streaming.noDataMicroBatches.enabled"
    pipeline.spark.conf.set(empty_batches, "false")  # else windows are closed in a batch of their own
    try:
        for minute in ("08:00", "08:30", "09:00"):
            order(minute)
        assert pipeline.rows("revenue").count() == 1
        if is_killed:
            for name in ("2", ".2.crc"):
                (checkpoint / "commits" / name).unlink()
        order("09:01")
    finally:
        pipeline.spark.conf.unset(empty_batches)

    begins = [begin.astimezone(UTC) for (begin,) in pipeline.values("revenue", "begins")]  # else in the machine's zone
    assert [begin.strftime("%H:%M") for begin in begins] == ["08:00", "08:30"]


# --- what verify must tell


def test_messages_that_expired_before_they_were_read_are_told_and_not_clean(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    pipeline = trial(LANDING)
    send(server.address, topic, [b"%d" % number for number in range(40)])
    pipeline.run()
    checkpoint = pipeline.pipeline.state / "checkpoints" / "from-orders"
    altered(checkpoint, 1, 0, queues={0: 12}, base={0: 12, 1: 10, 2: 10, 3: 10})
    shutil.copyfile(checkpoint / "commits" / "0", checkpoint / "commits" / "1")
    found = pipeline.verdict()
    result, allowed = command("verify", pipeline.file), command("verify", pipeline.file, "--allow-expired")
    command("report", pipeline.file, "-o", pipeline.file.parent / "page.html")

    assert not found.is_clean
    assert [queue.skipped for queue in found.queues] == [(OffsetSpan(10, 12),), (), (), ()]
    assert (result.exit_code, allowed.exit_code) == (1, 0)
    assert result.stdout.startswith("raw: NOT clean: ")
    assert allowed.stdout.startswith("raw: clean: ")
    for told in (result.stdout, allowed.stdout, (pipeline.file.parent / "page.html").read_text()):
        assert "2 messages had expired before they were read" in told
    assert 'class="ok"' not in (pipeline.file.parent / "page.html").read_text()


def test_messages_that_expired_before_the_first_was_read_are_told(
    trial: Callable[..., Trial], forgetful: Forgetful
) -> None:
    topic = forgetful.cluster.topic(queues=1)
    pipeline = trial(LENIENT, address=forgetful.cluster.name_server, topic=topic)
    pipeline.run()
    low = forgetful.forget(topic)
    pipeline.run()
    found = pipeline.verdict()

    assert [queue.skipped for queue in found.queues] == [(OffsetSpan(0, low),)]
    assert [queue.read[0].start for queue in found.queues] == [low]
    assert not found.is_clean
    assert command("verify", pipeline.file, "--allow-expired").exit_code == 0


def test_messages_that_expired_between_the_plan_of_a_batch_and_its_reading_can_be_put_up_with(
    trial: Callable[..., Trial], forgetful: Forgetful
) -> None:
    address, topic = forgetful.cluster.name_server, forgetful.cluster.topic(queues=1)
    pipeline = trial(LENIENT, address=address, topic=topic)
    send(address, topic, [b"1"] * 3)
    pipeline.run()
    send(address, topic, [b"2"] * 3)
    altered(pipeline.pipeline.state / "checkpoints" / "from-orders", 1, 0, queues={0: 6}, base={0: 3})
    low = forgetful.forget(topic)
    pipeline.run()
    (unasked,), (asked,) = pipeline.verdict().queues, pipeline.verdict(asks_broker=True).queues
    told = command("verify", pipeline.file, "--allow-expired")
    allowed = command("verify", pipeline.file, "--allow-expired", "--ask-broker")

    assert (unasked.gaps, unasked.skipped) == ((OffsetSpan(3, 6),), (OffsetSpan(6, low),))
    assert (asked.gaps, asked.gone, asked.unknown) == ((), (OffsetSpan(3, 6),), ())
    assert not asked.is_clean
    assert (told.exit_code, allowed.exit_code) == (1, 0)
    assert "--ask-broker tells" in told.stdout
    assert f"; {low - 3} messages had expired before they were read, or are missing and gone" in allowed.stdout
    assert "broker-a:0: missing, and gone from the broker by now: 3 (3–5)" in allowed.stdout


def test_step_that_is_added_later_is_compared_with_what_came_since(
    server: Server, topic: str, trial: Callable[..., Trial]
) -> None:
    send(server.address, topic, [b"1"] * 8)
    trial(LANDING).run()
    pipeline = trial(LANDING + COPY)
    for _ in range(2):
        send(server.address, topic, [b"2"] * 4)
        pipeline.run()
    found = pipeline.verdict("copy")
    told = command("verify", pipeline.file).stdout

    assert found.is_clean
    assert (found.offsets, found.rows, found.since, found.batches) == (8, 8, 1, 2)
    assert "raw: clean: 16 offsets of 4 queues, read in 3 batches, are each there once\n" in told
    assert "copy: clean: 8 offsets of 4 queues, read in 2 batches from batch 1 on, when it was added, are each" in told

    DeltaTable(pipeline.pipeline.table("copy").path).delete("queueOffset = 2")
    assert [queue.gaps for queue in pipeline.verdict("copy").queues] == [(OffsetSpan(2, 3),)] * 4
