"""Every JSON body among the recorded frames is read by its class; what Java wrote is written again byte for byte."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.route import TopicRouteData
from rocketline.model.static_topic import TopicConfigAndQueueMapping
from rocketline.wire import frame
from rocketline.wire.bodies import RegisterBrokerBody, decode, decode_register_body, encode, encode_route
from rocketline.wire.bodies.auth import AclInfo, UserInfo
from rocketline.wire.bodies.connections import ConsumerConnection, ProducerTable
from rocketline.wire.bodies.groups import GroupForbidden, GroupSubscription
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody, heartbeat_fingerprint
from rocketline.wire.bodies.lists import ConsumerList, GroupList, TopicList
from rocketline.wire.bodies.lite import BrokerLiteInfo
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.bodies.offsets import ConsumerOffsetTable, ConsumerStatus, DelayOffsetTable, ResetOffsetBody
from rocketline.wire.bodies.pop import (
    BatchAckMessageRequestBody,
    MessageRequestModeTable,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from rocketline.wire.bodies.replication import HARuntimeInfo
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketline.wire.bodies.stats import (
    BrokerStatsData,
    ColdDataInfo,
    ConsumeStats,
    ConsumeTimeSpans,
    TimerMetrics,
    TopicStatsTable,
)
from rocketline.wire.bodies.topics import TopicConfigList
from support.golden import GoldenFrame, golden_frames

REQUEST_BODIES: dict[int, type] = {
    18: TopicConfigList,
    34: HeartbeatData,
    41: LockBatchRequestBody,
    42: LockBatchRequestBody,
    46: CheckClientRequestBody,
    103: RegisterBrokerBody,
    200: SubscriptionGroupConfig,
    400: QueryAssignmentRequestBody,
    401: SetMessageRequestModeRequestBody,
    3001: UserInfo,
    3002: UserInfo,
    3006: AclInfo,
    200151: BatchAckMessageRequestBody,
}
ANSWER_BODIES: dict[int, type] = {
    38: ConsumerList,
    41: LockBatchResponseBody,
    43: ConsumerOffsetTable,
    45: DelayOffsetTable,
    61: TimerMetrics,
    105: TopicRouteData,
    106: ClusterInfo,
    202: TopicStatsTable,
    203: ConsumerConnection,
    206: TopicList,
    208: ConsumeStats,
    221: ConsumerStatus,
    222: ResetOffsetBody,
    223: ConsumerStatus,
    300: GroupList,
    303: ConsumeTimeSpans,
    305: TopicList,
    307: ConsumerRunningInfo,
    309: ConsumeMessageDirectlyResult,
    315: BrokerStatsData,
    328: ProducerTable,
    343: TopicList,
    345: GroupSubscription,
    351: TopicConfigAndQueueMapping,
    352: SubscriptionGroupConfig,
    353: GroupForbidden,
    400: QueryAssignmentResponseBody,
    402: MessageRequestModeTable,
    907: HARuntimeInfo,
    2003: ColdDataInfo,
    3004: UserInfo,
    3005: list[UserInfo],
    3009: AclInfo,
    3010: list[AclInfo],
    200074: BrokerLiteInfo,
}


def body_of(golden: GoldenFrame) -> bytes:
    return frame.decode(golden.data).body


def body_class(golden: GoldenFrame) -> Any:
    answered = re.match(r"(?:reply|answer) \d+ to (\d+)", golden.what)
    return ANSWER_BODIES[int(answered[1])] if answered else REQUEST_BODIES[int(golden.what.split()[0])]


JSON_FRAMES = [golden for golden in golden_frames() if body_of(golden)[:1] in (b"{", b"[")]
JAVA_FRAMES = [golden for golden in JSON_FRAMES if not golden.is_probe]


def name(golden: GoldenFrame) -> str:
    return f"{golden.exchange} {golden.direction}"


@pytest.mark.parametrize("golden", JSON_FRAMES, ids=name)
def test_body_when_read_written_and_read_again_is_the_same(golden: GoldenFrame) -> None:
    body = decode(body_class(golden), body_of(golden))
    assert decode(body_class(golden), encode(body)) == body


@pytest.mark.parametrize("golden", [golden for golden in JAVA_FRAMES if "2003" not in golden.what], ids=name)
def test_body_from_java_when_read_and_written_is_the_same_text(golden: GoldenFrame) -> None:
    """The answer to 2003 is left out: it has no class in Java, so its keys come in no order of ours."""
    body = decode(body_class(golden), body_of(golden))
    is_strict_route = isinstance(body, TopicRouteData) and golden.exchange != 17
    assert (encode_route(body, strict=True) if is_strict_route else encode(body)) == body_of(golden)


@pytest.mark.parametrize(("exchange", "strict"), [(17, False), (18, True), (19, True), (85, True), (184, True)])
def test_route_when_written_is_the_name_servers_text(exchange: int, strict: bool) -> None:
    (golden,) = [g for g in golden_frames() if (g.exchange, g.direction) == (exchange, "N>C")]
    assert encode_route(decode(TopicRouteData, body_of(golden)), strict=strict) == body_of(golden)


def test_registrations_when_read_hold_every_topic() -> None:
    for body in [body_of(golden) for golden in JAVA_FRAMES if golden.what.startswith("103 ")]:
        registered = decode_register_body(body, compressed=False, version=513)
        topics = registered.topic_config_serialize_wrapper.topic_config_table
        assert len(topics) == body.count(b'"topicName"') > 0
        assert all(topic.topic_name == name for name, topic in topics.items())


def test_fingerprint_of_a_recorded_heartbeat_is_the_one_that_java_sent() -> None:
    heartbeats = [decode(HeartbeatData, body_of(golden)) for golden in JAVA_FRAMES if golden.what == "34 HEART_BEAT v2"]
    (heartbeat,) = heartbeats
    assert heartbeat_fingerprint(heartbeat) == heartbeat.heartbeat_fingerprint == 556685853
