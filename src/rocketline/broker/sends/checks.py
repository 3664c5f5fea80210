"""What is looked at before a producer's message, or a reply, is taken. Java: AbstractSendMessageProcessor.msgCheck."""

from __future__ import annotations

from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.topics import TopicTable
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError
from rocketline.model import names
from rocketline.model.route import PERM_WRITE
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import SendMessageRequestHeader
from rocketline.wire.properties import PROPERTIES_BYTES_MAX, parse_properties

_PROPERTIES_CHARACTERS_MAX: Final = 2 * PROPERTIES_BYTES_MAX
"""What is read of them: more than can be stored, because some of it may have no name or no value and is dropped."""


class RefusalError(Exception):
    """A message that is not taken, with what its sender is told."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.answer = response(code, remark)


class SendChecks:
    """Finds the topic that a message is for, or says why it cannot go there."""

    def __init__(self, topics: TopicTable, settings: Settings[BrokerConfig], clock: Clock) -> None:
        self._topics, self._settings, self._clock = topics, settings, clock

    def topic(self, asked: SendMessageRequestHeader) -> TopicConfig:
        """The topic to send to, made if need be. In Apache's order. Raises `RefusalError`."""
        config = self._settings.value
        if self._clock.wall_ms() < config.start_accept_send_request_time_stamp:
            raise RefusalError(ResponseCode.SYSTEM_ERROR, f"broker {config.broker_name} takes no messages yet")
        topic = self._topics.get(asked.topic)
        if not config.broker_permission & PERM_WRITE and topic is not None and topic.order:
            raise RefusalError(
                ResponseCode.NO_PERMISSION, f"broker {config.broker_name} may not be written to: brokerPermission"
            )
        try:
            names.check_topic(asked.topic)
        except LocalProtocolError as error:
            raise RefusalError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if not names.is_sendable_topic(asked.topic):
            raise RefusalError(ResponseCode.NO_PERMISSION, f"no client may send to the topic {asked.topic}")
        if topic is None:
            topic = self._topics.create_on_send(
                asked.topic,
                default_topic=asked.default_topic,
                default_topic_queue_nums=asked.default_topic_queue_nums,
                unit_mode=bool(asked.unit_mode),
            )
        if topic is None:
            raise RefusalError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"the topic {asked.topic} does not exist and may not be created by sending: create it first",
            )
        queues = max(topic.write_queue_nums, topic.read_queue_nums)
        if asked.queue_id >= queues:
            raise RefusalError(
                ResponseCode.INVALID_PARAMETER, f"queue {asked.queue_id} of {asked.topic}, which has {queues} queues"
            )
        return topic

    def properties(self, asked: SendMessageRequestHeader) -> dict[str, str]:
        """The properties of the message. Raises `RefusalError` for a text that would take everybody's time to read."""
        text = asked.properties or ""
        if len(text) > _PROPERTIES_CHARACTERS_MAX:
            problem = f"properties of {len(text)} characters: a message carries at most {PROPERTIES_BYTES_MAX} bytes"
            raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, f"PROPERTIES_SIZE_EXCEEDED: {problem}")
        return parse_properties(text)

    def with_region(self, answer: Command) -> Command:
        """The answer, with what every answer to a send carries."""
        config = self._settings.value
        answer.ext |= {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}
        return answer
