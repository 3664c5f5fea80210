"""A broker and its name servers: what they know of it, and when."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from rocketline.broker.server import Broker
from rocketline.clock import SystemClock
from rocketline.model.topic_config import TopicConfig
from rocketline.nameserver.server import NameServer
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.running import BrokerPeer, broker
from support.brokers.sends import send_v2
from support.name_servers.running import Peer, name_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with name_server(tmp_path) as running:
        yield running


@pytest.fixture
async def peer(server: NameServer) -> AsyncIterator[Peer]:
    async with Peer(server.address) as connected:
        yield connected


def registered(
    *name_servers: str, files: FileSystem | None = None, **settings: str
) -> AbstractAsyncContextManager[Broker]:
    """The broker B of the cluster C; `settings` are Apache's keys."""
    joined = ";".join(name_servers)
    return broker(clock=None, files=files, brokerClusterName="C", brokerName="B", namesrvAddr=joined, **settings)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not wait long for name servers when it starts and ends."""
    for name in ("_FIRST_ROUND_S", "_SHORT_TIMEOUT_S"):
        monkeypatch.setattr(f"rocketline.broker.cluster.name_servers.{name}", 0.3)


async def until_known(peer: Peer, topic: str) -> None:
    """Ask until the topic is there; the test's timeout is the bound."""
    while (await peer.ask_route(topic)).code != 0:
        pass


async def update(running: Broker, **values: str) -> None:
    body = "".join(f"{key}={text}\n" for key, text in values.items()).encode()
    async with BrokerPeer(running.address) as admin:
        answer = await admin.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
    assert answer.code == 0, answer.remark


async def test_started_broker_is_known_with_its_topics_and_closed_one_is_not(server: NameServer, peer: Peer) -> None:
    async with registered(server.address) as running:
        clusters = await peer.clusters()
        route = await peer.route("TBW102")
    after = await peer.clusters()

    assert clusters.cluster_addr_table == {"C": ["B"]}
    assert clusters.broker_addr_table["B"].broker_addrs == {0: running.address}
    assert [(queues.broker_name, queues.write_queue_nums) for queues in route.queue_datas] == [("B", 8)]
    assert after.broker_addr_table == {}, "it said farewell"


async def test_topic_made_by_a_send_is_known_soon(server: NameServer, peer: Peer) -> None:
    """S64: a topic that was auto-created is known to the name server within about one second."""
    async with registered(server.address) as running, BrokerPeer(running.address) as producer:
        before = await peer.ask_route("T")
        sent = await producer.request(send_v2(), 5)
        async with asyncio.timeout(1):
            await until_known(peer, "T")
        route = await peer.route("T")

    assert before.code == 17
    assert sent.code == 0
    assert [(queues.read_queue_nums, queues.perm) for queues in route.queue_datas] == [(4, 6)]


async def test_topic_is_known_alone_where_single_registration_is_on(server: NameServer, peer: Peer) -> None:
    async with registered(server.address, enableSingleTopicRegister="true") as running:
        running.storage.topics.update(TopicConfig("T", 4, 4))
        await until_known(peer, "T")


@pytest.mark.parametrize("form", ["compressedRegister", "enableSplitRegistration"])
async def test_other_forms_of_registration_tell_the_same(server: NameServer, peer: Peer, form: str) -> None:
    files = MemoryFileSystem(SystemClock(), capacity=2**30)
    async with registered(files=files) as running:
        running.storage.topics.update(*(TopicConfig(f"T{number}", 4, 4) for number in range(20)))
    async with registered(server.address, files=files, **{form: "true"}, splitRegistrationSize="7") as running:
        routes = [await peer.route(f"T{number}") for number in range(20)]
        known = await peer.ask(RequestCode.QUERY_DATA_VERSION, {
            "brokerName": "B", "brokerAddr": running.address, "clusterName": "C", "brokerId": "0"
        })  # fmt: skip

    assert all(route.queue_datas[0].broker_name == "B" for route in routes)
    assert known.code == 0


async def test_name_server_that_is_down_holds_up_none_of_the_others(server: NameServer, peer: Peer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        down = f"127.0.0.1:{unused.getsockname()[1]}"
    both = down, server.address
    async with registered(*both) as running, BrokerPeer(running.address) as producer:
        await producer.request(send_v2(), 5)
        await until_known(peer, "T")

    assert (await peer.clusters()).broker_addr_table == {}


@pytest.mark.usefixtures("impatient")
async def test_name_server_that_never_answers_holds_up_none_of_the_others(server: NameServer, peer: Peer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        both = f"127.0.0.1:{silent.getsockname()[1]}", server.address
        async with registered(*both) as running, BrokerPeer(running.address) as producer:
            await producer.request(send_v2(), 5)
            await until_known(peer, "T")


async def test_name_server_that_comes_back_is_told_everything_in_the_next_round(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with name_server(tmp_path) as first:
            port = str(first.port)
            running = await stack.enter_async_context(registered(first.address))
        running.storage.topics.update(TopicConfig("T", 4, 4))
        second = await stack.enter_async_context(name_server(tmp_path, listenPort=port))
        running.services.name_servers.register_all()
        peer = await stack.enter_async_context(Peer(second.address))
        await until_known(peer, "T")
        await until_known(peer, "TBW102")


async def test_what_is_owed_while_a_name_server_is_silent_is_told_when_that_round_is_over(
    server: NameServer, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for the next round of all, ten seconds or more, though the name server was back at once."""
    async with registered(server.address) as running:
        (link,) = running.services.name_servers._links.values()
        answered, asked = link.ask, list[int]()

        async def ask(command: Command, timeout_s: float) -> Command | None:
            asked.append(command.code)
            if len(asked) > 1:
                return await answered(command, timeout_s)
            running.storage.topics.update(TopicConfig("T", 4, 4))
            return None

        monkeypatch.setattr(link, "ask", ask)
        running.services.name_servers.register_all()
        await link.is_idle.wait()
        assert len(asked) == 2
        assert (await peer.ask_route("T")).code == 0


async def test_unchanged_topics_are_not_told_again_where_registration_is_not_forced(
    server: NameServer, peer: Peer
) -> None:
    async with registered(server.address, forceRegister="false") as running:
        await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "TBW102"})
        running.services.name_servers.register_all()
        await running.services.name_servers.begin()
        still_gone = await peer.ask_route("TBW102")
        running.storage.topics.update(TopicConfig("T", 4, 4))
        await until_known(peer, "T")
        running.storage.topics.touch()
        await running.services.name_servers.begin()
        back = await peer.ask_route("TBW102")

    assert still_gone.code == 17, "the version is the same, so it was only asked for"
    assert back.code == 0


async def test_permission_that_changes_is_registered_at_once(server: NameServer, peer: Peer, tmp_path: Path) -> None:
    path = str(tmp_path / "broker.conf")
    async with registered(server.address, brokerConfigPath=path) as running:
        before = await peer.perm("SELF_TEST_TOPIC")
        await update(running, brokerPermission="4")
        after = await peer.perm("SELF_TEST_TOPIC")

    assert (before, after) == (6, 4), "known by the time of the answer, as with Apache's broker"


def created(topic: str, perm: int = 6) -> dict[str, str]:
    return {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": str(perm),
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip


async def test_topic_is_known_to_name_servers_before_its_change_is_answered(server: NameServer, peer: Peer) -> None:
    """`mqadmin updateTopicPerm` reads the route right after it."""
    async with registered(server.address) as running, BrokerPeer(running.address) as admin:
        for perm in (6, 4, 2, 6, 4):
            answer = await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, created("T", perm))
            assert (answer.code, await peer.perm("T")) == (0, perm)
        both = [{"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 2} for name in ("T", "U")]
        answer = await admin.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=json.dumps({"topicConfigList": both}).encode()
        )

        assert (answer.code, await peer.perm("T"), await peer.perm("U")) == (0, 2, 2)


async def test_many_changes_at_once_are_all_known_when_they_are_answered(server: NameServer, peer: Peer) -> None:
    async def create(number: int) -> None:
        async with BrokerPeer(running.address) as admin:
            answer = await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, created(f"T{number}"))
            assert (answer.code, (await peer.ask_route(f"T{number}")).code) == (0, 0)

    async with registered(server.address) as running, asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(create(number))


@pytest.mark.usefixtures("impatient")
async def test_changes_are_answered_whatever_name_servers_do(server: NameServer, peer: Peer) -> None:
    """One is down, one never answers."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        down = f"127.0.0.1:{unused.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        all_three = down, f"127.0.0.1:{silent.getsockname()[1]}", server.address
        async with registered(*all_three) as running, BrokerPeer(running.address) as admin:
            answer = await admin.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, created("T"))

            assert (answer.code, await peer.perm("T")) == (0, 6)


async def test_name_servers_that_are_named_anew_are_told_and_old_ones_are_left(
    server: NameServer, peer: Peer, tmp_path: Path
) -> None:
    path = str(tmp_path / "broker.conf")
    (tmp_path / "other").mkdir()
    async with (
        name_server(tmp_path / "other") as other,
        Peer(other.address) as at_other,
        registered(server.address, brokerConfigPath=path) as running,
    ):
        await update(running, namesrvAddr=other.address)
        running.services.name_servers.reload()
        await until_known(at_other, "TBW102")
        await peer.until_unknown("TBW102")

        assert running.services.name_servers.addresses == (other.address,)


async def test_topics_with_an_order_configuration_become_ordered(server: NameServer, peer: Peer) -> None:
    await peer.ask(
        RequestCode.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "SELF_TEST_TOPIC", "value": "B:1"}
    )
    async with registered(server.address) as running:
        config = running.storage.topics.get("SELF_TEST_TOPIC")

    assert config is not None
    assert config.order


async def test_broker_that_is_to_stay_hidden_for_a_while_does_not_register(server: NameServer, peer: Peer) -> None:
    async with registered(server.address, disappearTimeAfterStart="600000") as running:
        running.services.name_servers.register_all()
        running.storage.topics.update(TopicConfig("T", 4, 4))
        await running.services.name_servers.unregister()
        clusters = await peer.clusters()

    assert clusters.broker_addr_table == {}


async def test_names_are_looked_up_where_so_configured(server: NameServer, peer: Peer) -> None:
    named = f"localhost:{server.port}"
    async with registered(named, fetchNameSrvAddrByDnsLookup="true") as running:
        await until_known(peer, "TBW102")
        addresses = running.services.name_servers.addresses

    assert server.address in addresses
    assert named not in addresses
