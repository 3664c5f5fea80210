"""What tests ask of a running broker, Apache's or ours: over a blocking connection, with every answer checked."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.heartbeat import ConsumerData, HeartbeatData
from rocketline.model.message import Message, StoredMessage
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.exchange import Exchange
from rocketline.wire import headers
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.bodies.stats import BrokerStatsData
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import (
    CreateTopicRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    UnregisterClientRequestHeader,
    UpdateConsumerOffsetRequestHeader,
    ViewBrokerStatsDataRequestHeader,
    ViewMessageRequestHeader,
)
from rocketline.wire.headers.fields import Header
from rocketline.wire.message_codec import decode_messages, decode_record
from rocketline.wire.properties import encode_properties

READ_AND_WRITE = 6
_CLIENT = _PULL_GROUP = "questions"
_END_OF_TIME_MS = 2**62


class BrokerQuestions(Exchange):
    """One connection to a broker."""

    def request(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        """The answer, which must be a success."""
        answer = self.ask(Command(code, headers.encode(header) if header else {}, body))
        assert answer.code == ResponseCode.SUCCESS, (RequestCode(code).name, answer.code, answer.remark)
        return answer

    # --- what must be there before clients come

    def create_topic(self, topic: str, *, queues: int = 4, perm: int = READ_AND_WRITE) -> None:
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
        )
        self.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    def create_group(self, group: str, *, retry_max_times: int) -> None:
        """Make a group that has its retry topic: a Java client only finds it at once if it is there when it starts."""
        config = SubscriptionGroupConfig(group, retry_max_times=retry_max_times)
        self.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode(config))
        consumer = ConsumerData(
            group, ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        self.request(RequestCode.HEART_BEAT, body=encode(HeartbeatData(_CLIENT, consumer_data_set=[consumer])))
        # Said, not left to the end of this connection: a broker notices that some time later, and until then the group
        # has a member that takes a share of its queues.
        leave = UnregisterClientRequestHeader(client_id=_CLIENT, consumer_group=group)
        self.request(RequestCode.UNREGISTER_CLIENT, leave)

    def send(self, message: Message, queue_id: int, *, born_ms: int = 0) -> SendMessageResponseHeader:
        """Send one message to one queue; a topic that is not there yet comes into being."""
        header = SendMessageRequestHeaderV2(
            producer_group="questions",
            topic=message.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=born_ms,
            flag=message.flag,
            properties=encode_properties(message.properties).decode("utf-8"),
        )
        answer = self.request(RequestCode.SEND_MESSAGE_V2, header, message.body)
        return headers.decode(SendMessageResponseHeader, answer.ext)

    # --- what a broker holds

    def queue(self, topic: str, queue_id: int) -> list[StoredMessage]:
        """Every message of a queue, from its first offset on; none if there is no such topic."""
        found: list[StoredMessage] = []
        offset = 0
        nothing = (ResponseCode.PULL_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST)
        while (answer := self._pull(topic, queue_id, offset)).code not in nothing:
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED), (answer.code, answer.remark)
            if answer.code == ResponseCode.SUCCESS:
                found += decode_messages(answer.body)
            offset = int(answer.ext["nextBeginOffset"])
        return found

    def _pull(self, topic: str, queue_id: int, offset: int) -> Command:
        header = PullMessageRequestHeader(
            consumer_group=_PULL_GROUP,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=4,  # with its subscription, and without waiting
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        return self.ask(Command(RequestCode.PULL_MESSAGE, headers.encode(header)))

    def by_key(self, topic: str, key: str, index_type: str = "K") -> list[StoredMessage]:
        header = QueryMessageRequestHeader(
            topic=topic, key=key, max_num=64, begin_timestamp=0, end_timestamp=_END_OF_TIME_MS, index_type=index_type
        )
        answer = self.ask(Command(RequestCode.QUERY_MESSAGE, headers.encode(header)))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        return decode_messages(answer.body)

    def by_log_offset(self, log_offset: int) -> StoredMessage:
        header = ViewMessageRequestHeader(offset=log_offset)
        return decode_record(self.request(RequestCode.VIEW_MESSAGE_BY_ID, header).body)

    def topics(self) -> Mapping[str, TopicConfig]:
        answer = self.request(RequestCode.GET_ALL_TOPIC_CONFIG)
        return decode(TopicConfigTable, answer.body).topic_config_table

    def group(self, group: str) -> SubscriptionGroupConfig:
        header = GetSubscriptionGroupConfigRequestHeader(group=group)
        return decode(SubscriptionGroupConfig, self.request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header).body)

    def counted(self, statistic: str, key: str) -> int:
        """What the last minute brought, by the samples that the broker has; nothing if it has not counted any yet."""
        header = ViewBrokerStatsDataRequestHeader(stats_name=statistic, stats_key=key)
        answer = self.ask(Command(RequestCode.VIEW_BROKER_STATS_DATA, headers.encode(header)))
        return decode(BrokerStatsData, answer.body).stats_minute.sum if answer.code == ResponseCode.SUCCESS else 0

    def client_ids(self, group: str) -> list[str]:
        """The members of a group that is online."""
        header = GetConsumerListByGroupRequestHeader(consumer_group=group)
        answer = self.ask(Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, headers.encode(header)))
        return decode(ConsumerList, answer.body).consumer_id_list if answer.code == ResponseCode.SUCCESS else []

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
        )
        self.request(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    def committed(self, group: str, topic: str, queue_id: int) -> int:
        header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue_id)
        return int(self.request(RequestCode.QUERY_CONSUMER_OFFSET, header).ext["offset"])
