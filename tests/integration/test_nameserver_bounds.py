"""What a stranger may bring to a name server, and what others feel of it: a step of his work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from name_servers import OTHER, Peer, broker_header, name_server, registration, serving
from rocketline.model.queue import QUEUES_MAX
from rocketline.model.route import QueueData, TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver.handlers import brokers
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.lists import TopicList
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

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


async def test_unregistration_wins_over_a_registration_that_is_still_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        answers = await asyncio.gather(
            peer.request(large("S"), 60),
            peer.ask(RequestCode.UNREGISTER_BROKER, broker_header(name="S", address="S:1")),
        )
        assert [answer.code for answer in answers] == [1, 0]
        assert (await peer.clusters()).broker_addr_table == {}


async def test_registration_whose_connection_is_gone_does_not_happen(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        async with Peer(peer.address) as stranger:
            await stranger.send_oneway(large("S"), 60)
            await peer.ask_route("T")
        for _ in range(200):
            await peer.ask_route("T")
        assert (await peer.clusters()).broker_addr_table == {}


async def test_topics_added_one_by_one_are_checked_alike(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        await peer.register("T", "U")
        for topic, queues, code in (("V", 4, 0), ("W", 2**31 - 1, 1), ("X" * 300, 4, 1)):
            body = encode(TopicRouteData([QueueData("B", queues, queues, 6)]))
            assert (await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, body)).code == code
        assert (await peer.ask_route("V")).code == 0
        assert (await peer.ask_route("W")).code == 17
