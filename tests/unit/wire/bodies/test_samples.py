"""Bodies as fastjson writes them for Java's own classes: read, written again, the same text."""

from __future__ import annotations

from typing import Any

import pytest

from rocketline.model.group_config import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    GroupRetryPolicyType,
    SubscriptionGroupConfig,
)
from rocketline.model.heartbeat import HeartbeatData
from rocketline.model.queue import MessageQueue
from rocketline.model.route import BrokerMemberGroup, TopicRouteData
from rocketline.model.static_topic import TopicQueueMappingDetail
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.wire.bodies import RegisterBrokerBody, decode, encode, encode_route
from rocketline.wire.bodies.auth import AclInfo, UserInfo
from rocketline.wire.bodies.connections import ConsumerConnection, ProducerConnection, ProducerTable
from rocketline.wire.bodies.groups import GroupForbidden, SubscriptionGroupList, SubscriptionGroupTable
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody
from rocketline.wire.bodies.lists import ConsumerList, GroupList, KVTable, TopicList
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.bodies.offsets import (
    ConsumeQueueDump,
    ConsumerStatus,
    CorrectionOffsets,
    ResetOffsetBody,
    ResetOffsetItem,
    ResetOffsetList,
)
from rocketline.wire.bodies.pop import (
    BatchAckMessageRequestBody,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
    bits_of,
)
from rocketline.wire.bodies.replication import EpochEntryCache, SyncStateSet
from rocketline.wire.bodies.routes import BrokerMemberGroupBody, ClusterInfo
from rocketline.wire.bodies.running import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketline.wire.bodies.stats import ConsumeStats, ConsumeStatsList, RocksdbQueueCheck, TopicStatsTable
from rocketline.wire.bodies.topics import TopicConfigList, TopicConfigTable

MQ = '{"brokerName":"broker-a","queueId":%d,"topic":"T"}'
TOPIC = (
    '{"attributes":{},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"T",'
    '"topicSysFlag":0,"writeQueueNums":8}'
)
VERSION = '{"counter":3,"stateVersion":0,"timestamp":1700000000000}'
TABLE = (
    f'{{"dataVersion":{VERSION},"mappingDataVersion":{VERSION},"topicConfigTable":{{"T":{TOPIC}}},'
    '"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
)
MAPPING = (
    '{"bname":"broker-a","currIdMap":{0:0},"dirty":false,"epoch":1,"hostedQueues":{0:[{"bname":"broker-a",'
    '"endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},'
    '"scope":"__global__","topic":"T","totalQueues":1}'
)
BROKER = (
    '{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
    '"enableActingMaster":false}'
)
ROUTE = (
    f'{{"brokerDatas":[{BROKER}],"filterServerTable":{{}},"queueDatas":[{{"brokerName":"broker-a","perm":6,'
    '"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
GROUP = (
    '{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,'
    '"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"CG",'
    '"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,'
    '"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
)
SUBSCRIPTION = (
    '{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB",'
    '"subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"T"}'
)
HEARTBEAT = (
    '{"clientID":"10.0.0.9@1#2","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    '"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING",'
    f'"subscriptionDataSet":[{SUBSCRIPTION}],"unitMode":false}}],"heartbeatFingerprint":0,'
    '"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}'
)
CONNECTION = '{"clientAddr":"1.1.1.1:5","clientId":"cid","language":"JAVA","version":479}'
CONSUME_STATS = (
    f'{{"consumeTps":1.5,"offsetTable":{{{MQ % 1}:{{"brokerOffset":10,"consumerOffset":8,'
    '"lastTimestamp":1700000000000,"pullOffset":9}}}'
)
RUNNING = (
    f'{{"jstack":"at a.B.c","mqPopTable":{{{MQ % 0}:{{"droped":false,"lastPopTimestamp":7,"waitAckCount":0}}}},'
    f'"mqTable":{{{MQ % 1}:{{"cachedMsgCount":1,"cachedMsgMaxOffset":2,"cachedMsgMinOffset":3,'
    '"cachedMsgSizeInMiB":4,"commitOffset":5,"droped":true,"lastConsumeTimestamp":6,"lastLockTimestamp":7,'
    '"lastPullTimestamp":8,"locked":false,"transactionMsgCount":0,"transactionMsgMaxOffset":0,'
    '"transactionMsgMinOffset":0,"tryUnlockTimes":0}},"properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"},'
    '"statusTable":{"T":{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":0.5,"consumeRT":0.0,'
    f'"pullRT":0.0,"pullTPS":0.0}}}},"subscriptionSet":[{SUBSCRIPTION}],"userConsumerInfo":{{}}}}'
)

SAMPLES: list[tuple[Any, str]] = [
    (TopicRouteData, ROUTE),
    (SubscriptionGroupConfig, GROUP),
    (SubscriptionGroupList, f'{{"groupConfigList":[{GROUP}]}}'),
    (
        SubscriptionGroupTable,
        f'{{"dataVersion":{VERSION},"forbiddenTable":{{"CG":{{"T":1}}}},"subscriptionGroupTable":{{"CG":{GROUP}}}}}',
    ),
    (TopicConfig, TOPIC),
    (TopicConfigList, f'{{"topicConfigList":[{TOPIC}]}}'),
    (TopicConfigTable, TABLE),
    (TopicQueueMappingDetail, MAPPING),
    (RegisterBrokerBody, f'{{"filterServerList":[],"topicConfigSerializeWrapper":{TABLE}}}'),
    (DataVersion, VERSION),
    (
        ClusterInfo,
        f'{{"brokerAddrTable":{{"broker-a":{BROKER}}},"clusterAddrTable":{{"DefaultCluster":["broker-a"]}}}}',
    ),
    (TopicList, '{"brokerAddr":"h:1","topicList":["T"]}'),
    (GroupList, '{"groupList":["CG"]}'),
    (ConsumerList, '{"consumerIdList":["cid"]}'),
    (KVTable, '{"table":{"k":"v"}}'),
    (HeartbeatData, HEARTBEAT),
    (
        ConsumerConnection,
        f'{{"connectionSet":[{CONNECTION}],"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        f'"consumeType":"CONSUME_POP","messageModel":"BROADCASTING","subscriptionTable":{{"T":{SUBSCRIPTION}}}}}',
    ),
    (ProducerConnection, f'{{"connectionSet":[{CONNECTION}]}}'),
    (
        ProducerTable,
        '{"data":{"PG":[{"clientId":"cid","language":"GO","lastUpdateTimestamp":1,"remoteIP":"1.1.1.1","version":317}]}}',
    ),
    (CheckClientRequestBody, f'{{"clientId":"cid","group":"CG","subscriptionData":{SUBSCRIPTION}}}'),
    (
        TopicStatsTable,
        f'{{"offsetTable":{{{MQ % 0}:{{"lastUpdateTimestamp":1,"maxOffset":2,"minOffset":0}}}},"topicPutTps":0.0}}',
    ),
    (ConsumeStats, CONSUME_STATS),
    (
        ConsumeStatsList,
        f'{{"brokerAddr":"h:1","consumeStatsList":[{{"CG":[{CONSUME_STATS}]}}],"totalDiff":2,"totalInflightDiff":1}}',
    ),
    (ResetOffsetBody, f'{{"offsetTable":{{{MQ % 1}:200,{MQ % 0}:100}}}}'),
    (ResetOffsetList, '{"offsetTable":[{"brokerName":"broker-a","offset":100,"queueId":0,"topic":"T"}]}'),
    (ConsumerStatus, f'{{"messageQueueTable":{{{MQ % 0}:7}}}}'),
    (ConsumerStatus, f'{{"consumerTable":{{"cid":{{{MQ % 0}:7}}}},"messageQueueTable":{{}}}}'),
    (CorrectionOffsets, '{"correctionOffsets":{0:5,1:9223372036854775807}}'),
    (
        ConsumeQueueDump,
        '{"filterData":"f","maxQueueIndex":2,"minQueueIndex":0,"queueData":[{"bitMap":"b","eval":true,'
        '"extendDataJson":"{}","msg":"m","physicOffset":1,"physicSize":2,"tagsCode":-3}],'
        f'"subscriptionData":{SUBSCRIPTION}}}',
    ),
    (
        LockBatchRequestBody,
        f'{{"clientId":"cid","consumerGroup":"CG","mqSet":[{MQ % 0}],"onlyThisBroker":false}}',
    ),
    (LockBatchResponseBody, f'{{"lockOKMQSet":[{MQ % 0},{MQ % 1}]}}'),
    (
        BatchAckMessageRequestBody,
        '{"acks":[{"b":"CQI=","c":"CG","it":60000,"pt":1700000000000,"q":1,"r":"0","rq":2,"so":100,"t":"T"}],'
        '"brokerName":"broker-a"}',
    ),
    (
        QueryAssignmentRequestBody,
        '{"clientId":"cid","consumerGroup":"CG","messageModel":"CLUSTERING","strategyName":"AVG","topic":"T"}',
    ),
    (QueryAssignmentResponseBody, f'{{"messageQueueAssignments":[{{"messageQueue":{MQ % 0},"mode":"POP"}}]}}'),
    (QueryAssignmentResponseBody, "{}"),
    (QueryAssignmentResponseBody, '{"messageQueueAssignments":[]}'),
    (SetMessageRequestModeRequestBody, '{"consumerGroup":"CG","mode":"POP","popShareQueueNum":-1,"topic":"T"}'),
    (ConsumerRunningInfo, RUNNING),
    (
        ConsumeMessageDirectlyResult,
        '{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}',
    ),
    (UserInfo, '{"password":"p","userStatus":"enable","userType":"Super","username":"u"}'),
    (
        AclInfo,
        '{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:*",'
        '"sourceIps":["*"]}],"policyType":"Custom"}],"subject":"User:u"}',
    ),
    (GroupForbidden, '{"group":"CG","readable":true,"topic":"T"}'),
    (
        BrokerMemberGroupBody,
        '{"brokerMemberGroup":{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"c"}}',
    ),
    (
        EpochEntryCache,
        '{"brokerId":1,"brokerName":"b","clusterName":"c","epochList":[{"endOffset":9,"epoch":1,"startOffset":0}],'
        '"maxOffset":9}',
    ),
    (SyncStateSet, '{"syncStateSet":[1,2],"syncStateSetEpoch":3}'),
    (RocksdbQueueCheck, '{"checkResult":"all is well","checkStatus":0}'),
]


@pytest.mark.parametrize(("cls", "text"), SAMPLES, ids=lambda value: getattr(value, "__name__", ""))
def test_sample_when_read_and_written_is_the_same_text(cls: Any, text: str) -> None:
    assert encode(decode(cls, text.encode())) == text.encode()


def test_strict_route_when_written_has_quoted_sorted_keys() -> None:
    """S38: broker ids are quoted for those who read standard JSON only."""
    text = ROUTE.replace('0:"10.0.0.1:10911",1:', '10:"10.0.0.1:10911",2:').replace("DefaultCluster", "Größe")
    strict = encode_route(decode(TopicRouteData, text.encode()), strict=True)
    assert b'"brokerAddrs":{"2":"10.0.0.2:10911","10":"10.0.0.1:10911"}' in strict
    assert '"cluster":"Größe"'.encode() in strict
    assert decode(TopicRouteData, strict) == decode(TopicRouteData, text.encode())


def test_route_of_an_old_release_when_read_has_its_system_flag() -> None:
    old = ROUTE.replace('"topicSysFlag":0', '"topicSynFlag":3').encode()
    assert decode(TopicRouteData, old).queue_datas[0].topic_sys_flag == 3


def test_retry_policies_when_read_are_both_there() -> None:
    policy = (
        '{"customizedRetryPolicy":{"next":[1000,5000]},"exponentialRetryPolicy":{"initial":5000,"max":7200000,'
        '"multiplier":2},"type":"EXPONENTIAL"}'
    )
    group = decode(SubscriptionGroupConfig, f'{{"groupName":"CG","groupRetryPolicy":{policy}}}'.encode())
    assert group.group_retry_policy == GroupRetryPolicy(
        GroupRetryPolicyType.EXPONENTIAL, ExponentialRetryPolicy(), CustomizedRetryPolicy([1000, 5000])
    )


def test_heartbeat_from_go_when_read_has_its_tag_hashes_as_numbers() -> None:
    text = HEARTBEAT.replace("[2598919,2598920]", '["2598919","2598920"]').replace(',"withoutSub":false', "")
    assert decode(HeartbeatData, text.encode()) == decode(HeartbeatData, HEARTBEAT.encode())


def test_running_info_from_go_when_read_knows_a_dropped_queue_by_its_right_spelling() -> None:
    info = decode(ConsumerRunningInfo, RUNNING.replace("droped", "dropped").encode())
    assert info.mq_table[MessageQueue("T", "broker-a", 1)].dropped


def test_consume_result_from_go_when_read_is_known_by_its_position() -> None:
    result = decode(ConsumeMessageDirectlyResult, b'{"consumeResult":4}')
    assert result.consume_result is CMResult.CR_THROW_EXCEPTION


def test_batch_ack_when_read_takes_long_names_too() -> None:
    text = b'{"acks":[{"bitSet":"CQI=","consumerGroup":"CG","startOffset":100,"queueId":1,"topic":"T","retry":"0"}]}'
    (ack,) = decode(BatchAckMessageRequestBody, text).acks
    assert (ack.consumer_group, ack.topic, ack.retry, ack.start_offset, ack.queue_id) == ("CG", "T", "0", 100, 1)
    assert bits_of(ack.bit_set) == [0, 3, 9]


def test_reset_offsets_when_written_can_be_split_as_go_does() -> None:
    """Go reads them with string functions: one entry per `,{`, key and offset on either side of `}:`."""
    table = {MessageQueue("T", "broker-a", queue): 100 + queue for queue in range(3)}
    inner = encode(ResetOffsetBody(table)).decode().removeprefix('{"offsetTable":{').removesuffix("}}")
    entries = [entry.split("}:") for entry in inner.split(",{")]
    assert [offset for _, offset in entries] == ["100", "101", "102"]


def test_reset_offset_list_when_read_is_a_list_of_queues() -> None:
    text = b'{"offsetTable":[{"brokerName":"broker-a","offset":100,"queueId":0,"topic":"T"}]}'
    assert decode(ResetOffsetList, text).offset_table == [ResetOffsetItem("T", "broker-a", 0, 100)]


def test_member_group_when_unknown_is_an_empty_object() -> None:
    assert encode(BrokerMemberGroupBody()) == b"{}"
    assert encode(BrokerMemberGroupBody(BrokerMemberGroup("c", "b", {1: "h:2", 0: "h:1"}))) == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b","cluster":"c"}}'
    )


def test_password_of_a_user_does_not_show_in_its_text() -> None:
    assert "secret" not in repr(UserInfo("u", "secret"))
