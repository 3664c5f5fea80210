"""What a stranger may bring to a name server, and what others feel of it: a step of his work."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketline.files import replace_file
from rocketline.model.queue import QUEUES_MAX
from rocketline.model.route import QueueData, TopicQueueMappingInfo, TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver import limits
from rocketline.nameserver.handlers import brokers
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import RegisterBrokerBody, decode, encode, encode_register_body
from rocketline.wire.bodies.lists import TopicList
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.name_servers.running import OTHER, SLAVE, Peer, broker_header, name_server, registration, serving

MANY = 4000


def large(name: str, count: int = MANY, *, counter: int = 1) -> Command:
    topics = (f"{name}-{number:06}" for number in range(count))
    return registration(*topics, name=name, address=f"{name}:1", data_version=DataVersion(counter))


async def test_queues_beyond_all_bounds_are_left_out_and_the_rest_is_taken_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        await peer.register("T", "U")
        stranger = [TopicConfig("T", 2**31 - 1, 4), TopicConfig("V", 4, QUEUES_MAX + 1), TopicConfig("U", 4, 4)]
        assert (await peer.register(*stranger, name="stranger", address=OTHER)).code == 0
        assert [offer.broker_name for offer in (await peer.route("T")).queue_datas] == ["B"]
        assert {offer.broker_name for offer in (await peer.route("U")).queue_datas} == {"B", "stranger"}
        assert (await peer.ask_route("V")).code == 17


async def test_refused_registration_leaves_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        for number in range(3):
            assert (await peer.register("T", name=f"refused{number}", cluster=f"c{number}")).code == 1
        info = await peer.clusters()
        assert (info.broker_addr_table, info.cluster_addr_table) == ({}, {})


async def test_registration_of_too_many_topics_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "TOLD_MAX", 1000)
    async with serving(tmp_path) as peer:
        answer = await peer.request(large("S", 1001), 60)
        assert answer.code == 1
        assert "1000" in (answer.remark or "")
        assert (await peer.clusters()).broker_addr_table == {}
        assert (await peer.request(large("S", 1000), 60)).code == 0


async def test_long_body_in_the_dialect_is_refused_and_a_short_one_is_read(tmp_path: Path) -> None:
    header = {**broker_header(), "haServerAddr": "h"}
    async with serving(tmp_path) as peer:
        for count, code in ((5000, 1), (200, 0)):
            topics = ",".join(f"'T{number}':{{'topicName':'T{number}'}}" for number in range(count))
            body = f"{{'topicConfigSerializeWrapper':{{'topicConfigTable':{{{topics}}}}}}}".encode()
            assert (await peer.ask(RequestCode.REGISTER_BROKER, header, body)).code == code
        assert (await peer.ask_route("T199")).code == 0


async def test_others_are_served_while_a_large_table_is_read(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Peer(server.address) as stranger, Peer(server.address) as peer:
        await peer.register("T", "U")
        async with asyncio.TaskGroup() as group:
            working, asked = group.create_task(stranger.request(large("S"), 60)), 0
            while not working.done():
                assert (await peer.ask_route("T")).code == 0
                asked += 1
        assert working.result().code == 0
        assert asked > 5
        listed = decode(TopicList, (await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body).topic_list
        assert len(listed) == len({*listed}) == MANY + 2


async def test_short_compressed_registration_may_be_a_long_one(tmp_path: Path) -> None:
    table = {f"T{number:05}": TopicConfig(f"T{number:05}", 4, 4) for number in range(1000)}
    body = encode_register_body(RegisterBrokerBody(TopicConfigTable(topic_config_table=table)), compressed=True)
    assert len(body) < limits.SHORT_BYTES
    header = {**broker_header(), "haServerAddr": "h", "compressed": "true"}
    async with name_server(tmp_path) as server, Peer(server.address) as stranger, Peer(server.address) as peer:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(stranger.ask(RequestCode.REGISTER_BROKER, header, body))
            waited = 0
            while not working.done():
                await peer.ask_route("T")
                waited += len(server._work)
        assert working.result().code == 0
        assert waited > 0, "it had more than one turn"


async def test_registration_over_a_new_connection_wins_over_one_that_is_still_read(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Peer(server.address) as old, Peer(server.address) as new:
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(old.request(large("S"), 60))
            while not len(server._work):
                await new.ask_route("T")
            quick = await new.register("T", "U", name="S", address="S:1", data_version=DataVersion(2))
        assert (slow.result().code, quick.code) == (1, 0)
        await old.close()
        assert sorted(server.table.topics()) == ["T", "U"]
        assert (await new.ask_route("T")).code == 0


async def test_unregistration_wins_over_a_registration_that_is_still_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        answers = await asyncio.gather(
            peer.request(large("S"), 60),
            peer.ask(RequestCode.UNREGISTER_BROKER, broker_header(name="S", address="S:1")),
        )
        assert [answer.code for answer in answers] == [1, 0]
        assert (await peer.clusters()).broker_addr_table == {}


async def test_registration_whose_connection_is_gone_does_not_happen(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Peer(server.address) as peer:
        async with Peer(server.address) as stranger:
            await stranger.send_oneway(large("S"), 60)
            while not len(server._work):
                await peer.ask_route("T")
        while len(server._work):
            assert "S" not in server.table.brokers() or server.table.offer_total < MANY
            await peer.ask_route("T")
        assert (await peer.clusters()).broker_addr_table == {}


async def test_one_address_under_many_names_leaves_with_its_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        async with Peer(peer.address) as stranger:
            for number in range(50):
                assert (await stranger.register("T", "U", name=f"n{number}", address=OTHER)).code == 0
            assert list((await peer.clusters()).broker_addr_table) == ["n49"]
        await peer.until_unknown("T")
        assert (await peer.clusters()).broker_addr_table == {}


async def test_refused_registration_over_its_own_connection_is_a_sign_of_life(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with name_server(tmp_path, clock=clock) as server, Peer(server.address) as peer:
        await peer.register("T", "U")
        monkeypatch.setattr(limits, "OFFERS_MAX", 2)
        for counter in range(2, 5):
            clock.advance(100)
            refused = await peer.register("T", "U", "V", data_version=DataVersion(counter))
            assert refused.code == 1
            server.scan()
        assert (await peer.ask_route("T")).code == 0
        assert (await peer.ask_route("V")).code == 17


async def test_lists_of_one_connection_keep_no_broker_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with name_server(tmp_path) as server, Peer(server.address) as stranger, Peer(server.address) as peer:
        assert (await peer.request(large("S", 20_000), 60)).code == 0
        question = Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        made = 0
        listed = server.table._select

        def counted_lists(is_wanted: Any) -> Any:
            nonlocal made
            yield
            made += 1
            return (yield from listed(is_wanted))

        monkeypatch.setattr(server.table, "_select", counted_lists)
        async with asyncio.TaskGroup() as group:
            lists = [group.create_task(stranger.request(replace(question), 60)) for _ in range(100)]
            while len(server._work) < 50:
                await peer.ask_route("T")
            assert (await peer.request(large("R", 1000), 60)).code == 0
            assert made < 50, "a registration waits for a few lists, not for all of them"
        assert {answer.result().code for answer in lists} == {0}


async def test_slave_that_stands_in_publishes_what_it_said_before(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Peer(server.address) as master, Peer(server.address) as slave:
        await master.register("T", "U", enableActingMaster="true")
        told = registration("T", "U", "V", broker_id=1, address=SLAVE, enableActingMaster="true")
        assert (await slave.request(replace(told), 5)).code == 0
        assert server.table.live.kept == 2
        assert (await slave.request(replace(told), 5)).code == 0
        assert (await slave.ask_route("V")).code == 17
        await master.unregister()
        assert (await slave.request(replace(told), 5)).code == 0
        assert await slave.perm("V") == 4


async def test_mapping_of_a_stranger_is_left_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        await peer.register("T", "U")
        table = TopicConfigTable(
            DataVersion(1),
            topic_config_table={name: TopicConfig(name, 4, 4) for name in ("T", "U")},
            topic_queue_mapping_info_map={"T": TopicQueueMappingInfo("T", "B", 9, curr_id_map={0: 0})},
        )
        header = {**broker_header(name="S", address=OTHER), "haServerAddr": "h"}
        body = encode_register_body(RegisterBrokerBody(table), compressed=False)
        assert (await peer.ask(RequestCode.REGISTER_BROKER, header, body)).code == 0
        assert (await peer.route("T")).topic_queue_mapping_by_broker is None


async def test_mappings_of_a_topic_fit_into_its_route_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUTE_QUEUES_MAX", 4)
    async with serving(tmp_path) as peer:
        for name, queues in (("B", 3), ("crowding", 2), ("S", 1)):
            mapping = TopicQueueMappingInfo("T", name, 4, curr_id_map={number: number for number in range(queues)})
            table = TopicConfigTable(
                DataVersion(1),
                topic_config_table={topic: TopicConfig(topic, 4, 4) for topic in ("T", "U")},
                topic_queue_mapping_info_map={"T": mapping},
            )
            header = {**broker_header(name=name, address=f"{name}:1"), "haServerAddr": "h"}
            body = encode_register_body(RegisterBrokerBody(table), compressed=False)
            assert (await peer.ask(RequestCode.REGISTER_BROKER, header, body)).code == 0
        assert set((await peer.route("T")).topic_queue_mapping_by_broker or ()) == {"B", "S"}


async def test_settings_have_a_bound_and_are_saved_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_in: set[int] = set()

    def watched(path: Path, content: bytes, mode: int = 0o644) -> None:
        saved_in.add(threading.get_ident())
        replace_file(path, content, mode=mode)

    monkeypatch.setattr("rocketline.settings.effective.replace_file", watched)
    async with serving(tmp_path) as peer:
        refusal = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"#" * (64 * 1024 + 1))
        assert (refusal.code, "65536" in (refusal.remark or "")) == (1, True)
        updates = (
            peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"waitSecondsForService={number}".encode())
            for number in range(20)
        )
        assert {answer.code for answer in await asyncio.gather(*updates)} == {0}
    assert saved_in
    assert threading.get_ident() not in saved_in
    assert "waitSecondsForService=19" in (tmp_path / "namesrv.conf").read_text()


async def test_topics_added_one_by_one_are_checked_alike(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        await peer.register("T", "U")
        for topic, queues, code in (("V", 4, 0), ("W", 2**31 - 1, 1), ("X" * 300, 4, 1)):
            body = encode(TopicRouteData([QueueData("B", queues, queues, 6)]))
            assert (await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, body)).code == code
        assert (await peer.ask_route("V")).code == 0
        assert (await peer.ask_route("W")).code == 17
