"""The fast twin of the pull handler: the same answers, byte for byte, without a command in between.

A consumer's pulls of a queue differ in nothing but two numbers: offset and committed offset. What the checks find out
of all the rest is kept by the text of that rest, for as long as topics, groups and settings stay what they are and the
group's heartbeat says the same. Whatever is unusual (a refusal, a pull that must wait, a number written in an odd way)
is left to the handler, and nothing has happened then; so is every pull by SQL.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SQL_TYPE
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.pulls.checks import Admitted, PullChecks
from rocketline.broker.pulls.reading import PullReading, pull_code
from rocketline.errors import RemoteProtocolError
from rocketline.filter import SqlFilter
from rocketline.hot.pure.pull_request import PullFields, PullHeader, present
from rocketline.model.route import MASTER_ID
from rocketline.model.subscription import SubscriptionData
from rocketline.model.sys_flags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketline.settings import Settings
from rocketline.store.reading import ReadStatus
from rocketline.wire import headers
from rocketline.wire.codes import CURRENT_VERSION, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import PullMessageRequestHeader

_KEPT_MAX: Final = 16_384
_KEPT_TEXT_MAX: Final = 1024
_DIGITS_MAX: Final = 18
_PREFIX: Final = struct.Struct(">II")
_HEADER: Final = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%%d","minOffset":"%%d","maxOffset":"%%d",'
    b'"topicSysFlag":"%d","groupSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":%%d,"remark":"%b",'
    b'"serializeTypeCurrentRPC":"JSON","version":' + str(CURRENT_VERSION).encode() + b"}"
)


@dataclass(slots=True)
class _Known:
    """A consumer's pulls of one queue, as the checks left them."""

    asked: PullMessageRequestHeader
    admitted: Admitted
    subscription: SubscriptionData | None
    """What the heartbeat said; None if the pull says itself what it wants."""
    found: bytes | None
    """The answer's header when every message is wanted and the master should be asked again; the rest is numbers."""


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

    def answer(self, channel: object, header: PullHeader) -> bytes | None:
        """The whole reply frame to a pull that is not oneway; None leaves it to the handler."""
        fields = header.extFields
        if fields.expressionType == SQL_TYPE:
            return None
        offset, commit_offset = _number(fields.queueOffset), _number(fields.commitOffset)
        if offset < 0 or commit_offset < -1:
            return None
        try:
            known = self._find(channel, fields)
            if known is None:
                return None
            committed = commit_offset if known.asked.sys_flag & PULL_COMMIT_OFFSET else None
            reply = None if known.found is None else self._answer_run(known, offset, committed, header.opaque)
            return self._answer(known, offset, committed, header.opaque) if reply is None else reply
        except OSError:  # the handler will meet it too, and has somebody to tell
            return None

    def _answer_run(self, known: _Known, offset: int, committed: int | None, opaque: int) -> bytes | None:
        """What most pulls get: the next messages, all of them."""
        asked, reading = known.asked, self._reading
        group, topic, queue_id = asked.consumer_group, asked.topic, asked.queue_id
        run = reading.read_run(group, topic, queue_id, offset, asked.max_msg_nums)
        if run is None:
            return None
        low, high, count, size, records, last = run
        assert known.found is not None
        header = known.found % (offset + count, low, high, opaque)
        header_bytes = len(header)
        reply = b"".join((_PREFIX.pack(4 + header_bytes + size, header_bytes), header, *records))
        # After the copy, because that is what takes long if the log is not in memory.
        reading.note_read(group, topic, queue_id, offset + count, committed, (count, size, last))
        return reply

    def _answer(self, known: _Known, offset: int, committed: int | None, opaque: int) -> bytes | None:
        asked, admitted, reading = known.asked, known.admitted, self._reading
        group, topic, queue_id = asked.consumer_group, asked.topic, asked.queue_id
        result = reading.read(group, topic, queue_id, offset, asked.max_msg_nums, admitted.wanted)
        code = pull_code(result.status, offset)
        if code is ResponseCode.PULL_NOT_FOUND and asked.sys_flag & PULL_SUSPEND:
            return None
        reading.note(group, topic, queue_id, result, committed)
        broker_id = reading.suggested_broker(admitted.group, topic, queue_id, result)
        template = _template(code, broker_id, admitted, result.status)
        header = template % (result.next_offset, result.min_offset, result.max_offset, opaque)
        size = len(header)
        return b"".join((_PREFIX.pack(4 + size + result.byte_count, size), header, *result.records))

    def _find(self, channel: object, fields: PullFields) -> _Known | None:
        version = self._topics.version + self._groups.version + self._settings.version
        if version != self._version:
            self._known.clear()
            self._version = version
        # fmt: off
        key = (
            fields.consumerGroup, fields.topic, fields.queueId, fields.sysFlag, fields.maxMsgNums,
            fields.suspendTimeoutMillis, fields.subVersion, fields.subscription, fields.expressionType,
            fields.maxMsgBytes, fields.requestSource,
        )
        # fmt: on
        known = self._known.get(key)
        if known is None:
            return self._learn(channel, fields, key)
        subscription = known.subscription
        if subscription is not None:
            asked = known.asked
            if self._consumers.subscription(asked.consumer_group, asked.topic) is not subscription:
                return self._learn(channel, fields, key)
        return known

    def _learn(self, channel: object, fields: PullFields, key: tuple[str | None, ...]) -> _Known | None:
        try:
            asked = headers.decode(PullMessageRequestHeader, present(fields))
        except RemoteProtocolError:
            return None
        admitted = self._checks.admit(channel, asked, is_lite=False)
        config = self._settings.value
        # What depends on more than is compared in `_find` is not kept: on the connection, on how the group consumes.
        if isinstance(admitted, Command) or config.reject_pull_consumer_enable:
            return None
        if isinstance(admitted.wanted, SqlFilter):
            return None
        is_own = asked.sys_flag & PULL_SUBSCRIPTION
        if not is_own and not admitted.group.consume_broadcast_enable:
            return None
        subscription = None if is_own else self._consumers.subscription(asked.consumer_group, asked.topic)
        is_plain = admitted.wanted is None and not config.slave_read_enable
        found = _template(ResponseCode.SUCCESS, MASTER_ID, admitted, ReadStatus.FOUND) if is_plain else None
        known = _Known(asked, admitted, subscription, found)
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
        if len(asked.subscription or "") <= _KEPT_TEXT_MAX:
            self._known[key] = known
        return known


def _template(code: ResponseCode, broker_id: int, admitted: Admitted, status: ReadStatus) -> bytes:
    """The header of an answer, waiting for the next offset, the queue's bounds and the opaque."""
    flags = admitted.topic.topic_sys_flag, admitted.group.group_sys_flag
    return _HEADER % (int(code), broker_id, *flags, status.name.encode())


def _number(text: str | None) -> int:
    """The number in plain digits, or -1; everything else is -2."""
    if text is None:
        return -2
    if text.isdecimal() and text.isascii() and len(text) <= _DIGITS_MAX:
        return int(text)
    return -1 if text == "-1" else -2
