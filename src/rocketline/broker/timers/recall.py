"""RECALL_MESSAGE (370): a timer message is called back before it is delivered.

What is stored is a marker, a timer message of the same slot: when that is delivered, the two are dropped together.
Java: RecallMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.storing.put import MessagePut, PutResult
from rocketline.errors import RemoteProtocolError
from rocketline.model import property_names
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.route import PERM_WRITE
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from rocketline.wire.recall_handle import RecallHandle

_TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"


class RecallHandlers:
    """Checks a handle and stores its marker."""

    def __init__(
        self,
        put: MessagePut,
        topics: TopicTable,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        now_ms: Callable[[], int],
    ) -> None:
        self._put, self._topics, self._stats, self._settings, self._now_ms = put, topics, stats, settings, now_ms

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.RECALL_MESSAGE: self._recall}

    def _recall(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(RecallMessageRequestHeader, request.ext)
        handle = self._checked(asked)
        if isinstance(handle, Command):
            return self._with_region(handle)
        marker = self._marker(channel, asked, handle)
        later = LaterAnswer(channel, request)

        def stored(result: PutResult) -> None:
            later.give(self._with_region(self._answer(result, marker, handle)))

        self._put.put(marker, stored)
        return later.outcome()

    def _checked(self, asked: RecallMessageRequestHeader) -> RecallHandle | Command:
        """The handle, or what is wrong, in Apache's order."""
        config, now_ms = self._settings.value, self._now_ms()
        if not config.recall_message_enable:
            return response(
                ResponseCode.NO_PERMISSION,
                f"broker {config.broker_name} recalls no messages: recallMessageEnable=false",
            )
        is_writable = config.broker_permission & PERM_WRITE or config.allow_recall_when_broker_not_writeable
        if now_ms < config.start_accept_send_request_time_stamp or not is_writable:
            return response(ResponseCode.SERVICE_NOT_AVAILABLE, f"broker {config.broker_name} recalls no messages now")
        if self._topics.get(asked.topic) is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"the topic {asked.topic} does not exist")
        try:
            handle = RecallHandle.decode(asked.recall_handle)
        except RemoteProtocolError as error:
            return response(ResponseCode.ILLEGAL_OPERATION, str(error))
        problem = self._problem(asked.topic, handle, now_ms)
        return handle if problem is None else response(ResponseCode.ILLEGAL_OPERATION, problem)

    def _problem(self, topic: str, handle: RecallHandle, now_ms: int) -> str | None:
        config = self._settings.value
        if handle.topic != topic:
            return f"the handle is for the topic {handle.topic[:80]!r}, and not for {topic!r}"
        if handle.broker_name != config.broker_name:
            return f"the handle is for the broker {handle.broker_name[:80]!r}; this one is {config.broker_name!r}"
        left_ms = handle.deliver_ms - now_ms
        if left_ms <= 0:
            return f"the message was due {-left_ms} ms ago: it is delivered, or about to be"
        if left_ms >= config.store.timer_max_delay_sec * 1000:
            return f"the handle is for {left_ms // 1000} s from now, more than timerMaxDelaySec allows"
        return None

    def _marker(self, channel: Channel, asked: RecallMessageRequestHeader, handle: RecallHandle) -> StoredMessage:
        """What is parked beside the message. Java: RecallMessageProcessor.buildMessage."""
        now_ms, peer = self._now_ms(), HostAddress.parse(channel.peer)
        is_with_topic = self._settings.value.store.append_topic_for_timer_delete_key
        properties = {
            property_names.TAGS: _TAG,
            property_names.TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.unique_id}"
            if is_with_topic
            else handle.unique_id,
            property_names.UNIQ_KEY: handle.unique_id,
            property_names.TIMER_DELIVER_MS: str(handle.deliver_ms),
            property_names.BORN_TIMESTAMP: str(now_ms),
        }
        if asked.producer_group:
            properties[property_names.PGROUP] = asked.producer_group
        place = (0, QueueOffset(0), LogOffset(0), 0)
        return StoredMessage(handle.topic, _BODY, properties, 0, *place, now_ms, peer, 0, peer)

    def _answer(self, result: PutResult, marker: StoredMessage, handle: RecallHandle) -> Command:
        if not result.status.is_stored:
            self._stats.put_failed()
            return response(ResponseCode.SYSTEM_ERROR, f"{result.status.name}: {result.problem}")
        self._stats.put(marker.topic, marker.queue_id, 1, result.size)
        header = RecallMessageResponseHeader(msg_id=handle.unique_id)
        return response(ResponseCode.SUCCESS, ext=headers.encode(header))

    def _with_region(self, answer: Command) -> Command:
        answer.ext |= {"MSG_REGION": self._settings.value.region_id}
        return answer
