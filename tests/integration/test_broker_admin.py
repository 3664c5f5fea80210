"""What administrators ask of a broker: its settings, its figures, and how far consumers are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rocketline.broker.server import Broker
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.queue import MessageQueue
from rocketline.settings import parse_properties
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.lists import GroupList, KVTable
from rocketline.wire.bodies.offsets import ConsumeQueueDump
from rocketline.wire.bodies.stats import (
    BrokerStatsData,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpans,
    TopicStatsTable,
)
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.pulls import pull
from support.brokers.running import BrokerPeer, broker
from support.name_servers.running import Peer, name_server

OK = ResponseCode.SUCCESS


@asynccontextmanager
async def scene(
    home: Path, *, clock: FakeClock | None = None, **settings: str
) -> AsyncIterator[tuple[Broker, BrokerPeer]]:
    """A broker with its settings in a file below `home`, and one peer of it."""
    given = {"brokerName": "B", "brokerConfigPath": str(home / "broker.conf"), **settings}
    async with broker(clock=clock, files=None, **given) as running, BrokerPeer(running.address) as peer:
        yield running, peer


async def send(peer: BrokerPeer, body: bytes = b"x", *, topic: str = "T", queue_id: int = 0, count: int = 1) -> Command:
    """The last answer."""
    ext = {
        "producerGroup": "p",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "2",
        "queueId": str(queue_id),
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    for _ in range(count):
        answer = await peer.ask(RequestCode.SEND_MESSAGE, ext, body)
    return answer


async def update(peer: BrokerPeer, text: str) -> Command:
    return await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


async def settings_of(peer: BrokerPeer) -> dict[str, str]:
    answer = await peer.ask(RequestCode.GET_BROKER_CONFIG)
    assert answer.code == OK
    return {pair.key: pair.value for pair in parse_properties(answer.body)}


async def test_updated_message_size_counts_for_later_sends_and_is_told(tmp_path: Path) -> None:
    """S212."""
    async with scene(tmp_path) as (_, peer):
        assert (await send(peer, bytes(5000))).code == OK
        assert (await update(peer, "maxMessageSize=4096\n")).code == OK
        assert (await send(peer, bytes(5000))).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await send(peer, bytes(4096))).code == OK
        assert (await settings_of(peer))["maxMessageSize"] == "4096"


async def test_update_with_a_protected_key_is_refused_as_a_whole(tmp_path: Path) -> None:
    """S213."""
    async with scene(tmp_path) as (_, peer):
        before = await settings_of(peer)
        for key in ("brokerConfigPath", "rocketmqHome", "configBlackList"):
            answer = await update(peer, f"maxMessageSize=1\n{key}=x\n")
            assert answer.code == ResponseCode.NO_PERMISSION
            assert key in (answer.remark or "")
        assert await settings_of(peer) == before


async def test_updated_broker_permission_shows_at_the_name_server(tmp_path: Path) -> None:
    """S214."""
    async with (
        name_server(tmp_path) as server,
        Peer(server.address) as routes,
        scene(tmp_path, namesrvAddr=server.address) as (_, peer),
    ):
        assert await routes.perm("BenchmarkTest") == 6
        assert (await update(peer, "brokerPermission=4\n")).code == OK
        while await routes.perm("BenchmarkTest") != 4:  # the test's timeout is the bound
            pass
        assert await routes.perm("TBW102") & 2 == 0
        assert (await update(peer, "brokerPermission=6\n")).code == OK
        while await routes.perm("BenchmarkTest") != 6:
            pass


async def test_runtime_figures(tmp_path: Path) -> None:
    """S215."""
    clock = FakeClock()
    async with scene(tmp_path, clock=clock) as (running, peer):
        await send(peer, count=3)
        for _ in range(601):
            running.storage.stats.tick()
            clock.advance(1)
        answer = await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert answer.code == OK
        table = decode(KVTable, answer.body).table
        assert table["brokerVersionDesc"] == "V5_5_0"
        assert table["bootTimestamp"] == str(FakeClock().wall_ms())
        assert [float(rate) for rate in table["putTps"].split()] == [0.0, 0.0, 0.0]
        assert 0 <= float(table["commitLogDiskRatio"]) <= 1
        assert table["sendThreadPoolQueueSize"] == "0"
        assert (table["putMessageTimesTotal"], table["msgPutTotalTodayNow"]) == ("3", "3")
        assert int(table["commitLogMaxOffset"]) > 0


async def test_consume_stats_of_a_consuming_group(tmp_path: Path) -> None:
    """S216."""
    async with scene(tmp_path) as (_, peer):
        await send(peer, count=5)
        pulled = await peer.request(pull(0, flags=5, maxMsgNums="4", commitOffset="2"), 5)
        assert pulled.code == OK
        answer = await peer.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
        assert answer.code == OK
        table = decode(ConsumeStats, answer.body).offset_table
        reached = table[MessageQueue("T", "B", 0)]
        assert (reached.broker_offset, reached.consumer_offset, reached.pull_offset) == (5, 2, 4)
        assert reached.last_timestamp > 0
        assert table[MessageQueue("T", "B", 1)].broker_offset == 0


async def test_consume_stats_name_the_topics_that_are_asked_for(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, peer):
        await send(peer)
        for asked, topics in (
            ({"topic": "T"}, {"T"}),
            ({"topic": "nowhere"}, set()),
            ({"topicList": "T;SELF_TEST_TOPIC;nowhere", "topic": "BenchmarkTest"}, {"T", "SELF_TEST_TOPIC"}),
            ({}, set()),
        ):
            answer = await peer.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "new", **asked})
            assert {queue.topic for queue in decode(ConsumeStats, answer.body).offset_table} == topics, asked


async def test_consume_stats_of_all_groups(tmp_path: Path) -> None:
    async with scene(tmp_path) as (running, peer):
        await send(peer, count=5)
        await peer.request(pull(0, flags=5, commitOffset="2"), 5)
        answer = await peer.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
        stats = decode(ConsumeStatsList, answer.body)
        assert (answer.code, stats.broker_addr, stats.total_diff) == (OK, running.address, 3)
        assert {"g", "TOOLS_CONSUMER"} <= {group for entry in stats.consume_stats_list for group in entry}


async def test_time_spans_of_a_group(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, peer):
        await send(peer)
        answer = await peer.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"})
        first, second = decode(ConsumeTimeSpans, answer.body).consume_time_span_set
        assert first.message_queue == MessageQueue("T", "B", 0)
        assert 0 < first.min_time_stamp == first.max_time_stamp == first.consume_time_stamp
        assert (second.min_time_stamp, second.delay_time) == (-1, 0)
        unknown = await peer.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "nowhere", "group": "g"})
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


async def test_topic_stats(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, peer):
        await send(peer, queue_id=1, count=3)
        answer = await peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
        table = decode(TopicStatsTable, answer.body).offset_table
        assert {queue.queue_id: held.max_offset for queue, held in table.items()} == {0: 0, 1: 3}
        unknown = await peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "nowhere"})
        assert (unknown.code, "nowhere" in (unknown.remark or "")) == (ResponseCode.TOPIC_NOT_EXIST, True)


async def test_statistics_of_a_used_topic(tmp_path: Path) -> None:
    """S219."""
    clock = FakeClock()
    async with scene(tmp_path, clock=clock) as (running, peer):
        await send(peer, count=5)
        for _ in range(3600):
            clock.advance(1)
            running.storage.stats.tick()
        known = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
        answer = await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, known)
        data = decode(BrokerStatsData, answer.body)
        assert (answer.code, data.stats_minute.sum, data.stats_hour.sum, data.stats_day.sum) == (OK, 0, 5, 5)
        assert set(answer.body.decode().split('"')) >= {"statsMinute", "statsHour", "statsDay", "sum", "tps", "avgpt"}
        for unknown in ({"statsName": "NO_SUCH"}, {"statsKey": "nowhere"}):
            answer = await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, known | unknown)
            assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_all_topics_are_told_with_their_version(tmp_path: Path) -> None:
    """S221."""
    async with scene(tmp_path) as (_, peer):
        answer = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        table = decode(TopicConfigTable, answer.body)
        system = {"SELF_TEST_TOPIC", "BenchmarkTest", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"}
        assert system < table.topic_config_table.keys()
        assert table.data_version.timestamp > 0


async def test_disabled_group_may_not_pull(tmp_path: Path) -> None:
    """S222."""
    async with scene(tmp_path) as (_, peer):
        await send(peer)
        assert (await peer.request(pull(0), 5)).code == OK
        disabled = encode(SubscriptionGroupConfig("g", consume_enable=False))
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=disabled)).code == OK
        assert (await peer.request(pull(0), 5)).code == ResponseCode.NO_PERMISSION


async def test_entries_of_a_queue(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, peer):
        await send(peer, count=5)
        asked = {"topic": "T", "queueId": "0", "index": "2", "count": "2"}
        dump = decode(ConsumeQueueDump, (await peer.ask(RequestCode.QUERY_CONSUME_QUEUE, asked)).body)
        assert (len(dump.queue_data), dump.min_queue_index, dump.max_queue_index) == (2, 0, 5)


async def test_cleaning_on_demand_keeps_what_is_in_use(tmp_path: Path) -> None:
    async with scene(tmp_path) as (running, peer):
        await send(peer)
        await send(peer, topic="U")
        running.storage.topics.delete("U")
        for code in (
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
            RequestCode.CLEAN_UNUSED_TOPIC,
        ):
            assert (await peer.ask(code)).code == OK
        assert running.storage.store.queue("U", 0) is None
        assert running.storage.store.max_offset("T", 0) == 1


async def test_figures_of_a_deleted_topic_and_group_are_gone(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, peer):
        await send(peer)
        assert (await peer.request(pull(0), 5)).code == OK
        figures = [{"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}, {"statsName": "GROUP_GET_NUMS", "statsKey": "T@g"}]

        async def codes() -> list[int]:
            return [(await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, asked)).code for asked in figures]

        assert await codes() == [OK, OK]
        await peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
        assert await codes() == [OK, ResponseCode.SYSTEM_ERROR]
        await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        assert await codes() == [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR]


async def test_topic_that_nobody_consumes_has_no_groups() -> None:
    """S220."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await peer.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "nobody"})
        assert (answer.code, decode(GroupList, answer.body)) == (0, GroupList([]))
