"""What VIEW_BROKER_STATS_DATA (315) tells of connections, clients and readers."""

from __future__ import annotations

import asyncio
import socket
import struct

from rocketline.broker.server import Broker
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.stats import BrokerStatsData
from rocketline.wire.codes import RequestCode, ResponseCode
from support.brokers.connections import consumer, heartbeat
from support.brokers.pulls import COMMIT, SUBSCRIPTION, pull
from support.brokers.running import BrokerPeer, broker

CLUSTER = "DefaultCluster"
IDLE_S = 30
EVENTS = ("CONNECT", "CLOSE", "IDLE", "EXCEPTION")


async def view(peer: BrokerPeer, stat: str, key: str) -> BrokerStatsData | None:
    """One statistic; None if the broker says that there is none."""
    answer = await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": stat, "statsKey": key})
    if answer.code == ResponseCode.SYSTEM_ERROR:
        assert answer.remark == f"The stats <{stat}> <{key}> not exist"
        return None
    return decode(BrokerStatsData, answer.body)


def sample(running: Broker, clock: FakeClock) -> None:
    for _ in range(10):
        clock.advance(1)
        running.storage.stats.tick()


async def connect(running: Broker) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", running.port)


async def end(writer: asyncio.StreamWriter, *, is_reset: bool = False) -> None:
    if is_reset:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
    await writer.wait_closed()


async def activity(peer: BrokerPeer, running: Broker, clock: FakeClock) -> dict[str, int]:
    """To be asked six times at most: the last minute is told, and each takes ten seconds of it."""
    for _ in range(5):  # broker and peer share a loop: it has seen what was there before it answers these
        await peer.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    sample(running, clock)
    told = {event: await view(peer, "CHANNEL_ACTIVITY", event) for event in EVENTS}
    return {event: data.stats_minute.sum for event, data in told.items() if data is not None}


async def test_connections_are_counted_by_what_happens_to_them() -> None:
    clock = FakeClock()
    async with broker(clock=clock) as running, BrokerPeer(running.address) as peer:
        assert await activity(peer, running, clock) == {"CONNECT": 1}, "of the peer that asks"
        _, writer = await connect(running)
        await end(writer)
        assert await activity(peer, running, clock) == {"CONNECT": 2, "CLOSE": 1}
        _, writer = await connect(running)
        await end(writer, is_reset=True)
        assert await activity(peer, running, clock) == {"CONNECT": 3, "CLOSE": 2, "EXCEPTION": 1}
        reader, writer = await connect(running)
        writer.write(b"no frame at all")
        assert await reader.read() == b""
        await end(writer)
        assert await activity(peer, running, clock) == {"CONNECT": 4, "CLOSE": 3, "EXCEPTION": 2}


async def test_connection_that_was_idle_counts_as_that_and_as_closed() -> None:
    clock = FakeClock()
    async with broker(clock=clock, serverChannelMaxIdleTimeSeconds=str(IDLE_S)) as running:
        reader, writer = await connect(running)
        clock.advance(IDLE_S + 1)
        assert await reader.read() == b""
        await end(writer)
        async with BrokerPeer(running.address) as peer:
            assert await activity(peer, running, clock) == {"CONNECT": 2, "CLOSE": 1, "IDLE": 1}


async def test_registrations_by_heartbeat_are_counted_for_the_cluster() -> None:
    clock = FakeClock()
    async with broker(clock=clock) as running, BrokerPeer(running.address) as peer:
        beat = heartbeat("c", consumer("g", "T"), consumer("h", "T"), producers=["p"])
        for _ in range(2):
            assert (await peer.request(beat, 5)).code == ResponseCode.SUCCESS
        for stat in ("CONSUMER_REGISTER_TIME", "PRODUCER_REGISTER_TIME"):
            data = await view(peer, stat, CLUSTER)
            assert data is not None, stat
            assert data.stats_minute.sum == 0, "by a clock that stands still"


async def send(peer: BrokerPeer) -> None:
    # fmt: off
    ext = {
        "producerGroup": "p", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "2", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": "", "reconsumeTimes": "0",
        "unitMode": "false",
    }
    # fmt: on
    assert (await peer.ask(RequestCode.SEND_MESSAGE, ext, b"x")).code == ResponseCode.SUCCESS


async def falls(peer: BrokerPeer, key: str) -> tuple[int | None, int | None]:
    """Bytes and milliseconds."""
    size, time = await view(peer, "GROUP_GET_FALL_SIZE", key), await view(peer, "GROUP_GET_FALL_TIME", key)
    return None if size is None else size.stats_minute.sum, None if time is None else time.stats_day.sum


async def test_readers_are_behind_by_what_their_last_pull_left() -> None:
    clock = FakeClock()
    async with broker(clock=clock) as running, BrokerPeer(running.address) as peer:
        for _ in range(3):
            await send(peer)
        record_bytes = running.storage.store.max_log_offset // 3
        assert await falls(peer, "0@T@g") == (None, None)
        clock.advance(7)
        for flags in (SUBSCRIPTION, SUBSCRIPTION | COMMIT):
            assert (await peer.request(pull(0, flags=flags, maxMsgNums="2"), 5)).code == ResponseCode.SUCCESS
            clock.advance(1000)
            expected_ms = 7000 if flags == SUBSCRIPTION else 1_007_000
            assert await falls(peer, "0@T@g") == (2 * record_bytes, expected_ms), "when it read, not now"
        assert await falls(peer, "1@T@g") == (None, None)
        assert (await peer.request(pull(3), 5)).code == ResponseCode.PULL_NOT_FOUND
        assert await falls(peer, "0@T@g") == (0, 0), "it asked for what is not there yet"


async def test_statistics_that_apache_counts_nowhere_do_not_exist() -> None:
    names = ("COMMERCIAL_SEND_TIMES", "COMMERCIAL_RCV_SIZE", "GROUP_GET_FROM_DISK_NUMS", "BROKER_GET_FROM_DISK_SIZE")
    async with broker() as running, BrokerPeer(running.address) as peer:
        await send(peer)
        assert (await peer.request(pull(0), 5)).code == ResponseCode.SUCCESS
        for name in names:
            for key in ("T@g", CLUSTER, "null@T@p@SEND_SUCCESS"):
                assert await view(peer, name, key) is None
