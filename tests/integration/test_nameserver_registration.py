"""Brokers register with a name server, live, and go."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rocketline.model.route import QueueData, TopicQueueMappingInfo, TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver.handlers import brokers
from rocketline.net.channel import Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.bodies import RegisterBrokerBody, decode, encode, encode_register_body, read_register_body
from rocketline.wire.bodies.routes import BrokerMemberGroupBody
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.name_servers.running import MASTER, OTHER, SLAVE, Peer, broker_header, name_server, registration, serving
from support.net.servers import read_command, serve

OK = ResponseCode.SUCCESS


async def test_registered_topic_has_one_queue_data_and_one_broker_data(tmp_path: Path) -> None:
    """S11."""
    async with serving(tmp_path) as peer:
        assert (await peer.register("T1", "T2")).code == OK
        route = await peer.route("T1")
    assert (len(route.queue_datas), len(route.broker_datas)) == (1, 1)


async def test_master_is_answered_without_addresses(tmp_path: Path) -> None:
    """S12."""
    async with serving(tmp_path) as peer:
        assert (await peer.register("T1", "T2")).ext == {}


async def test_slave_of_a_live_master_is_told_its_addresses(tmp_path: Path) -> None:
    """S13."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        answer = await peer.register(broker_id=1, address=SLAVE)
    assert answer.ext == {"masterAddr": MASTER, "haServerAddr": f"{MASTER}1"}


async def test_topics_of_a_slave_beside_its_master_stay_unknown(tmp_path: Path) -> None:
    """S14."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        await peer.register("T1", "Mine", broker_id=1, address=SLAVE)
        assert (await peer.ask_route("Mine")).code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("is_acting", "perm"), [("true", 4), ("false", 6)])
async def test_topics_of_a_lone_slave_are_writable_unless_it_acts_as_master(
    tmp_path: Path, is_acting: str, perm: int
) -> None:
    """S15."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2", broker_id=1, address=SLAVE, enableActingMaster=is_acting)
        assert await peer.perm("T1") == perm


async def test_topics_of_a_lone_slave_that_knows_no_acting_master_stay_unknown(tmp_path: Path) -> None:
    """S16."""
    async with serving(tmp_path) as peer:
        assert (await peer.register("T1", "T2", broker_id=1, address=SLAVE)).code == OK
        assert (await peer.ask_route("T1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_slave_that_becomes_master_shows_under_its_new_id_only(tmp_path: Path) -> None:
    """S17."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2", broker_id=1, address=SLAVE)
        await peer.register("T1", "T2", broker_id=0, address=SLAVE)
        assert await peer.addresses("T1") == {0: SLAVE}


async def test_single_topic_before_a_full_registration_is_refused(tmp_path: Path) -> None:
    """S18."""
    async with serving(tmp_path) as peer:
        assert (await peer.register("T1")).code == ResponseCode.SYSTEM_ERROR
        assert (await peer.ask_route("T1")).code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("state_version", "shown"), [(1, MASTER), (2, OTHER), (3, OTHER)])
async def test_second_address_needs_a_state_version_at_least_as_great(
    tmp_path: Path, state_version: int, shown: str
) -> None:
    """S19, S20."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2", data_version=DataVersion(1, state_version=2))
        answer = await peer.register("T1", "T2", address=OTHER, data_version=DataVersion(9, state_version))
        assert answer.code == OK
        assert await peer.addresses("T1") == {0: shown}


async def test_changed_queue_counts_show_with_a_changed_data_version_only(tmp_path: Path) -> None:
    """S21."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        wider = [TopicConfig("T1", 8, 8), TopicConfig("T2", 8, 8)]
        for counter, count in ((1, 4), (2, 8)):
            await peer.register(*wider, data_version=DataVersion(counter))
            assert (await peer.route("T1")).queue_datas == [QueueData("B", count, count, 6)]


async def test_lost_connection_of_a_replaced_slave_changes_nothing(tmp_path: Path) -> None:
    """A lost address that is in the tables no more takes nothing with it."""
    acting = {"broker_id": 1, "enableActingMaster": "true"}
    async with name_server(tmp_path) as server, Peer(server.address) as peer:
        async with Peer(server.address) as replaced:
            await replaced.register("T1", "T2", address=OTHER, **acting)
            await peer.register("T1", "T2", address=SLAVE, **acting)
            await peer.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "B"})
        while server.table.live.get(("C", OTHER)) is not None:
            await peer.ask_route("T1")  # each answer is a turn of the loop that notices the loss
        assert await peer.addresses("T1") == {1: SLAVE}
        assert await peer.perm("T1") == 6


async def test_body_that_was_read_before_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=read_register_body)
    monkeypatch.setattr(brokers, "read_register_body", read)
    async with serving(tmp_path) as peer:
        for address, times in ((MASTER, 1), (MASTER, 1), (SLAVE, 2), (SLAVE, 2)):
            await peer.register("T1", "T2", address=address)
            assert read.call_count == times
            assert await peer.addresses("T1") == {0: address}
        await peer.register("T1", "T2", address=SLAVE, data_version=DataVersion(2))
        assert read.call_count == 3


@pytest.mark.parametrize(("is_deleting", "code"), [("false", OK), ("true", ResponseCode.TOPIC_NOT_EXIST)])
async def test_omitted_topic_stays_unless_it_is_to_be_deleted(tmp_path: Path, is_deleting: str, code: int) -> None:
    """S22."""
    async with serving(tmp_path, deleteTopicWithBrokerRegistration=is_deleting) as peer:
        await peer.register("T1", "T2", "T3")
        await peer.register("T1", "T2", data_version=DataVersion(2))
        assert (await peer.ask_route("T3")).code == code


async def test_body_is_checked_against_a_checksum_that_is_not_zero(tmp_path: Path) -> None:
    """S23."""
    async with serving(tmp_path) as peer:
        assert (await peer.register("T1", "T2", bodyCrc32="5")).code == ResponseCode.SYSTEM_ERROR
        assert (await peer.ask_route("T1")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await peer.register("T1", "T2", bodyCrc32="0")).code == OK
        body = encode(RegisterBrokerBody())
        header = broker_header() | {"haServerAddr": "", "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}
        assert (await peer.ask(RequestCode.REGISTER_BROKER, header, body)).code == OK


async def test_registration_is_answered_with_the_order_topics_if_there_are_any(tmp_path: Path) -> None:
    """S24."""
    async with serving(tmp_path) as peer:
        assert (await peer.register()).body == b""
        entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "B:4"}
        await peer.ask(RequestCode.PUT_KV_CONFIG, entry)
        assert (await peer.register()).body == b'{"table":{"T1":"B:4"}}'
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"returnOrderTopicConfigToBroker=false")
        assert (await peer.register()).body == b""


async def test_topic_registered_for_an_unknown_broker_changes_nothing(tmp_path: Path) -> None:
    """S25."""
    async with serving(tmp_path) as peer:
        body = encode(TopicRouteData([QueueData("unknown", 4, 4, 6)]))
        answer = await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"}, body)
        assert answer.code == OK
        assert (await peer.ask_route("T")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_topic_registered_for_a_known_broker_has_a_route(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        await peer.register()
        body = encode(TopicRouteData([QueueData("B", 2, 2, 6)]))
        assert (await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"}, body)).code == OK
        assert (await peer.route("T")).queue_datas == [QueueData("B", 2, 2, 6)]


async def test_data_version_is_unchanged_only_if_it_is_the_one_registered(tmp_path: Path) -> None:
    """S26."""
    async with serving(tmp_path) as peer:
        mine = DataVersion(3, 1, 1_700_000_000_000)

        async def changed(version: DataVersion | None, address: str = MASTER) -> tuple[str, bytes]:
            body = encode(version) if version else b""
            answer = await peer.ask(RequestCode.QUERY_DATA_VERSION, broker_header(address=address), body)
            assert answer.code == OK
            return answer.ext["changed"], answer.body

        assert await changed(mine) == ("true", b"")
        await peer.register(data_version=mine)
        assert await changed(mine) == ("false", encode(mine))
        for other in (DataVersion(4, 1, mine.timestamp), DataVersion(3, 2, mine.timestamp), DataVersion(3, 1), None):
            assert await changed(other) == ("true", encode(mine))
        assert await changed(mine, OTHER) == ("true", b"")


async def test_heartbeat_of_an_unknown_broker_changes_nothing(tmp_path: Path) -> None:
    """S27."""
    async with serving(tmp_path) as peer:
        assert (await peer.ask(RequestCode.BROKER_HEARTBEAT, broker_header())).code == OK
        assert (await peer.clusters()).broker_addr_table == {}


async def test_unregistered_broker_is_gone_shortly_after_the_answer(tmp_path: Path) -> None:
    """S28, S29."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        assert (await peer.unregister()).code == OK
        await peer.until_unknown("T1")
        clusters = await peer.clusters()
    assert (clusters.broker_addr_table, clusters.cluster_addr_table) == ({}, {})


async def test_unregistration_and_registration_in_one_write_happen_in_that_order(tmp_path: Path) -> None:
    """A broker that restarts quickly must not be dropped by the farewell of its former life."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        await asyncio.gather(peer.unregister(), peer.register("T3", "T4"))
        assert await peer.addresses("T3") == {0: MASTER}
        assert (await peer.ask_route("T1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_more_unregistrations_than_may_wait_are_refused(tmp_path: Path, clock: FakeClock) -> None:
    """All in one turn of the loop, which by this clock takes no time, however busy the machine is."""
    async with serving(tmp_path, clock=clock, unRegisterBrokerQueueCapacity="2") as peer:
        await peer.clusters()  # from here on the connection stands, and what is asked together is sent together
        answers = await asyncio.gather(*(peer.unregister(address=f"127.0.0.1:{port}") for port in range(1, 6)))
        assert [answer.code for answer in answers] == [0, 0, 1, 1, 1]
        assert (await peer.unregister()).code == OK, "the queue is emptied again"


@pytest.mark.parametrize(("is_acting", "perm"), [("true", 4), ("false", 6)])
async def test_slave_remains_when_its_master_unregisters(tmp_path: Path, is_acting: str, perm: int) -> None:
    """S30."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2", enableActingMaster=is_acting)
        await peer.register("T1", "T2", broker_id=1, address=SLAVE, enableActingMaster=is_acting)
        await peer.unregister()
        assert await peer.addresses("T1") == {1: SLAVE}
        assert await peer.perm("T1") == perm


async def test_broker_whose_connection_closes_is_gone_at_once(tmp_path: Path) -> None:
    """S31."""
    async with serving(tmp_path) as peer:
        async with Peer(peer.address) as broker:
            await broker.register("T1", "T2")
            assert (await peer.ask_route("T1")).code == OK
        await peer.until_unknown("T1")


async def test_broker_that_came_back_over_another_connection_survives_the_old_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        async with Peer(peer.address) as old, Peer(peer.address) as new:
            await old.register("T1", "T2")
            await new.register("T1", "T2")
            await old.close()
            await new.register(name="Other", address=OTHER)
            assert (await peer.ask_route("T1")).code == OK
        await peer.until_unknown("T1")


@pytest.mark.parametrize(("ext", "timeout_s"), [({"heartbeatTimeoutMillis": "10000"}, 10), ({}, 120)])
async def test_silent_broker_is_dropped_with_its_connection_after_its_timeout(
    tmp_path: Path, ext: dict[str, Any], timeout_s: int
) -> None:
    """S32."""
    clock = FakeClock()
    async with name_server(tmp_path, clock=clock) as server, Peer(server.address) as peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(frame.encode(registration("T1", "T2", **ext)))
        assert (await read_command(reader)).code == OK
        clock.advance(timeout_s)
        server.scan()
        assert (await peer.ask_route("T1")).code == OK
        clock.advance(0.001)
        server.scan()
        await peer.until_unknown("T1")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("code", [RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT])
async def test_broker_that_gives_signs_of_life_is_not_dropped(tmp_path: Path, code: int) -> None:
    """S33."""
    clock = FakeClock()
    async with name_server(tmp_path, clock=clock) as server, Peer(server.address) as peer:
        await peer.register("T1", "T2", heartbeatTimeoutMillis="10000")
        for _ in range(5):
            clock.advance(9)
            await peer.ask(code, broker_header())
            server.scan()
            assert (await peer.ask_route("T1")).code == OK


class Listener:
    """A broker's own port, where it is told of changes."""

    def __init__(self) -> None:
        self.notices: asyncio.Queue[Command] = asyncio.Queue()

    def hear(self, channel: Channel, request: Command) -> None:
        self.notices.put_nowait(request)


async def test_smaller_id_that_joins_is_told_to_the_other_members(tmp_path: Path) -> None:
    """S34."""
    slave, master = Listener(), Listener()
    async with (
        serve({905: slave.hear}) as slave_server,
        serve({905: master.hear}) as master_server,
        serving(tmp_path, notifyMinBrokerIdChanged="true") as peer,
    ):
        await peer.register(broker_id=1, address=slave_server.address)
        await peer.register(broker_id=0, address=master_server.address)
        notice = await slave.notices.get()
        assert notice.is_oneway
        assert notice.ext == {
            "minBrokerId": "0",
            "minBrokerAddr": master_server.address,
            "haBrokerAddr": f"{master_server.address}1",
        }
        await peer.register(broker_id=2, address=OTHER)
    assert (slave.notices.qsize(), master.notices.qsize()) == (0, 0)


async def test_smallest_id_that_leaves_is_told_to_all_that_remain(tmp_path: Path) -> None:
    """S35."""
    slave = Listener()
    async with (
        serve({905: slave.hear}) as slave_server,
        serving(tmp_path, notifyMinBrokerIdChanged="true") as peer,
    ):
        await peer.register(address=MASTER, enableActingMaster="true")
        await peer.register(broker_id=1, address=slave_server.address, enableActingMaster="true")
        await peer.unregister()
        notice = await slave.notices.get()
    assert notice.ext == {
        "minBrokerId": "1",
        "minBrokerAddr": slave_server.address,
        "offlineBrokerAddr": MASTER,
    }


async def test_nobody_is_told_of_ids_unless_so_configured(tmp_path: Path) -> None:
    slave = Listener()
    async with serve({905: slave.hear}) as slave_server, serving(tmp_path) as peer:
        await peer.register(broker_id=1, address=slave_server.address)
        await peer.register(broker_id=0, address=MASTER)
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"notifyMinBrokerIdChanged=true")
        await peer.register(broker_id=-1, address=OTHER)
        assert (await slave.notices.get()).ext["minBrokerId"] == "-1"
    assert slave.notices.empty()


async def test_address_that_nobody_can_dial_harms_only_its_own_notice(tmp_path: Path) -> None:
    async with serving(tmp_path, notifyMinBrokerIdChanged="true") as peer:
        for number, address in enumerate(["no address", "a..b:1", "", "127.0.0.1:1", "\x00:1", "x" * 300 + ":1"]):
            await peer.register(broker_id=1, address=address, name=f"B{number}")
            await peer.register(broker_id=0, address=MASTER, name=f"B{number}")
        await peer.register("T1", "T2")
        assert (await peer.ask_route("T1")).code == OK


async def test_unknown_broker_name_has_no_members(tmp_path: Path) -> None:
    """S36."""
    async with serving(tmp_path) as peer:

        async def members(name: str) -> dict[int, str]:
            asked = {"clusterName": "any", "brokerName": name}
            answer = await peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, asked)
            group = decode(BrokerMemberGroupBody, answer.body).broker_member_group
            assert answer.code == OK
            assert group is not None
            return group.broker_addrs

        assert await members("unknown") == {}
        await peer.register()
        await peer.register(broker_id=1, address=SLAVE)
        assert await members("B") == {0: MASTER, 1: SLAVE}


async def test_compressed_and_ancient_bodies_are_understood(tmp_path: Path) -> None:
    table = TopicConfigTable(
        DataVersion(1),
        topic_config_table={name: TopicConfig(name, 4, 4) for name in ("T1", "T2")},
        topic_queue_mapping_info_map={"T1": TopicQueueMappingInfo("T1", "B", 4)},
    )
    for version, compressed in ((513, True), (401, True), (36, False)):
        body = encode_register_body(RegisterBrokerBody(table), compressed=compressed, version=version)
        header = broker_header() | {"haServerAddr": "", "compressed": str(compressed).lower()}
        async with serving(tmp_path) as peer:
            answer = await peer.ask(RequestCode.REGISTER_BROKER, header, body, version=version)
            assert answer.code == OK
            route = await peer.route("T1")
        assert route.queue_datas == [QueueData("B", 4, 4, 6)]
        assert (route.topic_queue_mapping_by_broker is None) is (version == 401)


async def test_ten_thousand_topics_register_and_register_again(tmp_path: Path) -> None:
    topics = [f"Topic-{number:05}" for number in range(10_000)]
    async with serving(tmp_path) as peer:
        assert (await peer.register(*topics)).code == OK
        assert (await peer.register(*topics)).code == OK
        assert await peer.addresses(topics[-1]) == {0: MASTER}


async def test_broken_bodies_are_answered_1_and_change_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        for body in (b"{", b"[]", b"7", b'{"topicConfigSerializeWrapper":7}', b"\xff", b"[" * 50_000):
            for compressed in ("true", "false"):
                header = broker_header() | {"haServerAddr": "", "compressed": compressed}
                answer = await peer.ask(RequestCode.REGISTER_BROKER, header, body)
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert "RemoteProtocolError" in (answer.remark or "")
        assert (await peer.clusters()).broker_addr_table == {}
