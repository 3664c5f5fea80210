"""`rocketline pipeline replay`, `status`, `dry-run`, `report` and `export-sdp`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketline import Message, Producer
from rocketline.testing import Server
from support.pipelines.files import CHAIN, LANDING, written
from support.pipelines.runs import Trial, command, messages, send

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python

ORIGIN = "spark-commands"


@pytest.fixture(scope="module")
def landed(spark: SparkSession, lasting_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Twelve messages, landed once for all tests that only look at them."""
    lasting_server.create_topic(ORIGIN)
    trial = Trial(
        spark, written(tmp_path_factory.mktemp("landed"), LANDING, address=lasting_server.address, topic=ORIGIN)
    )
    send(lasting_server.address, ORIGIN, [b"%d" % number for number in range(12)], tags=["new", "old"])
    trial.run()
    return trial


def test_replay_of_a_table_sends_messages_as_they_were_and_in_order(landed: Trial, server: Server, topic: str) -> None:
    again = f"{topic}-again"
    server.create_topic(again)
    result = command("replay", landed.file, "--step", "raw", "--to", again, "--json")
    first, second = (messages(landed.spark, server.address, name) for name in (ORIGIN, again))

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"topic": again, "sent": 12}
    originals = {row.msgId: row for row in first}
    for row in second:
        original = originals[row.properties["REPLAY_OF"]]
        assert (row.body, row.tags, row.keys) == (original.body, original.tags, original.keys)
        assert row.properties["number"] == original.properties["number"]
        assert row.msgId != original.msgId
    order = [(row.queueId, originals[row.properties["REPLAY_OF"]]) for row in second]
    for queue in {queue for queue, _ in order}:
        offsets = [row.queueOffset for at, row in order if at == queue]
        assert offsets == sorted(offsets)


def test_replay_keeps_flags_where_the_table_has_them(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    module, again = f"flags_{topic.replace('-', '_')}", f"{topic}-again"
    server.create_topic(again, queues=1)
    (tmp_path / f"{module}.py").write_text("def without(rows):\n    return rows.drop('flag')\n")
    bare = (
        f'[steps.bare]\nfrom = "orders"\ntransform = "{module}:without"\n'
        'table = {{ format = "delta", path = "bare" }}\n'
    )
    trial = Trial(spark, written(tmp_path, LANDING + bare, address=server.address, topic=topic))
    with Producer(server.address, group="flags") as producer:
        producer.send(Message(topic, b"x", flag=7))
    trial.run()
    for origin in (("--step", "raw"), ("--topic", topic), ("--step", "bare")):
        assert command("replay", trial.file, *origin, "--to", again).exit_code == 0

    assert [row.flag for row in messages(spark, server.address, again)] == [7, 7, 0]


def test_replay_of_a_time_range_of_a_topic_leaves_out_the_rest(landed: Trial, server: Server, topic: str) -> None:
    again = f"{topic}-again"
    server.create_topic(again)
    stored = [round(row.storeTimestamp.timestamp() * 1000) for row in messages(landed.spark, server.address, ORIGIN)]
    words = ("replay", landed.file, "--topic", ORIGIN, "--to", again)
    everything = command(*words, "--since", min(stored), "--until", max(stored) + 1)
    nothing = command(*words, "--since", max(stored) + 1)

    assert (everything.exit_code, nothing.exit_code) == (0, 0)
    assert "12 messages sent" in everything.stdout
    assert "0 messages sent" in nothing.stdout


def test_replay_of_a_side_table_sends_what_was_set_aside_as_it_came(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    again = f"{topic}-again"
    server.create_topic(again)
    rule = 'expect = [{{ name = "even", that = "body <> \'odd\'" }}]\nquarantine = {{ format = "delta", path = "q" }}\n'
    trial = Trial(spark, written(tmp_path, LANDING + rule, address=server.address, topic=topic))
    send(server.address, topic, [b"even", b"odd"], tags=["new"])
    trial.run()
    result = command("replay", trial.file, "--step", "raw.quarantine", "--to", again, "--rate", 5)
    (row,) = messages(spark, server.address, again)

    assert result.exit_code == 0
    assert (row.body, row.tags, row.keys) == (b"odd", "new", "key-1")


def test_replay_to_a_topic_that_is_not_there_is_told_before_any_task(landed: Trial) -> None:
    result = command("replay", landed.file, "--step", "raw", "--to", "nobody-made-it")

    assert result.exit_code == 1
    assert "nobody-made-it" in result.stderr.splitlines()[-1]
    assert "Starting Spark" not in result.stderr


def test_large_table_is_sent_in_pieces_that_the_driver_can_hold_and_in_order(
    landed: Trial, server: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = f"{topic}-again"
    server.create_topic(again, queues=1)
    monkeypatch.setattr("rocketline.pipelines.replay._PIECE_ROWS", 3)
    result = command("replay", landed.file, "--step", "raw", "--to", again, "--rate", 100)
    first, second = (messages(landed.spark, server.address, name) for name in (ORIGIN, again))

    assert result.exit_code == 0
    sent = {row.msgId: (row.queueId, row.queueOffset) for row in first}
    order = [sent[row.properties["REPLAY_OF"]] for row in second]
    assert len(order) == len(first)
    for queue in range(4):
        assert [offset for at, offset in order if at == queue] == sorted(offset for at, offset in order if at == queue)


def test_replay_needs_one_origin_that_is_there(landed: Trial) -> None:
    assert "say what to send" in command("replay", landed.file, "--to", "x").stderr
    assert "there is no step 'rwa'" in command("replay", landed.file, "--to", "x", "--step", "rwa").stderr


@pytest.mark.usefixtures("spark")
@pytest.mark.thorough_with(format="delta")
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_dry_run_tells_queries_and_columns_and_changes_nothing(
    server: Server, topic: str, tmp_path: Path, format: str
) -> None:
    file = written(tmp_path, CHAIN, address=server.address, topic=topic, format=format)
    result = command("dry-run", file, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 0
    assert [(row["query"], row["writes"]) for row in rows] == [
        ("from-orders", "raw"),
        ("from-orders", "clean.quarantine"),
        ("clean", "clean"),
        ("revenue", "revenue"),
    ]
    assert rows[3]["columns"] == "begins:timestamp,ends:timestamp,revenue:double"
    assert [path.name for path in tmp_path.iterdir() if path.name != "orders-state"] == ["orders.toml"]


@pytest.mark.usefixtures("spark")
def test_whatever_is_wrong_is_one_line_on_standard_error(server: Server, topic: str, tmp_path: Path) -> None:
    file = written(tmp_path, LANDING.replace("startingOffsets", "startngOffsets"), address=server.address, topic=topic)
    for words in (["run"], ["dry-run"], ["verify"], ["status"], ["report"]):
        result = command(*words, file)
        assert result.exit_code == 2
        assert result.stderr == (
            "rocketline: orders.toml: sources.orders: "
            "there is no option startngoffsets: did you mean startingOffsets?\n"
        )
    unknown = written(tmp_path, LANDING, address=server.address, topic="nobody-made-it")
    result = command("run", unknown)
    assert result.exit_code == 1
    assert "topic 'nobody-made-it' has no route" in result.stderr.splitlines()[-1]


def test_report_is_one_page_about_the_run(landed: Trial, tmp_path: Path) -> None:
    result = command("report", landed.file, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()

    assert result.exit_code == 0
    assert result.stdout.strip() == str(tmp_path / "page.html")
    assert "raw: clean: 12 offsets" in page
    assert "<polyline" in page
    assert "from-orders" in page


def test_status_tells_batches_offsets_and_lag(landed: Trial, server: Server) -> None:
    send(server.address, ORIGIN, [b"more"] * 3)
    query = json.loads(command("status", landed.file, "--json").stdout)
    queues = [json.loads(line) for line in command("status", landed.file, "--queues", "--json").stdout.splitlines()]

    assert (query["query"], query["batches"], query["is_batch_open"], query["lag"]) == ("from-orders", 1, False, 3)
    assert query["last_rows"] == 12
    assert len(queues) == 4
    assert sum(each["offset"] for each in queues) == 12
    assert sum(each["end"] for each in queues) == 15
    assert sum(each["lag"] for each in queues) == 3
    offline = json.loads(command("status", landed.file, "--json", "--offline").stdout)
    assert offline["lag"] is None
