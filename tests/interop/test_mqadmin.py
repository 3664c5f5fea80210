"""Must hold 1: `mqadmin` shows the same through our name server as through Apache's own.

Each test runs one sequence of commands against ours and against Apache's. Beside the comparison it looks at one fact of
ours, so that two servers which fail alike do not pass.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.apache.cluster import Cluster, NameServers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120, func_only=True)]


def _perms(route: Any) -> dict[str, int]:
    return {queue["brokerName"]: queue["perm"] for queue in route["queueDatas"]}


def test_cluster_list_shows_two_masters_and_the_slave(cluster: Cluster) -> None:
    ours, apache = cluster.name_servers.side_by_side("clusterList", "clusterList -m")
    assert ours == apache
    assert ours[0].printed == [
        ["DefaultCluster", "broker-a", "0", cluster.master_a.address, "V5_5_0", "true"],
        ["DefaultCluster", "broker-a", "1", cluster.slave_a.address, "V5_5_0", "false"],
        ["DefaultCluster", "broker-b", "0", cluster.master_b.address, "V5_5_0", "true"],
    ]


def test_topic_route_shows_both_masters_and_the_slave(cluster: Cluster) -> None:
    ours, apache = cluster.name_servers.side_by_side("topicRoute -t TBW102", "topicRoute -l -t TBW102")
    assert ours == apache
    addresses = {data["brokerName"]: data["brokerAddrs"] for data in ours[0].printed["brokerDatas"]}
    assert addresses == {
        "broker-a": {"0": cluster.master_a.address, "1": cluster.slave_a.address},
        "broker-b": {"0": cluster.master_b.address},
    }


def test_topic_route_of_unknown_topic_fails_with_code_17(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side("topicRoute -t no-such-topic")
    assert ours == apache
    assert ours[0].thrown == ["SubCommandException", "MQClientException 17"]


def test_topic_lists(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side("topicList", "topicList -c", "topicClusterList -t TBW102")
    assert ours == apache
    assert {"TBW102", "broker-a", "broker-b", "DefaultCluster"} < set(ours[0].printed)


def test_topic_status_asks_the_brokers_of_the_route(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side("topicStatus -t TBW102", "brokerStatus -c nowhere", "statsAll -a")
    assert ours == apache
    assert ours[0].printed


def test_kv_config_is_stored_in_the_same_file_form(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side(
        "updateKvConfig -s shop -k open -v yes=1",
        r"""updateKvConfig -s shop -k grüße -v 'say "hi" \o/ ☃'""",
        "updateKvConfig -s empty -k gone -v 1",
        "deleteKvConfig -s empty -k gone",
        "deleteKvConfig -s shop -k never-there",
        "deleteKvConfig -s never-there -k never-there",
    )
    assert ours == apache
    files = [server.output.parent / "kvConfig.json" for server in (name_servers.ours, name_servers.apache)]
    stored, expected = (json.loads(file.read_text("utf-8")) for file in files)
    assert stored == expected
    assert stored["configTable"]["shop"] == {"open": "yes=1", "grüße": r'say "hi" \o/ ☃'}


def test_order_config_shows_in_the_route_once_enabled(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side(
        "updateOrderConf -t TBW102 -m put -v broker-a:4;broker-b:2",
        "updateOrderConf -t TBW102 -m get",
        "topicRoute -t TBW102",
        "updateNamesrvConfig -k orderMessageEnable -v true",
        "topicRoute -t TBW102",
        "updateOrderConf -t TBW102 -m delete",
        "updateOrderConf -t TBW102 -m get",
        "topicRoute -t TBW102",
        "updateNamesrvConfig -k orderMessageEnable -v false",
    )
    assert ours == apache
    told = [shown.printed.get("orderTopicConf") for shown in ours if shown.command.startswith("topicRoute")]
    assert told == [None, "broker-a:4;broker-b:2", None]
    assert ours[6].thrown == ["SubCommandException", "MQClientException 22"]


def test_wiped_write_permission_comes_back_when_added(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side(
        "wipeWritePerm -b broker-a",
        "topicRoute -t TBW102",
        "addWritePerm -b broker-a",
        "topicRoute -t TBW102",
        "wipeWritePerm -b nobody",
        "addWritePerm -b nobody",
    )
    assert ours == apache
    assert _perms(ours[1].printed) == {"broker-a": 5, "broker-b": 7}
    assert _perms(ours[3].printed) == {"broker-a": 6, "broker-b": 7}


def test_name_server_config_is_shown_updated_and_protected(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side(
        "getNamesrvConfig",
        "updateNamesrvConfig -k scanNotActiveBrokerInterval -v 4000",
        "updateNamesrvConfig -k waitSecondsForService -v soon",
        "updateNamesrvConfig -k noSuchKey -v 1",
        "updateNamesrvConfig -k kvConfigPath -v elsewhere",
        "updateNamesrvConfig -k configStorePath -v elsewhere",
        "updateNamesrvConfig -k rocketmqHome -v elsewhere",
        "updateNamesrvConfig -k configBlackList -v none",
        "getNamesrvConfig",
    )
    assert ours == apache
    assert [shown.thrown[-1:] for shown in ours] == [[]] * 4 + [["MQClientException 16"]] * 4 + [[]]
    assert "scanNotActiveBrokerInterval                       =  4000" in ours[-1].printed


def test_topic_lists_can_be_switched_off(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side(
        "updateNamesrvConfig -k enableAllTopicList -v false",
        "topicList",
        "updateNamesrvConfig -k enableAllTopicList -v true",
        "topicList",
    )
    assert ours == apache
    assert [shown.thrown[-1:] for shown in ours] == [[], ["MQClientException 1"], [], []]


def test_deleted_topic_is_gone(name_servers: NameServers) -> None:
    ours, apache = name_servers.side_by_side(
        "updateTopic -c DefaultCluster -t Doomed -r 4 -w 2 -p 6",
        "topicRoute -t Doomed",
        "deleteTopic -c DefaultCluster -t Doomed",
        "topicRoute -t Doomed",
        "deleteTopic -c nowhere -t Doomed",
        # A deletion changes a broker's data version and registers nothing: the next registration, up to 30 s later,
        # would renew all of its topics. This one makes it happen now, before the next test.
        "updateTopic -c DefaultCluster -t Kept",
    )
    assert ours == apache
    assert _perms(ours[1].printed) == {"broker-a": 6, "broker-b": 6}
    assert ours[3].thrown == ["SubCommandException", "MQClientException 17"]
    # The second sequence created the topic anew in both name servers and deleted it in one.
    name_servers.show(name_servers.ours, "deleteTopic -c DefaultCluster -t Doomed")
    name_servers.show(name_servers.ours, "updateTopic -c DefaultCluster -t Kept")
