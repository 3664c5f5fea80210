"""Requests and route queries at a name server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rocketline.model.route import TopicRouteData
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.bodies import decode
from rocketline.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command
from support.name_servers.running import MASTER, OTHER, SLAVE, Peer, name_server, registration, serving
from support.net.servers import read_command

OK = ResponseCode.SUCCESS


async def test_unknown_code_is_answered_3(tmp_path: Path) -> None:
    """S1."""
    async with serving(tmp_path) as peer:
        for code in (0, 10, 4711, 200_050, -1):
            assert (await peer.ask(code)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_oneway_requests_work_and_are_never_answered(tmp_path: Path) -> None:
    """S2."""
    async with name_server(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        oneway = registration("T1", "T2")
        oneway.flag = ONEWAY_FLAG
        silent = [
            oneway,
            Command(4711, opaque=1, flag=ONEWAY_FLAG),
            Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=2, flag=ONEWAY_FLAG),
            *[Command(105, {"topic": "T1"}, opaque=3, flag=ONEWAY_FLAG)] * 2,
        ]
        writer.write(b"".join(map(frame.encode, [*silent, Command(105, {"topic": "T1"}, opaque=4)])))
        answer = await read_command(reader)
        assert (answer.opaque, answer.code) == (4, OK)
        writer.close()
        await writer.wait_closed()


async def test_pipelined_requests_are_matched_by_opaque(tmp_path: Path) -> None:
    """S3, S4."""
    async with serving(tmp_path) as peer, asyncio.timeout(10):
        await peer.register("T1", "T2")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(peer.address.rpartition(":")[2]))
        opaques = [7, 0, 99, 100, -5, 2_147_483_647, -2_147_483_648, 123_456_789, 1_234_567_890]
        topics = {opaque: "T1" if opaque % 3 else "unknown" for opaque in opaques}
        for _ in range(3):
            writer.writelines(frame.encode(Command(105, {"topic": t}, opaque=o)) for o, t in topics.items())
            answers = [await read_command(reader) for _ in opaques]
            assert all(answer.flag == RESPONSE_FLAG for answer in answers)
            assert {answer.opaque: answer.code for answer in answers} == {
                opaque: OK if topic == "T1" else ResponseCode.TOPIC_NOT_EXIST for opaque, topic in topics.items()
            }
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("code", [100, 101, 102, 103, 104, 105, 205, 216, 217, 219, 224, 322, 327, 901, 904])
async def test_missing_field_is_answered_1_with_the_exception_and_the_field(tmp_path: Path, code: int) -> None:
    """S5."""
    async with serving(tmp_path) as peer:
        answer = await peer.ask(code, {"irrelevant": "x"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "RemoteProtocolError: " in (answer.remark or "")
    assert "is missing" in (answer.remark or "")


async def test_frame_over_16_mib_closes_the_connection_without_answer(tmp_path: Path) -> None:
    """S7."""
    async with serving(tmp_path) as peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(peer.address.rpartition(":")[2]))
        writer.write((16 * 1024 * 1024 - 3).to_bytes(4, "big") + b"\0\0\0\x10" + b"{" * 16)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert (await peer.ask_route("T")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_both_header_encodings_are_answered_alike(tmp_path: Path) -> None:
    """S8."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(peer.address.rpartition(":")[2]))
        answers = []
        for kind in (*SerializeType, *SerializeType):
            writer.write(frame.encode(Command(105, {"topic": "T1"}, opaque=5, serialize_type=kind)))
            answers.append(await read_command(reader))
        assert answers[0].serialize_type == SerializeType.JSON
        assert answers[0].code == OK
        assert all(answer == answers[0] for answer in answers)
        writer.close()
        await writer.wait_closed()


async def test_server_told_to_write_binary_headers_does_so(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rocketmq.serialize.type": "ROCKETMQ"}
    async with serving(tmp_path, **settings) as peer:
        await peer.register("T1", "T2")
        for _ in range(2):
            answer = await peer.ask_route("T1")
            assert (answer.code, answer.serialize_type) == (OK, SerializeType.ROCKETMQ)


async def test_unknown_topic_is_answered_17_and_named(tmp_path: Path) -> None:
    """S37."""
    async with serving(tmp_path) as peer:
        answer = await peer.ask_route("Nowhere")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "Nowhere" in (answer.remark or "")


@pytest.mark.parametrize(
    ("version", "ext", "is_strict"),
    [
        (401, {}, True),
        (513, {}, True),
        (9999, {}, True),
        (400, {}, False),
        (317, {}, False),
        (317, {"acceptStandardJsonOnly": "true"}, True),
        (317, {"acceptStandardJsonOnly": "false"}, False),
    ],
)
async def test_ids_are_quoted_for_those_who_read_strict_json_only(
    tmp_path: Path, version: int, ext: dict[str, str], is_strict: bool
) -> None:
    """S38."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2", name="Bü")
        answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1", **ext}, version=version)
    key = b'"0"' if is_strict else b"0"
    assert b'"brokerAddrs":{' + key + b':"' + MASTER.encode() + b'"}' in answer.body
    if is_strict:
        assert json.loads(answer.body)["queueDatas"][0]["brokerName"] == "Bü"


async def test_order_configuration_is_told_only_if_enabled(tmp_path: Path) -> None:
    """S39."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "B:4"}
        await peer.ask(RequestCode.PUT_KV_CONFIG, entry)
        assert b"orderTopicConf" not in (await peer.ask_route("T1")).body
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
        assert (await peer.route("T1")).order_topic_conf == "B:4"
        assert b"orderTopicConf" not in (await peer.ask_route("T2")).body


async def test_acting_master_shows_as_id_0_in_routes_only(tmp_path: Path) -> None:
    """S40."""
    async with serving(tmp_path, supportActingMaster="true") as peer:
        for broker_id, address in ((1, SLAVE), (2, OTHER)):
            await peer.register("T1", "T2", broker_id=broker_id, address=address, enableActingMaster="true")
        assert await peer.addresses("T1") == {0: SLAVE, 2: OTHER}
        assert (await peer.clusters()).broker_addr_table["B"].broker_addrs == {1: SLAVE, 2: OTHER}


async def test_zone_hides_masters_of_other_zones(tmp_path: Path) -> None:
    """S41."""
    async with serving(tmp_path) as peer:
        zones = {"__ZONE_NAME": "here"}, {"__ZONE_NAME": "there"}
        await peer.register("T1", "T2", **zones[0])
        await peer.register("T1", "T2", name="O", address=OTHER, **zones[1])
        near = {"__ZONE_MODE": "true", "__ZONE_NAME": "HERE"}
        for _ in range(2):
            answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1", **near})
            route = decode(TopicRouteData, answer.body)
            assert [data.broker_name for data in route.broker_datas] == ["B"]
            assert [offer.broker_name for offer in route.queue_datas] == ["B"]
            assert b'{0:"' in answer.body, "the dialect, whoever asks"
        for far in ({"__ZONE_MODE": "false", "__ZONE_NAME": "here"}, {"__ZONE_MODE": "true", "__ZONE_NAME": " "}):
            answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1", **far})
            assert len(decode(TopicRouteData, answer.body).broker_datas) == 2
        answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "unknown", **near})
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_young_server_refuses_routes_if_so_configured(tmp_path: Path) -> None:
    """S42."""
    clock = FakeClock()
    async with serving(tmp_path, clock=clock, needWaitForService="true") as peer:
        await peer.register("T1", "T2")
        clock.advance(44.9)
        assert (await peer.ask_route("T1")).code == ResponseCode.SYSTEM_ERROR
        clock.advance(0.1)
        for _ in range(2):
            assert (await peer.ask_route("T1")).code == OK
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"waitSecondsForService=60")
        assert (await peer.ask_route("T1")).code == ResponseCode.SYSTEM_ERROR


async def test_topic_of_two_brokers_shows_both(tmp_path: Path) -> None:
    """S43."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        await peer.register("T1", "T2", name="O", address=OTHER)
        route = await peer.route("T1")
    assert {offer.broker_name for offer in route.queue_datas} == {"B", "O"}
    assert {data.broker_name for data in route.broker_datas} == {"B", "O"}


async def test_topic_of_auto_creation_has_the_permission_to_inherit(tmp_path: Path) -> None:
    """S44."""
    async with serving(tmp_path) as peer:
        await peer.register(TopicConfig("TBW102", 8, 8, perm=7), "T2")
        assert await peer.perm("TBW102") == 7


async def test_kept_answer_follows_every_change_at_once(tmp_path: Path) -> None:
    """The same question, asked so often that its answer is kept, sees each change with the next answer."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")

        async def perms() -> set[int]:
            return {await peer.perm("T1") for _ in range(15)}

        assert await perms() == {6}
        await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "B"})
        assert await perms() == {4}
        async with Peer(peer.address) as slave:
            await slave.register(broker_id=1, address=SLAVE)
            assert await peer.addresses("T1") == {0: MASTER, 1: SLAVE}
        while SLAVE in (await peer.addresses("T1")).values():
            pass
        await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T1"})
        assert (await peer.ask_route("T1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_server_that_goes_away_says_so_even_where_an_answer_is_kept(tmp_path: Path) -> None:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    going = asyncio.Event()

    async def serve_until_going() -> None:
        async with name_server(tmp_path, enableShutdownGracefully="true") as server:
            started.set_result(server.port)
            await going.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve_until_going())
        reader, writer = await asyncio.open_connection("127.0.0.1", await started)
        writer.write(frame.encode(registration("T1", "T2")))
        assert (await read_command(reader)).code == OK
        codes = []
        for _ in range(3):
            writer.write(frame.encode(Command(105, {"topic": "T1"}, opaque=5)))
            codes.append((await read_command(reader)).code)
        going.set()
        while codes[-1] == OK:
            writer.write(frame.encode(Command(105, {"topic": "T1"}, opaque=5)))
            codes.append((await read_command(reader)).code)
        assert codes[-1] == ResponseCode.GO_AWAY
        writer.close()
        await writer.wait_closed()
