"""A broker's start, end and next start: what it keeps, and what keeps it from starting."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketline.broker.config import BrokerConfig, load_settings
from rocketline.broker.server import Broker
from rocketline.clock import SystemClock
from rocketline.errors import ConfigError, CorruptStoreError, ListenError, StoreLockedError
from rocketline.model.names import TRANS_CHECK_MAX_TIME_TOPIC
from rocketline.net.listening import hold_ports
from rocketline.settings import Flag, Settings
from rocketline.store.filesystem import Lock
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode, ResponseCode
from support.brokers.connections import broker_settings
from support.brokers.messages import create_topic, try_send
from support.brokers.pulls import bodies, pull
from support.brokers.running import SMALL, BrokerPeer, broker
from support.brokers.sends import send_v2
from support.brokers.transactions import join, try_half
from support.clients.members import until

CONFIG = Path("/store/config")


def memory() -> MemoryFileSystem:
    return MemoryFileSystem(SystemClock(), capacity=2**26)


async def test_next_start_finds_topics_messages_groups_and_offsets() -> None:
    files = memory()
    place = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    async with broker(files=files) as running, BrokerPeer(running.address) as client:
        for body in (b"one", b"two"):
            assert (await client.request(send_v2(body), 5)).code == 0
        assert bodies(await client.request(pull(), 5)) == [b"one", b"two"]
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": "1"})
    async with broker(files=files) as running, BrokerPeer(running.address) as client:
        found = bodies(await client.request(pull(), 5))
        offset = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, place)
        sent = await client.request(send_v2(b"three"), 5)
        topic, group = running.storage.topics.get("T"), running.storage.groups.get("g")

    assert found == [b"one", b"two"]
    assert offset.ext["offset"] == "1"
    assert sent.ext["queueOffset"] == "2"
    assert topic is not None
    assert group is not None


async def test_two_brokers_do_not_share_a_store() -> None:
    files = memory()
    async with broker(files=files):
        with pytest.raises(StoreLockedError, match="is locked by"):
            async with broker(files=files):
                pass


async def test_taken_port_lets_go_of_the_store() -> None:
    files = memory()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=str(port)):
            async with broker(files=files, listenPort=str(port)):
                pass
    async with broker(files=files) as running:
        assert not running.storage.store.problem


class Onlooker(MemoryFileSystem):
    """Looks, while the broker locks its store and does not listen yet, which of the ports it chose others can have."""

    settings: Settings[BrokerConfig]

    def lock(self, path: Path) -> Lock:
        port = self.settings.value.network.listen_port
        self.taken = [other for other in (port, port - 2) if can_have(other)]
        return super().lock(path)


def can_have(port: int) -> bool:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


async def test_ports_that_a_broker_chooses_are_its_own_before_it_listens() -> None:
    files = Onlooker(SystemClock(), capacity=2**26)
    files.settings = broker_settings(
        bindAddress="127.0.0.1",
        brokerIP1="127.0.0.1",
        listenPort="0",
        storePathRootDir="/store",
        **SMALL,
    )
    async with Broker(files.settings, files=files) as running:
        assert files.taken == []
        for port in (running.port, running.port - 2):
            async with BrokerPeer(f"127.0.0.1:{port}") as client:
                assert (await client.request(send_v2(b"x"), 5)).code == 0
    # The system remembers those connections for a minute, and gives the ports to a next start all the same.
    async with broker(listenPort=str(running.port)) as again:
        assert again.port == running.port


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_ports_are_chosen_again_until_the_one_below_is_free(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Socket(socket.socket):
        def bind(self, address: Any) -> None:
            asked.append(address[1])
            if len(asked) == 2:
                raise OSError(errno.EADDRINUSE, "taken")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Socket)
    main, fast = await hold_ports(host, below=2)
    ports = [held[0].getsockname()[1] for held in (main, fast)]
    for held in (*main, *fast):
        held.close()

    assert ports == [asked[-1] + 2, asked[-1]]
    assert (asked[0], asked[2]) == (0, 0), "both anew; others may have taken further ones meanwhile"


async def test_free_port_of_an_unknown_host_is_a_listen_error() -> None:
    with pytest.raises(ListenError, match="host name is not known"):
        async with broker(bindAddress="no-such-host.invalid"):
            pass


async def test_table_that_cannot_be_read_stops_the_start_and_lets_go_of_the_store() -> None:
    files = memory()
    files.make_folder(CONFIG)
    files.write_file(CONFIG / "topics.json", b"{")
    files.write_file(CONFIG / "topics.json.bak", b"{")
    with pytest.raises(CorruptStoreError, match=r"topics\.json"):
        async with broker(files=files):
            pass
    files.remove(CONFIG / "topics.json.bak")
    async with broker(files=files):
        pass


async def test_address_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1=no\.such\.host\.invalid: .*; name an address of this machine"):
        async with broker(brokerIP1="no.such.host.invalid"):
            pass


async def test_disk_that_is_full_at_the_end_keeps_nobody_from_closing(caplog: pytest.LogCaptureFixture) -> None:
    files = memory()
    async with broker(files=files) as running, BrokerPeer(running.address) as client:
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {
            "consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"
        })  # fmt: skip
        files.write_file(Path("/filler"), bytes(files.usage(Path("/store")).usable))

    assert "topics not saved: the memory for files is used up" in caplog.text


async def test_full_disk_refuses_sends_lets_anybody_pull_and_is_forgotten_when_there_is_room() -> None:
    files, filler = memory(), Path("/filler")
    async with broker(files=files, flushIntervalConsumeQueue="10") as running, BrokerPeer(running.address) as client:
        assert (await client.request(send_v2(b"0"), 5)).code == 0
        await until(lambda: files.exists(Path("/store/consumequeue/T/0")))
        files.write_file(filler, bytes(files.usage(Path("/store")).usable))
        sent = 1
        while (answer := await client.request(send_v2(bytes(2000)), 5)).code == 0:
            sent += 1
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "no disk space for" in (answer.remark or "")
        assert bodies(await client.request(pull(consumerGroup="nobody"), 5))[0] == b"0"
        assert running.storage.store.problem is None

        files.remove(filler)
        await until(lambda: running.storage.store.is_writable)
        assert (await client.request(send_v2(b"last"), 5)).code == 0
    async with broker(files=files) as running:
        assert running.storage.store.max_offset("T", 0) == sent + 1


async def test_store_host_is_the_address_that_clients_are_told() -> None:
    async with broker(brokerIP1="localhost") as running, BrokerPeer(f"127.0.0.1:{running.port}") as client:
        sent = await client.request(send_v2(), 5)

    assert running.address == f"localhost:{running.port}"
    assert sent.ext["msgId"].startswith("7F000001")


CONF = """\
# As an administrator of Apache's broker has it.
brokerClusterName = DefaultCluster
brokerName=broker-a
brokerId=0
deleteWhen=04
fileReservedTime=48
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
enablePropertyFilter=%s
recallMessageEnable=%s
timerWheelEnable=%s
timerMaxDelaySec=3600
rejectTransactionMessage=%s
transactionTimeOut=3000
transactionCheckMax=1
transactionCheckInterval=100000
"""
TIMED = {"TIMER_DELAY_SEC": "60", "UNIQ_KEY": "key"}
BY_SQL = pull(subscription="price > 5", expressionType="SQL92")


def settings_of(path: Path, text: str) -> Settings[BrokerConfig]:
    """Those of such a `broker.conf`, for a broker on loopback."""
    path.write_text(text, "ascii")
    place = {"bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "listenPort": "0", "storePathRootDir": "/store"}
    return load_settings(path, environ={}, flags=[Flag("test", key, value) for key, value in (place | SMALL).items()])


@asynccontextmanager
async def configured(path: Path, clock: FakeClock, text: str) -> AsyncIterator[tuple[Broker, BrokerPeer]]:
    """A broker with the topic T."""
    settings, files = settings_of(path, text), MemoryFileSystem(clock, capacity=2**30)
    async with Broker(settings, files=files, clock=clock) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T")
        yield running, peer


async def test_timers_transactions_and_filters_are_as_apaches_file_says(tmp_path: Path, clock: FakeClock) -> None:
    text = CONF % ("true", "true", "true", "false")
    async with configured(tmp_path / "broker.conf", clock, text) as (running, peer):
        timed = await try_send(peer, properties=TIMED)
        too_far = await try_send(peer, properties={"TIMER_DELAY_SEC": "3601"})
        ext = {"topic": "T", "recallHandle": timed.ext["recallHandle"], "producerGroup": "p"}
        recalled = await peer.ask(RequestCode.RECALL_MESSAGE, ext)
        assert (timed.code, too_far.code, recalled.code) == (0, 13, 0)
        assert (await peer.request(BY_SQL, 5)).code == ResponseCode.PULL_NOT_FOUND
        await join(peer)
        assert (await try_half(peer, b"open", born_ms=clock.wall_ms())).code == 0
        for asked in (0, 1, 0):  # it is three seconds old after the first round, and is given up in the third
            await running.services.checks.check()
            codes = [question.code for question in await peer.told_meanwhile()]
            assert codes.count(RequestCode.CHECK_TRANSACTION_STATE) == asked
            clock.advance(3.001)
        assert running.storage.store.max_offset(TRANS_CHECK_MAX_TIME_TOPIC, 0) == 1


async def test_timers_transactions_and_filters_are_off_if_apaches_file_says_so(
    tmp_path: Path, clock: FakeClock
) -> None:
    text = CONF % ("false", "false", "true", "true")
    async with configured(tmp_path / "broker.conf", clock, text) as (_, peer):
        timed = await try_send(peer, properties=TIMED)
        ext = {"topic": "T", "recallHandle": timed.ext["recallHandle"], "producerGroup": "p"}
        assert (await peer.ask(RequestCode.RECALL_MESSAGE, ext)).code == ResponseCode.NO_PERMISSION
        assert (await peer.request(BY_SQL, 5)).code == ResponseCode.SYSTEM_ERROR
        assert (await try_half(peer)).code == ResponseCode.NO_PERMISSION
    async with configured(tmp_path / "broker.conf", clock, CONF % ("false", "false", "false", "false")) as (_, peer):
        assert (await try_send(peer, properties=TIMED)).code == ResponseCode.SYSTEM_ERROR
