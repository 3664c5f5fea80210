"""Must hold 2 of POP: gRPC clients through Apache's proxy, with our servers behind it.

PyPI's client and Apache's Java client live each scenario at the same time, through one proxy; so do both with Apache's
own servers behind it, which says what to expect.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from rocketline.client.sync.producer import Producer
from rocketline.model.message import Message
from rocketline.model.names import dlq_topic
from rocketline.testing.apache import ApacheProxy, Release
from rocketline.testing.clients import GrpcCallError, GrpcClient, GrpcMessage, java_grpc_client, python_grpc_client
from support.clients import clusters as client_clusters
from support.clients.clusters import SHORT, ClientCluster, wait_until
from support.clients.topic_contents import queue_contents

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120, func_only=True)]

HASTY: Final = {
    "minInvisibleTimeMillsForRecv": 1_000,
    "grpcClientConsumerMinLongPollingTimeoutMillis": 1_000,
    "transactionHeartbeatPeriodSecond": 1,
}
"""What takes ten, five and twenty seconds by itself."""


@pytest.fixture(
    scope="module",
    params=[
        "ours",
        pytest.param("merging", marks=pytest.mark.thorough),
        pytest.param("apache", marks=pytest.mark.thorough),
    ],
)
def servers(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCluster]:
    if request.param == "apache":
        with client_clusters.apache_cluster(release, tmp_path_factory.mktemp("servers")) as cluster:
            yield cluster
    else:
        merge = {"enablePopBufferMerge": str(request.param == "merging").lower()}
        with client_clusters.our_cluster({**SHORT, **merge}) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def clients(
    servers: ClientCluster, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[GrpcClient]]:
    home = tmp_path_factory.mktemp("grpc")
    with (
        ApacheProxy(release, home / "proxy", name_servers=[servers.name_server], settings=HASTY) as proxy,
        java_grpc_client(home / "java", proxy.address) as java,
        python_grpc_client(home / "python", proxy.address) as python,
    ):
        yield java, python


def live(clients: Sequence[GrpcClient], scenario: Callable[[GrpcClient], None]) -> None:
    """Each client lives it in a thread: they mostly wait."""
    with ThreadPoolExecutor(len(clients)) as pool:
        lives = [(client, pool.submit(scenario, client)) for client in clients]
    for client, life in lives:
        if (problem := life.exception()) is not None:
            problem.add_note(f"with the client for {client.name}")
            raise problem


def receive(
    client: GrpcClient, topic: str, group: str, count: int, *, invisible_s: int = 30, tags: str = "*"
) -> list[GrpcMessage]:
    """So many messages, by as many calls as it takes."""
    received: list[GrpcMessage] = []

    def enough() -> bool:
        received.extend(client.receive(topic, group, invisible_s=invisible_s, tags=tags))
        return len(received) >= count

    wait_until(enough)
    return received


def numbers(received: Sequence[GrpcMessage]) -> Counter[tuple[str, int]]:
    return Counter((one.body, one.attempt) for one in received)


def test_messages_of_either_client_reach_the_other_and_ours(
    servers: ClientCluster, clients: Sequence[GrpcClient]
) -> None:
    topic = servers.topic("exchanged", brokers=2)
    properties = {"Straße": "日本 🚀"}
    large = "x" * 5_000  # beyond 4,096 bytes a producer of the remoting protocol compresses
    for client in clients:
        for tag in ("first", "second", "third"):
            client.send(topic, f"{client.name} {tag}", tag=tag, key=f"of-{client.name}", properties=properties)
    with Producer(servers.name_server, group="senders") as producer:
        producer.send(Message(topic, large.encode(), tags="first", keys=["of-ours"], properties=properties))
    names = [client.name for client in clients]
    sent = {(f"{name} {tag}", tag, f"of-{name}") for name in names for tag in ("first", "second")}
    sent.add((large, "first", "of-ours"))
    for client in clients:
        received = receive(client, topic, servers.group(), 5, tags="first || second")
        assert {(one.body, one.tag, *one.keys) for one in received} == sent
        assert all(one.properties == properties and one.attempt == 1 for one in received)
    own = [
        message for messages in queue_contents(servers.name_server, topic, expected=7).values() for message in messages
    ]
    assert {(one.body.decode(), one.tags, *one.keys) for one in own if one.tags != "third"} == sent
    assert all(one.properties["Straße"] == properties["Straße"] for one in own)


def test_what_is_acked_is_done_and_the_rest_comes_again(servers: ClientCluster, clients: Sequence[GrpcClient]) -> None:
    def scenario(client: GrpcClient) -> None:
        topic, group = servers.topic("acked"), servers.group()
        for body in ("done", "left", "done too", "left too"):
            client.send(topic, body)
        first = receive(client, topic, group, 4, invisible_s=2)
        for message in first:
            if message.body.startswith("done"):
                client.ack(message)
        again = receive(client, topic, group, 2)
        assert numbers(again) == Counter([("left", 2), ("left too", 2)])
        assert {one.id for one in again} == {one.id for one in first if one.body.startswith("left")}
        left = next(one for one in first if one.body == "left")
        with pytest.raises(GrpcCallError, match="40013"):
            client.ack(left)
        for message in again:
            client.ack(message)

    live(clients, scenario)


def test_invisible_time_becomes_shorter_and_longer(servers: ClientCluster, clients: Sequence[GrpcClient]) -> None:
    def scenario(client: GrpcClient) -> None:
        topic, group = servers.topic("changed"), servers.group()
        for body in ("kept", "longer", "shorter"):
            client.send(topic, body)
        first = {one.body: one for one in receive(client, topic, group, 3, invisible_s=3)}
        client.change_invisible(first["longer"], 60)
        client.change_invisible(first["shorter"], 1)
        again = receive(client, topic, group, 2)
        assert [(one.body, one.attempt) for one in again] == [("shorter", 2), ("kept", 2)]
        client.ack(first["longer"])  # by the handle that the change gave

    live(clients, scenario)


def test_push_consumer_has_failed_messages_again_until_they_are_dead(
    servers: ClientCluster, clients: Sequence[GrpcClient]
) -> None:
    def scenario(client: GrpcClient) -> None:
        topic, doomed = servers.topic("pushed", brokers=2), servers.topic("doomed", brokers=2)
        group = servers.group(retry_max_times=0)
        servers.make_topic(dlq_topic(group), queues=1, brokers=2)
        client.push(topic, servers.group())
        client.push(doomed, group)
        for body in ("0/0", "1/1", "2/1"):
            client.send(topic, body)
        client.send(doomed, "3/1")
        wait_until(lambda: len(client.pushed(topic)) >= 5)
        (dead,) = itertools.chain(*queue_contents(servers.name_server, dlq_topic(group), expected=1).values())
        assert dead.body == b"3/1"
        assert numbers(client.pushed(topic)) == Counter([("0/0", 1), *itertools.product(("1/1", "2/1"), (1, 2))])
        assert numbers(client.pushed(doomed)) == Counter([("3/1", 1)])

    live(clients, scenario)


def test_both_clients_in_one_group_share_every_message(servers: ClientCluster, clients: Sequence[GrpcClient]) -> None:
    topic, group = servers.topic("shared", brokers=2), servers.group()
    for client in clients:
        client.push(topic, group)

    def send(client: GrpcClient) -> None:
        for number in range(100):
            client.send(topic, f"{client.name} {number}/{int(number % 10 == 0)}")

    live(clients, send)
    wait_until(lambda: sum(len(client.pushed(topic)) for client in clients) >= 220)
    expected = Counter((f"{client.name} {number}", 1) for client in clients for number in range(100))
    expected.update((f"{client.name} {number}", 2) for client in clients for number in range(0, 100, 10))
    pushed = [one for client in clients for one in client.pushed(topic)]
    assert Counter((one.body.split("/")[0], one.attempt) for one in pushed) == expected


def test_message_groups_come_in_their_order(servers: ClientCluster, clients: Sequence[GrpcClient]) -> None:
    def scenario(client: GrpcClient) -> None:
        topic = servers.topic("ordered", brokers=2, attributes="+message.type=FIFO")
        client.push(topic, servers.group(orderly=True))
        for number in range(24):
            client.send(topic, f"{number}/{int(number == 5)}", message_group=f"group-{number % 3}")
        wait_until(lambda: len(client.pushed(topic)) >= 25)
        order = defaultdict(list)
        for one in client.pushed(topic):
            order[one.message_group].append(int(one.body.split("/")[0]))
        expected = {f"group-{first}": [*range(first, 24, 3)] for first in range(3)}
        expected["group-2"].insert(1, 5)  # which failed once, and all of its group waited for it
        assert order == expected

    live(clients, scenario)


def test_ordered_messages_wait_for_those_before_them(servers: ClientCluster, clients: Sequence[GrpcClient]) -> None:
    def scenario(client: GrpcClient) -> None:
        topic = servers.topic("blocked", attributes="+message.type=FIFO")
        group = servers.group(orderly=True)
        for body in "abc":
            client.send(topic, body, message_group="one")
        (first,) = client.receive(topic, group, count=1)
        assert client.receive(topic, group) == []
        client.ack(first)
        rest = receive(client, topic, group, 2)
        assert [first.body, *(one.body for one in rest)] == ["a", "b", "c"]

    live(clients, scenario)


def test_delayed_message_comes_when_it_is_due_unless_it_is_recalled(
    servers: ClientCluster, clients: Sequence[GrpcClient]
) -> None:
    def scenario(client: GrpcClient) -> None:
        topic = servers.topic("delayed", attributes="+message.type=DELAY")
        group = servers.group()
        due_s = int(time.time()) + 4  # noqa: TID251  # the broker goes by the machine's clock
        recalled = client.send(topic, "recalled", due_s=due_s)
        client.send(topic, "late", due_s=due_s)
        assert client.recall(topic, recalled) == recalled.id
        (late,) = receive(client, topic, group, 1)
        assert late.body == "late"
        assert late.time_ms >= due_s * 1000

    live(clients, scenario)


def test_transaction_ends_as_its_producer_says_at_once_or_when_asked(
    servers: ClientCluster, clients: Sequence[GrpcClient]
) -> None:
    def scenario(client: GrpcClient) -> None:
        topic = servers.topic("transacted", brokers=2, attributes="+message.type=TRANSACTION")
        group = servers.group()
        client.transact(topic, "at once/rollback", end="commit")
        client.transact(topic, "taken back/commit", end="rollback")
        client.transact(topic, "when asked/commit", end="none")
        client.transact(topic, "taken back when asked/rollback", end="none")
        received = receive(client, topic, group, 2)
        received += client.receive(topic, group)
        assert sorted(one.body for one in received) == ["at once/rollback", "when asked/commit"]

    live(clients, scenario)
