"""The commands that work with a cluster, as users type them; on Apache's servers, too, in `make interop`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from rocketline import ConsumeFromWhere, SimpleConsumer
from rocketline.cli.commands import rocketline
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import ClientCluster, cluster, wait_until
from support.server_commands import running

__all__ = ["cluster"]

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.fixture
def run(cluster: ClientCluster) -> Any:
    """Run a command against the server; it must succeed."""

    def invoke(*arguments: str, input: str | bytes | None = None) -> Result:
        result = CliRunner(env={"NAMESRV_ADDR": cluster.name_server}).invoke(rocketline, arguments, input=input)
        assert result.exit_code == 0, (arguments, result.output)
        assert result.exception is None
        return result

    return invoke


@pytest.fixture
def fails(cluster: ClientCluster) -> Any:
    """Run a command that must fail; its status and what it complains of."""

    def invoke(*arguments: str, input: str | None = None) -> tuple[int, str]:
        result = CliRunner(env={"NAMESRV_ADDR": cluster.name_server}).invoke(rocketline, arguments, input=input)
        assert result.exit_code, (arguments, result.output)
        assert isinstance(result.exception, SystemExit)
        return result.exit_code, result.stderr

    return invoke


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def wait_for_messages(run: Any, topic: str, count: int) -> None:
    """Apache answers a send before the message is in its queue."""
    wait_until(lambda: sum(row["messages"] for row in rows(run("topic", "queues", topic, "--json"))) == count)


def wait_for_index(cluster: ClientCluster, topic: str, key: str, count: int = 1, *, kind: str = "K") -> None:
    """Apache puts a message into the index after it is in its queue. `kind` is U for the id of a message."""
    first, second = cluster.brokers
    with BrokerQuestions(first) as a, BrokerQuestions(second) as b:
        wait_until(lambda: len(a.by_key(topic, key, kind)) + len(b.by_key(topic, key, kind)) == count)


# --- topics


def test_topic_from_its_making_to_its_end(run: Any, fails: Any, cluster: ClientCluster) -> None:
    made = rows(run("topic", "create", "life", "--queues", "2", "--json"))
    assert made == [{"topic": "life", "queues": 2, "done": list(cluster.brokers), "failed": {}}]

    assert run("topic", "show", "life").stdout.splitlines()[1].split() == [
        "broker-a", cluster.brokers[0], "2", "2", "rw", "no", "–",
    ]  # fmt: skip
    (shown,) = rows(run("topic", "show", "life", "--json"))
    assert (shown["topic"], shown["groups"], [each["permission"] for each in shown["brokers"]]) == (
        "life", [], ["rw", "rw"],
    )  # fmt: skip
    assert [row["queue"] for row in rows(run("topic", "queues", "life", "--json"))] == [0, 1, 0, 1]
    run("topic", "permission", "life", "r")
    assert {row["permission"] for row in rows(run("topic", "route", "life", "--json"))} <= {"r", "rw"}

    status, told = fails("topic", "delete", "life", input="n\n")
    assert (status, "Delete topic life" in told) == (1, True)
    assert run("topic", "delete", "life", "--yes").stdout.startswith("topic life is deleted on ")
    status, told = fails("topic", "delete", "life", "--yes")
    assert status == 1
    assert told.startswith("rocketline: topic 'life' has no route")


def test_topics_of_rocketmq_itself_are_listed_only_when_asked_for(run: Any, cluster: ClientCluster) -> None:
    cluster.make_topic("mine")
    few = {row["topic"] for row in rows(run("topic", "list", "--json"))}
    all_of_them = {row["topic"] for row in rows(run("topic", "list", "--all", "--json"))}
    assert "mine" in few
    assert not few & {"TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX", "DefaultCluster_REPLY_TOPIC"}
    assert few | {"TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX"} <= all_of_them


def test_name_that_no_broker_takes_is_one_clear_line(fails: Any) -> None:
    status, told = fails("topic", "create", "a b")
    assert status == 1
    (line,) = told.splitlines()
    assert line.startswith("rocketline: topic 'a b': ")


def test_broker_that_is_not_there_is_told_with_those_that_are(fails: Any) -> None:
    _, told = fails("topic", "create", "nowhere", "--broker", "broker-z")
    assert "'broker-z'" in told
    assert "broker-a, broker-b" in told


def test_name_server_that_is_not_there_is_one_clear_line(fails: Any) -> None:
    status, told = fails("topic", "list", "-n", "127.0.0.1:1")
    assert (status, len(told.splitlines())) == (1, 1)
    assert told.startswith("rocketline: 127.0.0.1:1: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "create"),
        ("topic", "create", "x", "--attribute", "novalue"),
        ("group", "reset", "g", "t"),
        ("group", "reset", "g", "t", "--to", "end", "--offset", "1"),
        ("group", "reset", "g", "t", "--to", "yesterday"),
        ("group", "reset", "g", "t", "--queue", "broker-a", "--offset", "1"),
        ("group", "mode", "g", "t", "push"),
        ("group", "mode", "g", "t", "--share", "2"),
        ("consume", "t", "--group", "g", "--pop", "--from", "1h"),
        ("message", "find", "t"),
        ("message", "find", "t", "--key", "k", "--tags", "a"),
        ("message", "find", "t", "--begin", "tomorrow"),
        ("send", "t"),
        ("send", "t", "body", "--lines"),
        ("send", "t", "-", "--lines", "--count", "2"),
        ("send", "t", "body", "--property", "color"),
        ("cluster", "kv", "n", "--delete"),
        ("topic", "list", "--access-key", "me"),
    ],
)
def test_wrong_use_has_status_2_and_says_what_is_wrong(fails: Any, arguments: tuple[str, ...]) -> None:
    status, told = fails(*arguments)
    assert status == 2
    assert "Error: " in told


# --- groups


def test_group_from_its_making_to_its_end(run: Any, fails: Any, cluster: ClientCluster) -> None:
    cluster.make_topic("consumed", queues=1, brokers=2)
    run("send", "consumed", "x", "--queue", "broker-a:0", "--count", "3")
    wait_for_messages(run, "consumed", 3)
    run("group", "create", "readers", "--retry-max", "3")
    assert "readers" in [row["group"] for row in rows(run("group", "list", "--json"))]
    (shown,) = rows(run("group", "show", "readers", "--json"))
    assert [each["retry_max"] for each in shown["brokers"]] == [3, 3]

    end = run("group", "reset", "readers", "consumed", "--to", "end").stdout.splitlines()
    assert [line.split() for line in end] == [
        ["topic", "broker", "queue", "offset"], ["consumed", "broker-a", "0", "3"], ["consumed", "broker-b", "0", "0"],
    ]  # fmt: skip
    run("group", "reset", "readers", "consumed", "--queue", "broker-a:0", "--offset", "1")
    lag = {(row["broker"], row["queue"]): row for row in rows(run("group", "lag", "readers", "--json"))}
    assert (lag["broker-a", 0]["lag"], lag["broker-a", 0]["committed_offset"]) == (2, 1)
    assert "lag: 2" in run("group", "lag", "readers", "--topic", "consumed").stdout
    assert {row["group"]: row["lag"] for row in rows(run("group", "lag", "--json"))}["readers"] == 2

    run("group", "create", "copy")
    cloned = rows(run("group", "clone", "readers", "copy", "consumed", "--json"))
    assert [row["offset"] for row in cloned] == [1, 0]
    assert [row["offset"] for row in rows(run("group", "reset", "copy", "consumed", "--to", "1h", "--json"))] == [0, 0]
    assert [row["offset"] for row in rows(run("group", "reset", "copy", "consumed", "--to", "begin", "--json"))] == [
        0,
        0,
    ]

    run("group", "delete", "readers", "--yes")
    run("group", "delete", "copy", "--yes")
    status, told = fails("group", "delete", "readers", "--yes")
    assert (status, told) == (1, "Error: no broker knows the group readers\n")


def test_group_without_members_says_so(run: Any) -> None:
    assert run("group", "connections", "nobody").stderr == "nobody consumes in group nobody now\n"
    (shown,) = rows(run("group", "connections", "nobody", "--json"))
    assert shown["members"] == []
    assert run("group", "producers", "nobody").stderr == "no producer is online\n"


def test_consumer_that_runs_is_shown(run: Any, cluster: ClientCluster, tmp_path: Path) -> None:
    cluster.make_topic("watched", queues=1, brokers=2)
    run("send", "watched", "x", "--queue", "broker-a:0")
    arguments = ("consume", "watched", "--group", "watchers", "--from", "first", "--body", "-n", cluster.name_server)
    with running(tmp_path, *arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "x\n"
        (shown,) = rows(run("group", "connections", "watchers", "--json"))
        (member,) = shown["members"]
        assert (shown["subscriptions"], member["language"], member["version"]) == ({"watched": "*"}, "PYTHON", "5.5.0")
        lines = run("group", "connections", "watchers").stdout.splitlines()
        assert lines[1].startswith(member["client_id"])
        assert lines[2:] == ["CONSUME_ACTIVELY, CLUSTERING", "  watched  *"]

        (info,) = rows(run("group", "running", "watchers", member["client_id"], "--stacks", "--json"))
        assert {(each["broker"], each["queue"]) for each in info["queues"]} == {("broker-a", 0), ("broker-b", 0)}
        assert info["options"]["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert "watched" in run("group", "running", "watchers", member["client_id"]).stdout
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert rows(run("group", "connections", "watchers", "--json"))[0]["members"] == []


def test_consumer_that_is_not_there_is_told(fails: Any) -> None:
    status, told = fails("group", "running", "nobody", "nothing")
    assert (status, len(told.splitlines())) == (1, 1)
    assert told.startswith("rocketline: consumer 'nothing' of group 'nobody' does not answer: ")


# --- messages


def test_message_is_sent_found_watched_and_sent_again(run: Any, fails: Any, cluster: ClientCluster) -> None:
    cluster.make_topic("orders", queues=2, brokers=2)
    (sent,) = rows(run("send", "orders", "two teapots", "--tag", "new", "--key", "42", "--property", "a=b", "--json"))
    place = f"{sent['broker']}:{sent['queue']}"
    wait_for_index(cluster, "orders", "42")

    (found,) = rows(run("message", "get", "orders", sent["message_id"], "--json"))
    assert (found["body"], found["tags"], found["keys"], found["properties"]["a"]) == (
        "two teapots",
        "new",
        ["42"],
        "b",
    )
    assert rows(run("message", "at", "orders", place, str(sent["queue_offset"]), "--json"))[0]["body"] == "two teapots"
    assert run("message", "get", "orders", found["offset_message_id"], "--body").stdout == "two teapots"
    assert "two teapots" in run("message", "find", "orders", "--key", "42").stdout
    assert rows(run("message", "find", "orders", "--begin", "1h", "--tags", "old", "--json")) == []
    assert [row["body"] for row in rows(run("tail", "orders", "--json"))] == ["two teapots"]
    line = run("tail", "orders", "--tag", "new").stdout
    assert line.rstrip().endswith(f"  {place}:{sent['queue_offset']}  [new] #42  two teapots")
    assert run("tail", "orders", "--body").stdout == "two teapots\n"

    (again,) = rows(run("message", "resend", "orders", sent["message_id"], "--json"))
    assert again["message_id"] != sent["message_id"]
    wait_for_index(cluster, "orders", "42", 2)
    assert len(rows(run("message", "find", "orders", "--key", "42", "--json"))) == 2
    status, told = fails("message", "find", "orders", "--key", "43")
    assert (status, told.startswith("rocketline: topic 'orders' has no message with the key '43'")) == (1, True)


def test_messages_are_chosen_by_sql(run: Any, fails: Any, cluster: ClientCluster) -> None:
    """S228, S240: by `tail` and by `consume`."""
    topic = cluster.topic(queues=1)
    for price in range(8):
        tag = "new" if price % 2 else "old"
        run("send", topic, f"for {price}", "--property", f"price={price}", "--tag", tag, "--queue", "broker-a:0")
    wait_for_messages(run, topic, 8)
    wanted = "price > 2 AND TAGS = 'new'"
    assert run("tail", topic, "--body", "--sql", wanted).stdout == "for 3\nfor 5\nfor 7\n"
    consuming = ("consume", topic, "--group", cluster.group(), "--from", "first", "--limit", "3", "--body")
    assert run(*consuming, "--sql", wanted).stdout == "for 3\nfor 5\nfor 7\n"
    for command in (("tail", topic), consuming):
        status, problem = fails(*command, "--sql", "price != 5")
        assert (status, "unequal is written <>" in problem) == (1, True)
        status, problem = fails(*command, "--sql", wanted, "--tag", "new")
        assert (status, "exclude each other" in problem) == (2, True)


def test_messages_for_later_are_sent_looked_at_and_called_back(run: Any, fails: Any, cluster: ClientCluster) -> None:
    """S154: on either broker."""
    topic = cluster.topic(queues=1)

    def waiting() -> int:
        found = [row for row in rows(run("timer", "status", "--json")) if row.get("topic") == topic]
        return sum(row["waiting"] for row in found)

    handles = [
        rows(run("send", topic, "later", *when, "--json"))[0]["recall_handle"]
        for when in (("--after", "90m"), ("--after", "2h"), ("--after", "1d"))
    ]
    wait_until(lambda: waiting() == 3)
    shown = run("timer", "status").stdout
    assert topic in shown
    assert "█" in shown
    for handle in handles:
        assert run("message", "recall", topic, handle).stdout.startswith("called back ")
    wait_until(lambda: waiting() == 0)
    status, problem = fails("message", "recall", topic, "garbage")
    assert (status, "recall handle 'garbage'" in problem) == (1, True)
    status, problem = fails("send", topic, "x", "--at", "soon")
    assert (status, "'soon' is no moment" in problem) == (2, True)
    status, problem = fails("send", topic, "x", "--at", "2100-01-01T00:00Z")
    assert (status, "code 13" in problem) == (1, True)
    assert fails("send", topic, "x", "--after", "1h", "--delay-level", "3")[0] == 1


def test_follower_shows_what_comes_until_it_is_interrupted(run: Any, cluster: ClientCluster, tmp_path: Path) -> None:
    cluster.make_topic("followed", queues=1, brokers=2)
    run("send", "followed", "old")
    arguments = ("tail", "followed", "--follow", "--body", "-n", cluster.name_server)
    with running(tmp_path, *arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "old\n"
        run("send", "followed", "new")
        assert process.stdout.readline() == "new\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    assert (process.returncode, output, errors) == (0, "", "")


def test_follower_ends_quietly_when_nobody_reads_on(run: Any, cluster: ClientCluster, tmp_path: Path) -> None:
    cluster.make_topic("piped", queues=1, brokers=2)
    run("send", "piped", "old")
    with running(tmp_path, "tail", "piped", "--follow", "--body", "-n", cluster.name_server) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "old\n"
        process.stdout.close()
        run("send", "piped", "new")
        assert process.stderr.read() == ""
        assert process.wait() == 1


def test_lines_of_a_pipe_are_messages_and_empty_ones_are_none(run: Any, cluster: ClientCluster) -> None:
    cluster.make_topic("logs", queues=1, brokers=2)
    assert len(rows(run("send", "logs", "-", "--lines", "--json", input="one\r\n\ntwo\nthree"))) == 3
    wait_for_messages(run, "logs", 3)
    bodies = run("tail", "logs", "--body").stdout.splitlines()
    assert sorted(bodies) == ["one", "three", "two"]


def test_body_of_a_file_is_sent_byte_by_byte(run: Any, cluster: ClientCluster, tmp_path: Path) -> None:
    cluster.make_topic("files", queues=1, brokers=2)
    file = tmp_path / "body"
    file.write_bytes(bytes(range(256)))
    (sent,) = rows(run("send", "files", "--file", str(file), "--json"))
    wait_for_index(cluster, "files", sent["message_id"], kind="U")

    (found,) = rows(run("message", "get", "files", sent["message_id"], "--json"))
    assert "body" not in found
    assert found["body_base64"].startswith("AAECAwQF")
    assert run("message", "get", "files", sent["message_id"], "--body").stdout_bytes == file.read_bytes()
    assert run("tail", "files").stdout.rstrip().endswith("<256 bytes>")


def test_sum_of_many_messages_is_told_in_one_line(run: Any, cluster: ClientCluster) -> None:
    cluster.make_topic("many", queues=1, brokers=2)
    (line,) = run("send", "many", "x", "--count", "25").stdout.splitlines()
    assert line.startswith("25 messages in ")
    wait_for_messages(run, "many", 25)
    assert sum(row["messages"] for row in rows(run("topic", "queues", "many", "--json"))) == 25


def test_what_was_shown_is_consumed_for_the_group_and_nothing_else_is(
    run: Any, fails: Any, cluster: ClientCluster
) -> None:
    cluster.make_topic("queue", queues=1, brokers=2)
    run("send", "queue", "-", "--lines", "--queue", "broker-a:0", input="\n".join(map(str, range(25))))
    wait_for_messages(run, "queue", 25)

    first = run("consume", "queue", "--group", "audit", "--from", "first", "--limit", "13", "--body").stdout
    assert first.splitlines() == [str(number) for number in range(13)]
    assert [(row["broker"], row["lag"]) for row in rows(run("group", "lag", "audit", "--json"))] == [("broker-a", 12)]
    rest = rows(run("consume", "queue", "--group", "audit", "--idle", "3", "--json"))
    assert [row["body"] for row in rest] == [str(number) for number in range(13, 25)]

    status, told = fails("consume", "nothing-there", "--group", "audit")
    assert (status, told.startswith("rocketline: topic 'nothing-there' has no route")) == (1, True)


def test_group_is_told_to_pop_and_to_pull_again(run: Any, fails: Any, cluster: ClientCluster) -> None:
    """S186."""
    topic, group = cluster.topic(queues=1, brokers=2), cluster.group()

    def told() -> list[tuple[str, str | None, int | None]]:
        return [
            (row["broker"], row["mode"], row["share"]) for row in rows(run("group", "mode", group, topic, "--json"))
        ]

    assert told() == [("broker-a", None, None), ("broker-b", None, None)]
    (made,) = rows(run("group", "mode", group, topic, "pop", "--share", "2", "--json"))
    assert (made["mode"], sorted(made["done"])) == ("pop", sorted(cluster.brokers))
    assert told() == [("broker-a", "pop", 2), ("broker-b", "pop", 2)]
    assert run("group", "mode", group, topic, "pull").stdout.startswith(f"group {group} is told to pull {topic} on ")
    shown = run("group", "mode", group, topic).stdout.splitlines()
    assert [line.split() for line in shown[:2]] == [
        ["broker", "address", "mode", "share"], ["broker-a", cluster.brokers[0], "pull", "0"],
    ]  # fmt: skip
    assert fails("group", "mode", group, "no-such-topic")[0] == 1


def test_messages_in_flight_are_told_until_they_are_acknowledged(run: Any, cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1, brokers=2), cluster.group()
    run("send", topic, "-", "--lines", "--queue", "broker-a:0", input="\n".join(map(str, range(5))))
    wait_for_messages(run, topic, 5)

    def in_flight() -> list[dict[str, Any]]:
        return rows(run("group", "inflight", group, "--json"))

    with SimpleConsumer(cluster.name_server, group=group, consume_from=FIRST) as worker:
        worker.subscribe(topic)
        first, second, *others = worker.receive(5, 600)
        wait_until(lambda: [row["in_flight"] for row in in_flight()] == [5])
        worker.ack(first)
        worker.ack(others)
        worker.extend(second, 1200)
        wait_until(lambda: [row["in_flight"] for row in in_flight()] == [1])
        (row,) = in_flight()
        assert (row["topic"], row["broker"], row["queue"]) == (topic, "broker-a", 0)
        assert row["visible_ms"] == row["last_visible_ms"] == row["popped_ms"] + 1_200_000
        assert run("group", "inflight", group).stdout.splitlines()[-1] == "in flight: 1"
        assert "raise --limit" in run("group", "inflight", group, "--limit", "1").stderr
        worker.ack(second)
        wait_until(lambda: in_flight() == [])
    assert run("group", "inflight", group).stderr.startswith(f"group {group} has popped nothing ")


def test_message_that_comes_again_is_in_flight_no_more_until_it_is_popped(run: Any, cluster: ClientCluster) -> None:
    """The revive topic's records tell so: those of timers are there for days."""
    topic, group = cluster.topic(queues=1, brokers=2), cluster.group()
    run("send", topic, "again", "--queue", "broker-a:0")
    wait_for_messages(run, topic, 1)

    def in_flight() -> list[tuple[str, int]]:
        return [(row["topic"], row["in_flight"]) for row in rows(run("group", "inflight", group, "--json"))]

    with SimpleConsumer(cluster.name_server, group=group, consume_from=FIRST) as worker:
        worker.subscribe(topic)
        assert len(worker.receive(1, 3)) == 1
        wait_until(lambda: in_flight() == [(topic, 1)])
        wait_until(lambda: in_flight() == [])
        (again,) = worker.receive(1, 600)
        assert again.attempt == 2
        wait_until(lambda: in_flight() == [(f"%RETRY%{group}_{topic}", 1)])
        worker.ack(again)
        wait_until(lambda: in_flight() == [])


def test_popped_messages_that_were_shown_are_acknowledged(run: Any, cluster: ClientCluster, tmp_path: Path) -> None:
    topic, group = cluster.topic(queues=1, brokers=2), cluster.group()
    run("send", topic, "-", "--lines", "--queue", "broker-a:0", input="\n".join(map(str, range(5))))
    wait_for_messages(run, topic, 5)
    popping = ("consume", topic, "--group", group, "--pop", "--from", "first")

    assert sorted(run(*popping, "--limit", "3", "--body").stdout.splitlines()) == ["0", "1", "2"]
    with running(tmp_path, *popping, "--body", "-n", cluster.name_server) as process:
        assert process.stdout is not None
        assert sorted(process.stdout.readline() for _ in range(2)) == ["3\n", "4\n"]
        run("send", topic, "last", "--queue", "broker-a:0")
        assert process.stdout.readline() == "last\n"  # those before it are acknowledged
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
    assert process.returncode == 0
    assert {row["body"] for row in rows(run(*popping, "--idle", "1", "--json"))} <= {"last"}


def test_failed_send_is_one_clear_line(fails: Any) -> None:
    status, told = fails("send", "SCHEDULE_TOPIC_XXXX", "x")
    assert (status, len(told.splitlines())) == (1, 1)
    assert told.startswith("rocketline: topic 'SCHEDULE_TOPIC_XXXX'")


# --- brokers and name servers


def test_cluster_is_shown_and_set_up(run: Any, fails: Any, cluster: ClientCluster) -> None:
    shown = rows(run("cluster", "show", "--json"))
    assert [(row["broker"], row["version"], row["problem"]) for row in shown] == [
        ("broker-a", "V5_5_0", None), ("broker-b", "V5_5_0", None),
    ]  # fmt: skip
    assert run("cluster", "show").stdout.splitlines()[0].split()[:2] == ["cluster", "broker"]
    assert [row["role"] for row in rows(run("cluster", "brokers", "--json"))] == ["master", "master"]
    assert rows(run("cluster", "stats", "broker-a", "--json"))[0]["brokerVersionDesc"] == "V5_5_0"

    assert run("cluster", "set", "broker-b", "maxMessageSize", "4000000").stdout == (
        f"maxMessageSize is 4000000 on {cluster.brokers[1]}\n"
    )
    (config,) = rows(run("cluster", "config", "broker-b", "maxMessageSize", "--json"))
    assert config == {"address": cluster.brokers[1], "maxMessageSize": "4000000"}
    assert fails("cluster", "config", "broker-b", "nothing") == (1, "Error: broker broker-b has no setting nothing\n")
    status, told = fails("cluster", "set", "broker-b", "brokerConfigPath", "/x")
    assert (status, "code 16" in told) == (1, True)
    assert run("cluster", "clean", "expired-logs").stdout.startswith("expired-logs cleaned on ")


def test_name_servers_are_shown_and_keep_texts(run: Any, cluster: ClientCluster) -> None:
    assert rows(run("cluster", "name-servers", "productEnvName", "--json")) == [
        {"address": cluster.name_server, "productEnvName": "center"}
    ]
    run("cluster", "kv", "tests", "key", "a value")
    assert rows(run("cluster", "kv", "tests", "--json")) == [{"key": "key", "value": "a value"}]
    run("cluster", "kv", "tests", "key", "--delete")
    assert run("cluster", "kv", "tests").stderr == "tests has no such text\n"
    assert rows(run("cluster", "writes", "broker-b", "forbid", "--json"))[0]["topics"] > 0
    assert rows(run("cluster", "writes", "broker-b", "allow", "--json"))[0]["topics"] > 0


# --- help


def _all_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from _all_commands(command, (*path, name))


@pytest.mark.parametrize("path", list(_all_commands(rocketline)), ids=" ".join)
def test_help_of_every_command_fits_a_terminal_and_has_no_clashing_names(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(rocketline, [*path, "--help"], terminal_width=80)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if len(line) > 84] == []
