"""Consumers' offsets: to keep, to ask for, to compare, to copy.

QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15), GET_ALL_CONSUMER_OFFSET (43), QUERY_CORRECTION_OFFSET (308),
CLONE_GROUP_OFFSET (314).

Differs from Apache:
- 308 only reads: Apache's broker forgets all offsets of the groups that are to be left out, and fails if the group to
  compare with has an offset where no other has one;
- 314 without a topic copies the offsets of all topics, which Apache's broker means to do, and to a group that exists
  or may be made;
- 15 takes queues up to the largest number of queues that a topic may have here, and no more than `OFFSETS_MAX` in all.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.handlers.queue_bounds import BoundedQueues
from rocketline.broker.long_work import LongWork, Steps, answered_with, each_with_pause
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.offsets import OFFSETS_MAX, ConsumerOffsets
from rocketline.broker.metadata.topics import QUEUES_MAX, TopicTable
from rocketline.errors import RemoteProtocolError
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire import headers
from rocketline.wire.bodies.offsets import CorrectionOffsets
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_AHEAD = 2**63 - 1
"""Stands for the offset of a queue in which nobody is behind the group that was compared."""
_NO_ROOM = f"this broker keeps {OFFSETS_MAX} offsets already, and no more: delete groups or topics that nobody needs"


class QueuesAndMemory(BoundedQueues, Protocol):
    """What is asked of the store here."""

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """There is such a message, and reading it needs no disk."""
        ...


class OffsetHandlers:
    """The offset table, as consumers and administrators use it."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerRegistry,
        store: QueuesAndMemory,
        work: LongWork,
    ) -> None:
        self._offsets, self._topics, self._groups = offsets, topics, groups
        self._consumers, self._store, self._work = consumers, store, work

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self._query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._get_all,
            RequestCode.QUERY_CORRECTION_OFFSET: self._query_correction,
            RequestCode.CLONE_GROUP_OFFSET: self._clone,
        }

    def _query(self, channel: Channel, request: Command) -> Command:
        """Where the group goes on. A new group begins at 0 if the queue still has all of its messages at hand."""
        asked = headers.read(headers.QueryConsumerOffsetRequestHeader, request.ext)
        offset = self._offsets.query(asked.consumer_group, asked.topic, asked.queue_id)
        if offset < 0:
            if asked.set_zero_if_not_found is False or not self._is_young(asked.topic, asked.queue_id):
                remark = f"group {asked.consumer_group} has no offset in queue {asked.queue_id} of {asked.topic}"
                return response(ResponseCode.QUERY_NOT_FOUND, remark)
            offset = 0
        header = headers.QueryConsumerOffsetResponseHeader(offset=offset)
        return response(ResponseCode.SUCCESS, ext=headers.encode(header))

    def _is_young(self, topic: str, queue_id: int) -> bool:
        return self._store.min_offset(topic, queue_id) <= 0 and self._store.is_in_memory(topic, queue_id, 0)

    def _update(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.UpdateConsumerOffsetRequestHeader, request.ext)
        group, topic = asked.consumer_group, asked.topic
        if (problem := self._unknown(group, topic)) is not None:
            return problem
        try:
            queue_id, offset = asked.queue_id, asked.commit_offset
        except RemoteProtocolError as error:
            return response(ResponseCode.INVALID_PARAMETER, str(error))
        if not 0 <= queue_id < QUEUES_MAX:
            remark = f"topic {topic} has no queue {queue_id}: 0 to {QUEUES_MAX - 1} are possible"
            return response(ResponseCode.INVALID_PARAMETER, remark)
        if not self._offsets.has_room(group, topic, queue_id):
            return response(ResponseCode.SYSTEM_ERROR, _NO_ROOM)
        if self._offsets.pending_reset(group, topic, queue_id) is not None:
            return response(ResponseCode.SUCCESS, "not kept: this queue was reset, and no pull has been told so yet")
        self._offsets.commit(group, topic, queue_id, offset)
        return response(ResponseCode.SUCCESS)

    def _unknown(self, group: str, topic: str) -> Command | None:
        if self._groups.get(group) is None:
            return response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group {group} does not exist")
        if self._topics.get(topic) is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
        return None

    def _get_all(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, answered_with(self._offsets.table()))

    def _clone(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.CloneGroupOffsetRequestHeader, request.ext)
        if self._groups.find(asked.dest_group) is None:
            remark = f"group {asked.dest_group} does not exist, and may not be made"
            return response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return self._work.begin(channel, request, self._cloned(asked), is_change=True)

    def _cloned(self, asked: headers.CloneGroupOffsetRequestHeader) -> Steps[Command]:
        """Topics that are gone, or that the source group is online for and no longer reads, are left out."""
        one_topic = (asked.topic or "").strip()
        topics = [one_topic] if one_topic else self._offsets.topics_of(asked.src_group)
        for topic, is_step in each_with_pause(topics):
            info = self._consumers.info(asked.src_group)
            is_left = not asked.offline and info is not None and info.subscriptions and topic not in info.subscriptions
            is_meant = self._topics.get(topic) is not None and not is_left
            if is_meant and not self._offsets.clone(asked.src_group, asked.dest_group, topic):
                return response(ResponseCode.SYSTEM_ERROR, _NO_ROOM)
            if is_step:
                yield
        return response(ResponseCode.SUCCESS)

    def _query_correction(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.QueryCorrectionOffsetHeader, request.ext)
        return self._work.begin(channel, request, answered_with(self._correction(asked)))

    def _correction(self, asked: headers.QueryCorrectionOffsetHeader) -> Steps[CorrectionOffsets]:
        """How far behind the slowest group is, where one is behind the group to compare with."""
        without = frozenset((asked.filter_groups or "").split(","))
        found = yield from self._offsets.smallest(asked.topic, partial(self._store.min_offset, asked.topic), without)
        for queue_id, offset in self._offsets.offsets_of(asked.compare_group, asked.topic).items():
            if found.get(queue_id, _AHEAD) > offset:
                found[queue_id] = _AHEAD
        return CorrectionOffsets(found)
