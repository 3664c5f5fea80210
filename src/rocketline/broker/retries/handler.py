"""CONSUMER_SEND_MSG_BACK (36): a consumer could not handle a message and wants it later, or never again.

Differs: under SYNC_FLUSH the answer waits until the message is on disk. Apache marks such messages with WAIT=false and
answers at once, though the consumer then moves on.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.groups import GroupTable, retries_max
from rocketline.broker.metadata.topics import TopicTable, no_room
from rocketline.broker.retries.send_back import Retry, is_dead, next_level, sent_back
from rocketline.broker.stats.counters import SNDBCK2DLQ_TIMES, SNDBCK_PUT_NUMS, BrokerStats
from rocketline.broker.storing.put import MessagePut, PutResult, PutStatus
from rocketline.model import names, property_names
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.message import StoredMessage
from rocketline.model.route import PERM_WRITE
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import ConsumerSendMsgBackRequestHeader

_NO_OWNER = "null"
"""Java's text for an account that nobody named: Rocketline knows none."""


class SendBackHandlers:
    """Stores a message once more: in its group's retry topic after a delay, or among its dead letters at once."""

    def __init__(
        self,
        store: MessageStore,
        put: MessagePut,
        topics: TopicTable,
        groups: GroupTable,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        *,
        choose_queue: Callable[[int], int] = random.randrange,
    ) -> None:
        self._store, self._put, self._topics, self._groups = store, put, topics, groups
        self._stats, self._settings, self._choose_queue = stats, settings, choose_queue

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back}

    def _send_back(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(ConsumerSendMsgBackRequestHeader, request.ext)
        config = self._settings.value
        group = self._groups.find(asked.group)
        if group is None:
            return response(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"the group {asked.group} does not exist: create it"
            )
        if not config.broker_permission & PERM_WRITE:
            return response(
                ResponseCode.NO_PERMISSION, f"broker {config.broker_name} may not be written to: brokerPermission"
            )
        if group.retry_queue_nums <= 0:
            return response(ResponseCode.SUCCESS)
        topic = self._topics.ensure_retry(group, is_unit=asked.unit_mode)
        if topic is None:
            return _no_room(names.retry_topic(group.group_name))
        if not topic.perm & PERM_WRITE:
            return response(
                ResponseCode.NO_PERMISSION, f"the topic {topic.topic_name} may not be written to: perm {topic.perm}"
            )
        message = self._store.message_at(asked.offset)
        if message is None:
            return response(ResponseCode.SYSTEM_ERROR, f"there is no message at the log offset {asked.offset}")
        retry = self._retry(message, group, asked, request.version)
        if retry is None:
            return _no_room(names.dlq_topic(group.group_name))
        again = sent_back(message, retry, self._store.store_host)
        answer = LaterAnswer(channel, request)
        self._put.put(again, lambda result: answer.give(self._answer(again, asked.group, result)))
        return answer.outcome()

    def _retry(
        self,
        message: StoredMessage,
        group: SubscriptionGroupConfig,
        asked: ConsumerSendMsgBackRequestHeader,
        version: int,
    ) -> Retry | None:
        """Where to, and when; None if there is no room for its topic."""
        times_max = retries_max(group, asked.max_reconsume_times, version)
        if is_dead(message, asked.delay_level, times_max):
            dead_letters = self._topics.ensure_dlq(group.group_name)
            return None if dead_letters is None else Retry(dead_letters.topic_name, 0, 0)
        queue_id = self._choose_queue(group.retry_queue_nums)
        return Retry(names.retry_topic(group.group_name), queue_id, next_level(message, asked.delay_level))

    def _answer(self, message: StoredMessage, group: str, result: PutResult) -> Command:
        if result.status is not PutStatus.PUT_OK:
            return response(ResponseCode.SYSTEM_ERROR, f"{result.status.name}: {result.problem}")
        topic = message.properties[property_names.RETRY_TOPIC]
        self._stats.add(SNDBCK_PUT_NUMS, f"{topic}@{group}", 1)
        if names.is_dlq_topic(message.topic):
            self._stats.add(SNDBCK2DLQ_TIMES, f"{_NO_OWNER}@{topic}@{group}@SEND_BACK_TO_DLQ", 1)
        if message.topic == names.SCHEDULE_TOPIC:
            self._stats.put(message.topic, message.queue_id, 1, result.size)
        return response(ResponseCode.SUCCESS)


def _no_room(topic: str) -> Command:
    """The consumer still has the message, and tries again."""
    return response(ResponseCode.SYSTEM_ERROR, no_room(topic))
