"""Requests and replies with Apache's clients on either end, on our broker and on Apache's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from rocketline import ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage, Reply, reply
from rocketline.testing.apache import Release
from rocketline.testing.clients import ClientProgram, Portion, Watcher, go_client, java_client
from support.clients import clusters as client_clusters
from support.clients.clusters import ClientCluster, wait_until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(180, func_only=True),
    pytest.mark.thorough_with(servers="apache"),
]

EACH = 20
_PATIENCE_S = 30.0
FIRST = 40
"""Number 50 is among those that are asked: it, and its reply, are compressed."""


@pytest.fixture(scope="module", params=["ours", "apache"])
def servers(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCluster]:
    if request.param == "ours":
        with client_clusters.our_cluster() as cluster:
            yield cluster
    else:
        with client_clusters.apache_cluster(release, tmp_path_factory.mktemp("servers")) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def programs(release: Release, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ClientProgram]:
    home: Callable[[str], Path] = tmp_path_factory.mktemp
    return {each.name: each for each in (java_client(release, home("java")), go_client(home("go")))}


def answer(message: ReceivedMessage) -> Reply:
    return reply(message, b"re:" + message.body)


def test_foreign_requesters_get_the_replies_of_our_handler(
    servers: ClientCluster, programs: dict[str, ClientProgram]
) -> None:
    """S207, C117. Go is known to brokers half a minute after its start, and meanwhile Java asks."""
    topic = servers.topic()
    portion = Portion("request", FIRST, EACH)
    with (
        PushConsumer(
            servers.name_server, group=f"repliers-{topic}", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        ) as consumer,
        ThreadPoolExecutor() as threads,
    ):
        consumer.subscribe(topic, "*", answer)
        asking = {
            name: threads.submit(program.send, servers.name_server, topic, portion)
            for name, program in programs.items()
        }
        for name, sent in asking.items():
            assert sent.result() == (EACH, 0, ""), name


@pytest.mark.parametrize("replier", ["Java", "Go"])
def test_our_requests_get_the_replies_of_foreign_consumers(
    servers: ClientCluster, programs: dict[str, ClientProgram], replier: str
) -> None:
    """C114, S207. Go marks its long replies as compressed, and sends them as they are."""
    topic, group = servers.topic(), servers.group()
    with (
        Watcher(programs[replier], servers.name_server, topic, group, mode="reply") as watcher,
        Producer(servers.name_server, group=f"askers-{topic}") as producer,
    ):
        watcher.wait_until_ready()
        for number in range(FIRST, FIRST + EACH):
            body = (b"%d/0" % number).ljust(5000 if number == 50 else 0)
            assert producer.request(Message(topic, body), timeout_s=_PATIENCE_S).body == b"re:" + body
        assert producer.reply_counts.waiting == 0


def test_java_and_ours_in_one_group_share_the_requests(
    servers: ClientCluster, programs: dict[str, ClientProgram]
) -> None:
    """C117: each replies to those of its queues, and every request has its reply."""
    topic, group = servers.topic(), servers.group()
    ours: list[bytes] = []

    def answer_and_note(message: ReceivedMessage) -> Reply:
        ours.append(message.body)
        return answer(message)

    with (
        Watcher(programs["Java"], servers.name_server, topic, group, mode="reply") as watcher,
        PushConsumer(servers.name_server, group=group) as consumer,
        Producer(servers.name_server, group=f"askers-{topic}") as producer,
    ):
        consumer.subscribe(topic, "*", answer_and_note)
        watcher.wait_until_ready()
        numbers = count()

        def is_shared() -> bool:
            """Some more requests: both members have replied to some of these."""
            asked = [b"%d/0" % next(numbers) for _ in range(EACH)]
            for body in asked:
                assert producer.request(Message(topic, body), timeout_s=_PATIENCE_S).body == b"re:" + body
            return 0 < len(set(asked) & set(ours)) < EACH

        wait_until(is_shared, 2 * _PATIENCE_S)
