"""Whether a pop, a peek or a notification is allowed, and which messages it wants; in Apache's order."""

from __future__ import annotations

from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SqlFilters, Wanted, is_tag_type, wanted_tags
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TopicTable, is_batched
from rocketline.errors import ExpressionError
from rocketline.model.route import PERM_READ
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response

_LONG_TEXT: Final = 8 * 1024
"""An expression as long as this takes a millisecond to read."""
MESSAGES_MAX: Final = 32
"""That one pop may ask for: a checkpoint has a bit for each."""


class PopChecks:
    """The first thing that is wrong is the answer."""

    def __init__(self, topics: TopicTable, groups: GroupTable, settings: Settings[BrokerConfig]) -> None:
        self._topics, self._groups, self._settings = topics, groups, settings

    def admit(self, group: str, topic: str, queue_id: int, messages: int = 0) -> TopicConfig | Command:
        """The topic as it is here, or the answer that refuses the request."""
        config = self._settings.value
        if not config.broker_permission & PERM_READ:
            return _forbidden(f"broker {config.broker_name} may not be read: brokerPermission")
        if messages > MESSAGES_MAX:
            return _invalid(f"{messages} messages: a pop may ask for {MESSAGES_MAX}")
        if messages < 0:
            return response(ResponseCode.SYSTEM_ERROR, f"{messages} messages: a pop asks for some, or for none")
        if not config.store.timer_wheel_enable:
            return response(ResponseCode.SYSTEM_ERROR, "nobody can pop here: timerWheelEnable=false")
        found = self._topics.get(topic)
        if found is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"the topic {topic} does not exist: create it first")
        if not found.perm & PERM_READ:
            return _forbidden(f"the topic {topic} may not be read: its perm is {found.perm}")
        if is_batched(found):
            return _invalid(f"the topic {topic} keeps batches as one record (BatchCQ), which cannot be popped: pull it")
        if queue_id >= found.read_queue_nums:
            return _invalid(
                f"queue {queue_id} of {topic} does not exist: {found.read_queue_nums} can be read, from 0; -1 is any"
            )
        known = self._groups.find(group)
        if known is None:
            return response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"the group {group} does not exist: create it")
        if not known.consume_enable:
            return _forbidden(f"the group {group} may not consume: consumeEnable=false")
        return found

    def queue(self, topic: str, queue_id: int) -> Command | None:
        """Why messages of this queue cannot be acknowledged; None if they can."""
        found = self._topics.get(topic)
        if found is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"the topic {topic} does not exist: create it first")
        if not 0 <= queue_id < found.read_queue_nums:
            return response(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queue {queue_id} of {topic} does not exist: {found.read_queue_nums} can be read, from 0",
            )
        return None


def is_quick(expression_type: str | None, expression: str | None, filters: SqlFilters) -> bool:
    """It takes no time to find out which messages are wanted."""
    if not expression or is_tag_type(expression_type):
        return len(expression or "") < _LONG_TEXT
    return filters.has(expression)


def wanted_by(expression_type: str | None, expression: str | None, filters: SqlFilters) -> Wanted | Command:
    """Which messages are wanted; or the answer to an expression that cannot be read."""
    if not expression:  # whatever its type
        return None
    try:
        return wanted_tags(expression) if is_tag_type(expression_type) else filters.find(expression)
    except (ValueError, ExpressionError) as error:
        return response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"the subscription cannot be read: {error}")


def _forbidden(remark: str) -> Command:
    return response(ResponseCode.NO_PERMISSION, remark)


def _invalid(remark: str) -> Command:
    return response(ResponseCode.INVALID_PARAMETER, remark)
