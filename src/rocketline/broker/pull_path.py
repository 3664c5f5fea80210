"""The fast twin of the pull handler: the same answers, byte for byte, without a command in between.

A consumer's pulls differ in nothing but three numbers: queue, offset and committed offset. What the checks find out of
all the rest is kept by the text of that rest, for as long as topics, groups and settings stay what they are and the
group's heartbeat says the same. Whatever is unusual (a refusal, a pull that must wait, a number written in an odd way)
is left to the handler, and nothing has happened then.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.consumers import ConsumerRegistry
from rocketline.broker.groups import GroupTable
from rocketline.broker.pull_checks import Admitted, PullChecks
from rocketline.broker.pull_reading import PullReading, pull_code
from rocketline.broker.topics import TopicTable
from rocketline.errors import RemoteProtocolError
from rocketline.model.subscription import SubscriptionData
from rocketline.model.sys_flags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.codes import CURRENT_VERSION, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import PullMessageRequestHeader

_STEADY: Final = (
    "consumerGroup", "topic", "sysFlag", "maxMsgNums", "suspendTimeoutMillis", "subVersion",
    "subscription", "expressionType", "maxMsgBytes", "requestSource",
)  # fmt: skip
"""The fields that stay the same from pull to pull, of those that are looked at."""
_KEPT_MAX: Final = 16_384
_KEPT_TEXT_MAX: Final = 1024
_DIGITS_MAX: Final = 18
_PREFIX: Final = struct.Struct(">II")
_HEADER: Final = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"%d","groupSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":%d,"remark":"%b",'
    b'"serializeTypeCurrentRPC":"JSON","version":' + str(CURRENT_VERSION).encode() + b"}"
)


@dataclass(slots=True)
class _Known:
    """A consumer's pulls of one topic, as the checks left them."""

    asked: PullMessageRequestHeader
    admitted: Admitted
    subscription: SubscriptionData | None
    """What the heartbeat said; None if the pull says itself what it wants."""


class PullPath:
    """Answers PULL_MESSAGE (11) with JSON headers, for servers that write these."""

    def __init__(
        self,
        checks: PullChecks,
        reading: PullReading,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerRegistry,
        settings: Settings[BrokerConfig],
    ) -> None:
        self._checks, self._reading = checks, reading
        self._topics, self._groups, self._consumers, self._settings = topics, groups, consumers, settings
        self._known: dict[tuple[str | None, ...], _Known] = {}
        self._version = -1

    def answer(self, channel: object, ext: Mapping[str, str], opaque: int) -> bytes | None:
        """The whole reply frame to a pull that is not oneway; None leaves it to the handler."""
        try:
            known = self._find(channel, ext)
            return None if known is None else self._answer(known, ext, opaque)
        except OSError:  # the handler will meet it too, and has somebody to tell
            return None

    def _answer(self, known: _Known, ext: Mapping[str, str], opaque: int) -> bytes | None:
        queue_id, offset = _number(ext.get("queueId")), _number(ext.get("queueOffset"))
        commit_offset = _number(ext.get("commitOffset"))
        asked, admitted = known.asked, known.admitted
        if not 0 <= queue_id < admitted.topic.read_queue_nums or offset < 0 or commit_offset < -1:
            return None
        group, topic, reading = asked.consumer_group, asked.topic, self._reading
        result = reading.read(group, topic, queue_id, offset, asked.max_msg_nums, admitted.wanted)
        code = pull_code(result.status, offset)
        if code is ResponseCode.PULL_NOT_FOUND and asked.sys_flag & PULL_SUSPEND:
            return None
        reading.note(group, topic, queue_id, result, commit_offset if asked.sys_flag & PULL_COMMIT_OFFSET else None)
        header = _HEADER % (
            int(code),
            reading.suggested_broker(admitted.group, topic, queue_id, result),
            result.next_offset,
            result.min_offset,
            result.max_offset,
            admitted.topic.topic_sys_flag,
            admitted.group.group_sys_flag,
            opaque,
            result.status.name.encode(),
        )
        size = len(header)
        return b"".join((_PREFIX.pack(4 + size + result.byte_count, size), header, *result.records))

    def _find(self, channel: object, ext: Mapping[str, str]) -> _Known | None:
        version = self._topics.version + self._groups.version + self._settings.version
        if version != self._version:
            self._known.clear()
            self._version = version
        key = tuple([ext.get(name) for name in _STEADY])
        known = self._known.get(key)
        if known is None:
            return self._learn(channel, ext, key)
        subscription = known.subscription
        if subscription is not None:
            asked = known.asked
            if self._consumers.subscription(asked.consumer_group, asked.topic) is not subscription:
                return self._learn(channel, ext, key)
        return known

    def _learn(self, channel: object, ext: Mapping[str, str], key: tuple[str | None, ...]) -> _Known | None:
        try:
            asked = headers.decode(PullMessageRequestHeader, ext)
        except RemoteProtocolError:
            return None
        admitted = self._checks.admit(channel, asked, is_lite=False)
        # What depends on more than is compared in `_find` is not kept: on the connection, on how the group consumes.
        if isinstance(admitted, Command) or self._settings.value.reject_pull_consumer_enable:
            return None
        is_own = asked.sys_flag & PULL_SUBSCRIPTION
        if not is_own and not admitted.group.consume_broadcast_enable:
            return None
        subscription = None if is_own else self._consumers.subscription(asked.consumer_group, asked.topic)
        known = _Known(asked, admitted, subscription)
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
        if len(asked.subscription or "") <= _KEPT_TEXT_MAX:
            self._known[key] = known
        return known


def _number(text: str | None) -> int:
    """The number in plain digits, or -1; everything else is -2."""
    if text is None:
        return -2
    if text.isdecimal() and text.isascii() and len(text) <= _DIGITS_MAX:
        return int(text)
    return -1 if text == "-1" else -2
