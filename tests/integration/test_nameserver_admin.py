"""KV configuration, permissions, lists and settings at a name server."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import ConfigError, ListenError
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver.config import load_settings
from rocketline.settings import parse_properties
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.lists import KVTable, TopicList
from rocketline.wire.codes import RequestCode, ResponseCode
from support.name_servers.running import MASTER, OTHER, Peer, name_server, serving

OK = ResponseCode.SUCCESS
ENTRY = {"namespace": "ns", "key": "key", "value": "a value"}


async def topics(peer: Peer, code: int, **ext: str) -> list[str]:
    answer = await peer.ask(code, ext)
    assert answer.code == OK
    return decode(TopicList, answer.body).topic_list


async def shown_settings(peer: Peer) -> dict[str, str]:
    answer = await peer.ask(RequestCode.GET_NAMESRV_CONFIG)
    return {pair.key: pair.value for pair in parse_properties(answer.body)}


async def test_kv_value_is_found_again_also_after_a_restart(tmp_path: Path) -> None:
    """S45."""
    async with serving(tmp_path) as peer:
        assert (await peer.ask(RequestCode.PUT_KV_CONFIG, ENTRY)).code == OK
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, ENTRY)).ext == {"value": "a value"}
    async with serving(tmp_path) as peer:
        answer = await peer.ask(RequestCode.GET_KV_CONFIG, ENTRY)
    assert (answer.code, answer.ext) == (OK, {"value": "a value"})


async def test_absent_kv_key_or_namespace_is_answered_22(tmp_path: Path) -> None:
    """S46."""
    async with serving(tmp_path) as peer:
        await peer.ask(RequestCode.PUT_KV_CONFIG, ENTRY)
        for absent in ({"key": "other"}, {"namespace": "other"}):
            answer = await peer.ask(RequestCode.GET_KV_CONFIG, ENTRY | absent)
            assert answer.code == ResponseCode.QUERY_NOT_FOUND


async def test_delete_of_an_absent_kv_key_succeeds(tmp_path: Path) -> None:
    """S47."""
    async with serving(tmp_path) as peer:
        assert (await peer.ask(RequestCode.DELETE_KV_CONFIG, ENTRY)).code == OK


async def test_namespace_is_unknown_until_used_and_empty_when_emptied(tmp_path: Path) -> None:
    """S48."""
    async with serving(tmp_path) as peer:

        async def listed() -> dict[str, str] | int:
            answer = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ns"})
            return decode(KVTable, answer.body).table if answer.code == OK else answer.code

        assert await listed() == ResponseCode.QUERY_NOT_FOUND
        await peer.ask(RequestCode.PUT_KV_CONFIG, ENTRY)
        assert await listed() == {"key": "a value"}
        await peer.ask(RequestCode.DELETE_KV_CONFIG, ENTRY)
        assert await listed() == {}


async def test_wiped_write_permission_is_counted_and_gone(tmp_path: Path) -> None:
    """S49."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", TopicConfig("T7", perm=7))
        await peer.register("T1", "Other", name="O", address=OTHER)
        answer = await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "B"})
        assert (answer.code, answer.ext) == (OK, {"wipeTopicCount": "2"})
        assert [await peer.perm("T1"), await peer.perm("T7"), await peer.perm("T1", "O")] == [4, 5, 6]


async def test_added_write_permission_is_exactly_read_and_write(tmp_path: Path) -> None:
    """S50."""
    async with serving(tmp_path) as peer:
        await peer.register(TopicConfig("T4", perm=4), TopicConfig("T7", perm=7))
        answer = await peer.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "B"})
        assert (answer.code, answer.ext) == (OK, {"addTopicCount": "2"})
        assert [await peer.perm("T4"), await peer.perm("T7")] == [6, 6]


async def test_unknown_broker_has_no_topics_to_wipe_or_add(tmp_path: Path) -> None:
    """S51."""
    async with serving(tmp_path) as peer:
        wiped = await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "unknown"})
        added = await peer.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "unknown"})
    assert (wiped.code, wiped.ext, added.code, added.ext) == (OK, {"wipeTopicCount": "0"}, OK, {"addTopicCount": "0"})


async def test_deleted_topic_is_unknown_until_it_is_registered_again(tmp_path: Path) -> None:
    """S52."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T1"})).code == OK
        assert (await peer.ask_route("T1")).code == ResponseCode.TOPIC_NOT_EXIST
        await peer.register("T1", "T2")
        assert (await peer.ask_route("T1")).code == OK


async def test_topic_deleted_in_one_cluster_stays_in_the_other(tmp_path: Path) -> None:
    """S53."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        await peer.register("T1", "T2", name="O", address=OTHER, cluster="D")
        for cluster in ("unknown", "C"):
            asked = {"topic": "T1", "clusterName": cluster}
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, asked)).code == OK
        assert [offer.broker_name for offer in (await peer.route("T1")).queue_datas] == ["O"]
        assert len((await peer.route("T2")).queue_datas) == 2


async def test_topics_of_a_cluster_are_none_if_it_is_unknown(tmp_path: Path) -> None:
    """S54."""
    async with serving(tmp_path) as peer:
        await peer.register("T1", "T2")
        await peer.register("T2", "T3", name="O", address=OTHER, cluster="D")
        assert await topics(peer, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="unknown") == []
        assert set(await topics(peer, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="D")) == {"T2", "T3"}
        assert set(await topics(peer, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)) == {"T1", "T2", "T3"}


async def test_system_topics_are_clusters_and_brokers_and_one_address(tmp_path: Path) -> None:
    """S55."""
    async with serving(tmp_path) as peer:
        assert (await peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body == b'{"topicList":[]}'
        await peer.register("T1", "T2")
        listed = decode(TopicList, (await peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body)
    assert (set(listed.topic_list), listed.broker_addr) == ({"B", "C"}, MASTER)


async def test_unit_topics_are_told_by_their_system_flag(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        await peer.register(*(TopicConfig(f"T{flag}", topic_sys_flag=flag) for flag in range(4)))
        assert await topics(peer, RequestCode.GET_UNIT_TOPIC_LIST) == ["T1", "T3"]
        assert await topics(peer, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["T2", "T3"]
        assert await topics(peer, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["T2"]


async def test_disabled_lists_are_answered_1(tmp_path: Path) -> None:
    """S56."""
    async with serving(tmp_path) as peer:
        assert await _list_codes(peer) == {206: 0, 224: 0, 311: 0, 312: 0, 313: 0}
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false")
        assert await _list_codes(peer) == {206: 1, 224: 0, 311: 0, 312: 0, 313: 0}
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=true\nenableTopicList=false")
        assert await _list_codes(peer) == {206: 0, 224: 1, 311: 1, 312: 1, 313: 1}


async def _list_codes(peer: Peer) -> dict[int, int]:
    return {code: (await peer.ask(code, {"cluster": "C"})).code for code in (206, 224, 311, 312, 313)}


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList", "mine"])
async def test_update_with_a_protected_key_is_refused_as_a_whole(tmp_path: Path, key: str) -> None:
    """S57."""
    async with serving(tmp_path, configBlackList="configBlackList;mine") as peer:
        before = await shown_settings(peer)
        answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"orderMessageEnable=true\n{key}=x\n".encode())
        assert answer.code == ResponseCode.NO_PERMISSION
        assert key in (answer.remark or "")
        assert await shown_settings(peer) == before


async def test_update_counts_at_once_and_after_a_restart(tmp_path: Path) -> None:
    """S58."""
    async with serving(tmp_path) as peer:
        answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
        assert answer.code == OK
        assert (await shown_settings(peer))["orderMessageEnable"] == "true"
    assert load_settings(tmp_path / "namesrv.conf", environ={}).value.order_message_enable is True


async def test_update_of_an_unknown_key_succeeds_and_is_not_shown(tmp_path: Path) -> None:
    """S59."""
    async with serving(tmp_path) as peer:
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"noSuchKey=1")).code == OK
        assert "noSuchKey" not in await shown_settings(peer)


async def test_update_without_body_changes_nothing_and_a_broken_one_is_answered_1(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        before = await shown_settings(peer)
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG)).code == OK
        answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\nx=\\u12")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert await shown_settings(peer) == before
    assert not (tmp_path / "namesrv.conf").exists()


async def test_update_that_cannot_be_saved_is_told_and_counts_until_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with serving(tmp_path, configStorePath=str(tmp_path / "file" / "namesrv.conf")) as peer:
        answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "until the next start" in (answer.remark or "")
        assert (await shown_settings(peer))["orderMessageEnable"] == "true"


async def test_client_configuration_is_no_request_of_this_release(tmp_path: Path) -> None:
    """S60."""
    async with serving(tmp_path) as peer:
        assert (await peer.ask(47)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_kv_file_that_cannot_be_understood_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "kvConfig.json").write_text("{")
    with pytest.raises(ConfigError, match=r"kvConfig\.json"):
        async with name_server(tmp_path):
            pass


async def test_taken_port_stops_the_start_with_its_address(tmp_path: Path) -> None:
    async with name_server(tmp_path) as first:
        with pytest.raises(ListenError, match=str(first.port)):
            async with name_server(tmp_path, listenPort=str(first.port)):
                pass


async def test_what_fails_inside_reaches_the_caller_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with name_server(tmp_path):
            raise ZeroDivisionError


async def test_data_version_of_zero_is_registered_by_a_broker_without_body(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        header = {"brokerName": "B", "brokerAddr": MASTER, "clusterName": "C", "brokerId": "0", "haServerAddr": "h"}
        assert (await peer.ask(RequestCode.REGISTER_BROKER, header)).code == OK
        answer = await peer.ask(RequestCode.QUERY_DATA_VERSION, header)
        assert decode(DataVersion, answer.body) == DataVersion(0, 0, 0)
