"""Our name server and Apache's, told the same by made-up brokers, answer every request alike.

The histories are random but always the same ones: a seed names each, and a failure shows the steps that led to it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rocketline.testing.apache import ClientJvm, Release
from rocketline.wire.codes import RequestCode as Code
from support.apache import cluster as apache_cluster
from support.name_servers.twins import JAVA_4_9_3, Answer, Request, Twin, registration, twins

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

CLUSTERS = ("east", "west")
NAMES = ("a", "b")
TOPICS = ("T0", "T1", "T2", "T3", "grüße")
KEYS = ("T0", "T1", "key")
WRONG_CRC = "12345"
NAMESPACES = ("ORDER_TOPIC_CONFIG", "shop")
MAPPINGS = "topicQueueMappingByBroker"
SWITCHES = (
    "orderMessageEnable",
    "supportActingMaster",
    "deleteTopicWithBrokerRegistration",
    "returnOrderTopicConfigToBroker",
)


@pytest.fixture(scope="module")
def pair(
    release: Release, clients: ClientJvm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[apache_cluster.NameServers]:
    with apache_cluster.name_servers(release, clients, tmp_path_factory.mktemp("twins"), {}) as servers:
        yield servers


@dataclass(frozen=True, slots=True)
class HangUp:
    """A caller closes its connection."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one caller does."""

    caller: str
    action: Request | HangUp


class History:
    """Steps drawn at random, with a good chance to meet each other: few names, few addresses, few versions."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def steps(self, count: int) -> Iterator[Step]:
        kinds = {
            self._registration: 10,
            self._hang_up: 2,
            self._unregistration: 2,
            self._data_version: 2,
            self._heartbeat: 1,
            self._single_topic: 2,
            self._deletion: 2,
            self._write_permission: 2,
            self._kv: 3,
            self._switch: 2,
        }
        for kind in self._draw.choices(list(kinds), list(kinds.values()), k=count):
            yield kind()

    def _one_of(self, *values: str) -> str:
        return self._draw.choice(values)

    def _broker(self) -> dict[str, str]:
        """A broker name lives in one cluster; an address has one id, mostly."""
        name, broker_id = self._one_of(*NAMES), self._draw.choice((0, 0, 1, 2))
        host = broker_id if self._draw.random() < 0.8 else self._draw.randrange(4)
        cluster, address = CLUSTERS[NAMES.index(name)], f"10.0.{NAMES.index(name)}.{host}:10911"
        return {"clusterName": cluster, "brokerName": name, "brokerId": str(broker_id), "brokerAddr": address}

    def _version(self) -> dict[str, int]:
        small = self._draw.randrange
        return {"counter": small(3), "stateVersion": small(2), "timestamp": 1_700_000_000_000 + small(2)}

    def _queues(self, topic: str) -> dict[str, int]:
        pick = self._draw.choice
        return {
            "readQueueNums": pick((1, 4, 8)),
            "writeQueueNums": pick((1, 4, 8)),
            "perm": pick((2, 4, 6, 6, 7)),
            # The same for all brokers: a list of topics by this flag looks at one broker, no matter which.
            "topicSysFlag": TOPICS.index(topic) % 4,
        }

    def _registration(self) -> Step:
        broker = self._broker()
        fields = {**broker, "haServerAddr": broker["brokerAddr"].replace("10911", "10912")}
        optional = {
            "enableActingMaster": self._one_of("true", "false", ""),
            "heartbeatTimeoutMillis": self._one_of("600000", ""),
            "__ZONE_NAME": self._one_of("north", "", ""),
            "bodyCrc32": self._one_of("0", WRONG_CRC, *[""] * 20),
        }
        fields |= {key: value for key, value in optional.items() if value}
        chosen = self._draw.sample(TOPICS, self._draw.choice((0, 1, 1, 2, 3, 5)))
        mapping = {name: self._mapping(name, broker["brokerName"]) for name in chosen if self._draw.random() < 0.1}
        filters = self._draw.choice((None, None, [], ["10.0.9.9:1", "10.0.9.8:1"]))
        request = registration(
            fields,
            {name: self._queues(name) for name in chosen},
            data_version=self._version(),
            mappings=mapping,
            filter_servers=filters,
        )
        return Step(broker["brokerAddr"], request)

    def _mapping(self, topic: str, broker_name: str) -> dict[str, object]:
        total = self._draw.randrange(1, 9)
        return {"topic": topic, "bname": broker_name, "totalQueues": total, "epoch": total, "currIdMap": {"0": 0}}

    def _hang_up(self) -> Step:
        return Step(self._broker()["brokerAddr"], HangUp())

    def _unregistration(self) -> Step:
        return Step("observer", Request(Code.UNREGISTER_BROKER, self._broker()))

    def _data_version(self) -> Step:
        return Step("observer", Request(Code.QUERY_DATA_VERSION, self._broker(), json.dumps(self._version()).encode()))

    def _heartbeat(self) -> Step:
        return Step("observer", Request(Code.BROKER_HEARTBEAT, self._broker()))

    def _single_topic(self) -> Step:
        topic = self._one_of(*TOPICS)
        names = self._draw.sample((*NAMES, "nobody"), self._draw.randrange(1, 4))
        body = json.dumps({"queueDatas": [{"brokerName": name, **self._queues(topic)} for name in names]}).encode()
        return Step("observer", Request(Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, body))

    def _deletion(self) -> Step:
        cluster = self._one_of("", "", *CLUSTERS, "nowhere")
        fields = {"topic": self._one_of(*TOPICS), **({"clusterName": cluster} if cluster else {})}
        return Step("observer", Request(Code.DELETE_TOPIC_IN_NAMESRV, fields))

    def _write_permission(self) -> Step:
        code = self._draw.choice((Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER))
        return Step("observer", Request(code, {"brokerName": self._one_of(*NAMES, "nobody")}))

    def _kv(self) -> Step:
        code = self._draw.choice((Code.PUT_KV_CONFIG, Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG))
        place = {"namespace": self._one_of(*NAMESPACES), "key": self._one_of(*KEYS)}
        value = {"value": self._one_of("a:4;b:2", "grüße\t1")} if code == Code.PUT_KV_CONFIG else {}
        return Step("observer", Request(code, place | value))

    def _switch(self) -> Step:
        line = f"{self._one_of(*SWITCHES)}={self._one_of('true', 'false')}"
        return Step("observer", Request(Code.UPDATE_NAMESRV_CONFIG, body=line.encode()))


def questions() -> Iterator[Request]:
    """Everything that can be asked without changing anything."""
    lists = (
        Code.GET_BROKER_CLUSTER_INFO,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    )
    yield from map(Request, lists)
    for topic in TOPICS:
        yield Request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        yield Request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, version=JAVA_4_9_3)
        zone = {"__ZONE_MODE": "true", "__ZONE_NAME": "NORTH"}
        yield Request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true", **zone})
    for cluster in CLUSTERS:
        yield Request(Code.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
        for name in NAMES:
            yield Request(Code.GET_BROKER_MEMBER_GROUP, {"clusterName": cluster, "brokerName": name})
    for namespace in NAMESPACES:
        yield Request(Code.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})


def _settle(*both: Twin) -> None:
    """Wait until a broker that was lost after all others is gone: brokers leave some time after the answer.

    Those of the test before do, too: it ended by closing all their connections.
    """
    last = {"clusterName": "last", "brokerName": "last", "brokerId": "0", "brokerAddr": "10.0.8.8:1"}
    request = registration({**last, "haServerAddr": "10.0.8.8:2"}, {}, data_version={})
    for twin in both:
        twin.ask(request, "last")
        twin.hang_up("last")
        while not _is_known_without(twin.ask(Request(Code.GET_BROKER_CLUSTER_INFO)), "last"):
            time.sleep(0.005)


def _is_known_without(answer: Answer, cluster: str) -> bool:
    """Apache's writes its tables without a lock: while a broker leaves, it may answer an exception, without a body."""
    return answer.code == 0 and cluster not in answer.body["clusterAddrTable"]


def _take(twin: Twin, step: Step) -> Answer | None:
    if isinstance(step.action, HangUp):
        twin.hang_up(step.caller)
        return None
    if step.action.code == Code.QUERY_DATA_VERSION:
        known = twin.ask(Request(Code.GET_BROKER_CLUSTER_INFO)).body
        if step.action.ext["brokerAddr"] not in str(known):
            # Another address took its place. When it hangs up, ours forgets it; Apache's does when its time is up.
            return None
    return twin.ask(step.action, step.caller)


def _with_mappings_of(ours: Answer, apache: Answer) -> Answer:
    """Apache's answer without mappings of brokers that left, which go with them in ours."""
    if apache.request.code != Code.GET_ROUTEINFO_BY_TOPIC or not (ours.body and apache.body):
        return apache
    told, kept = apache.body.get(MAPPINGS) or {}, ours.body.get(MAPPINGS) or {}
    known = {name: one for name, one in told.items() if name in kept}
    if known == told:
        return apache
    body = {key: value for key, value in apache.body.items() if key != MAPPINGS}
    return apache._replace(body=body | ({MAPPINGS: known} if known else {}), spelling=ours.spelling)


def _is_refused(action: Request | HangUp, known: dict[str, Any], states: dict[str, int]) -> bool:
    """A registration that changes nothing of ours, and leaves a name or a flag in Apache's tables all the same.

    A single topic of a broker that is not there; an older state of one whose id another address has. `states` are
    those that the addresses have registered.
    """
    if isinstance(action, HangUp) or action.code != Code.REGISTER_BROKER or action.ext["bodyCrc32"] == WRONG_CRC:
        return False
    body, address = json.loads(action.body)["topicConfigSerializeWrapper"], action.ext["brokerAddr"]
    there = known["brokerAddrTable"].get(action.ext["brokerName"], {"brokerAddrs": {}})["brokerAddrs"]
    holder, state = there.get(action.ext["brokerId"]), body["dataVersion"]["stateVersion"]
    if holder is None and len(body["topicConfigTable"]) == 1:
        return True
    if holder not in (None, address) and states.get(holder, 0) > state:
        return True
    states[address] = state
    return False


def _unusual_requests() -> Iterator[Request]:
    """What no history asks: odd versions, flags, codes, settings and names, around one broker."""
    broker = {"clusterName": "c", "brokerName": "one", "brokerId": "0", "brokerAddr": "10.0.5.5:1", "haServerAddr": "h"}
    queues = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    yield registration(broker, {"T": queues, "U": queues}, data_version={"counter": 1})
    yield from (Request(code) for code in (0, 10, 47, 999, -1, 2**31 - 1, Code.GET_NAMESRV_CONFIG + 1))
    for version in (0, 1, 398, 399, 400, 401, 10_000, -1):
        yield Request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, version=version)
    for flag in ("true", "false", "TRUE", "1", ""):
        yield Request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T", "acceptStandardJsonOnly": flag}, version=0)
        yield Request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T", "__ZONE_MODE": flag, "__ZONE_NAME": "z"})
        yield Request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": flag})
    for field in ("brokerId", "compressed", "enableActingMaster"):
        for value in ("maybe", "", str(2**63), "-1"):
            odd = {"brokerName": "odd", "brokerAddr": "10.0.6.6:1", field: value}
            yield registration(broker | odd, {}, data_version={})
    for namespace, key, value in (("", "", ""), ("n", "", "1"), ("", "k", "1"), ("n", "k", "")):
        yield Request(Code.PUT_KV_CONFIG, {"namespace": namespace, "key": key, "value": value})
        yield Request(Code.GET_KV_CONFIG, {"namespace": namespace, "key": key})
        yield Request(Code.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
    yield Request(Code.GET_KV_CONFIG, {"namespace": "never", "key": "k"})
    yield Request(Code.DELETE_KV_CONFIG, {"namespace": "never", "key": "k"})
    yield Request(Code.GET_KVLIST_BY_NAMESPACE, {"namespace": "never"})
    yield Request(Code.DELETE_TOPIC_IN_NAMESRV, {"topic": "U", "clusterName": ""})
    yield Request(Code.DELETE_TOPIC_IN_NAMESRV, {"topic": "T", "clusterName": "elsewhere"})
    yield Request(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    for body in (b"", b"\n", b"name", b"=1", b"# kvConfigPath=1", b"kvConfigPath", b"a=\\u12", b"\xff=1", b"noSuch=1"):
        yield Request(Code.UPDATE_NAMESRV_CONFIG, body=body)
    for value in ("TRUE", "yes", "", "false", "true"):
        yield Request(Code.UPDATE_NAMESRV_CONFIG, body=f"enableTopicList={value}\nlistenPort=x".encode())
        yield Request(Code.GET_TOPICS_BY_CLUSTER, {"cluster": "c"})


def test_unusual_requests_are_answered_alike(pair: apache_cluster.NameServers) -> None:
    with twins(pair.ours.address, pair.apache.address) as (ours, apache):
        _settle(ours, apache)
        for request in _unusual_requests():
            # Apache's loses only one of several brokers when the connection closes that they registered over.
            caller = request.ext.get("brokerName", "observer")
            assert ours.ask(request, caller) == apache.ask(request, caller)


@pytest.mark.parametrize("seed", range(6))
def test_random_history_is_answered_alike(pair: apache_cluster.NameServers, seed: int) -> None:
    with twins(pair.ours.address, pair.apache.address) as (ours, apache):
        _settle(ours, apache)
        past: list[str] = []
        states: dict[str, int] = {}
        for step in History(seed).steps(100):
            if _is_refused(step.action, ours.ask(Request(Code.GET_BROKER_CLUSTER_INFO)).body, states):
                continue
            past.append(f"{step}\n")
            assert _take(ours, step) == _take(apache, step), "".join(past)
            _settle(ours, apache)
            for question in questions():
                answer = ours.ask(question)
                assert answer == _with_mappings_of(answer, apache.ask(question)), "".join(past)
