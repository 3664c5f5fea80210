"""INVOKE_BROKER_TO_RESET_OFFSET (222): send a group to where a topic was at some time, or to a given offset.

The broker does it itself: the next pull of each queue is told where to go on. With `useServerSideResetOffset=false` the
clients that are online are told instead (RESET_CONSUMER_CLIENT_OFFSET, 220).
"""

from __future__ import annotations

from rocketline.broker.clients.client_calls import VERSION_OF_STATUS, ClientCalls, offset_list
from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.config import BrokerConfig
from rocketline.broker.handlers.queue_bounds import BoundedQueues
from rocketline.broker.long_work import LongWork, Steps, answered, each_with_pause, encoded
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.topics import QUEUES_MAX, TopicTable
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies.offsets import ResetOffsetBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import BoundaryType, ResetOffsetRequestHeader


class ResetHandlers:
    """Resets of offsets, in either way."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerRegistry,
        calls: ClientCalls,
        store: BoundedQueues,
        settings: Settings[BrokerConfig],
        work: LongWork,
        log: Throttle,
    ) -> None:
        self._offsets, self._topics, self._groups, self._work, self._log = offsets, topics, groups, work, log
        self._consumers, self._calls, self._store, self._settings = consumers, calls, store, settings

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self._reset}

    def _reset(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(ResetOffsetRequestHeader, request.ext)
        topic = self._topics.get(asked.topic)
        if topic is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"topic {asked.topic} does not exist")
        self._log.info("offset reset", asked.group, topic=asked.topic, to_ms=asked.timestamp, by=channel.peer)
        if self._settings.value.use_server_side_reset_offset:
            steps = self._reset_here(asked, topic)
        else:
            steps = self._reset_at_clients(asked, topic, is_for_cpp=request.language == "CPP")
        return self._work.begin(channel, request, steps, is_change=True)

    def _reset_here(self, asked: ResetOffsetRequestHeader, topic: TopicConfig) -> Steps[Command]:
        if self._groups.get(asked.group) is None:
            return response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group {asked.group} does not exist")
        if asked.queue_id >= QUEUES_MAX:
            return response(ResponseCode.SYSTEM_ERROR, f"topic {asked.topic} has no queue {asked.queue_id}")
        targets: dict[MessageQueue, int] = {}
        if asked.queue_id >= 0 and asked.offset is not None and asked.offset != -1:
            if problem := self._outside(asked.topic, asked.queue_id, asked.offset):
                return response(ResponseCode.SYSTEM_ERROR, problem)
            targets[self._queue(asked.topic, asked.queue_id)] = asked.offset
            self._offsets.assign_reset(asked.group, asked.topic, asked.queue_id, asked.offset)
        else:
            queues = [asked.queue_id] if asked.queue_id >= 0 else range(topic.read_queue_nums)
            for queue_id, is_step in each_with_pause(queues):
                offset = self._offset_at(asked.topic, queue_id, asked.timestamp)
                targets[self._queue(asked.topic, queue_id)] = offset
                self._offsets.assign_reset(asked.group, asked.topic, queue_id, offset)
                if is_step:
                    yield
        if not targets:
            return response(ResponseCode.SYSTEM_ERROR, f"topic {asked.topic} has no queues to read from")
        return (yield from answered(ResetOffsetBody(targets)))

    def _outside(self, topic: str, queue_id: int, offset: int) -> str | None:
        """What is wrong with an offset; the one after the next to be written is still right."""
        first, end = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        if first <= offset <= end + 1:
            return None
        return f"offset {offset} is not in queue {queue_id} of {topic}, which goes from {first} to {end}"

    def _reset_at_clients(
        self, asked: ResetOffsetRequestHeader, topic: TopicConfig, *, is_for_cpp: bool
    ) -> Steps[Command]:
        """Without force, nobody is sent forward. Java: Broker2Client.resetOffset."""
        targets: dict[MessageQueue, int] = {}
        for queue_id, is_step in each_with_pause(range(topic.write_queue_nums)):
            committed = self._offsets.query(asked.group, asked.topic, queue_id)
            if committed == -1:
                problem = f"group {asked.group} has no offset in queue {queue_id} of {asked.topic}: nothing to reset"
                return response(ResponseCode.SYSTEM_ERROR, problem)
            offset = self._offset_at(asked.topic, queue_id, asked.timestamp)
            targets[self._queue(asked.topic, queue_id)] = offset if asked.is_force else min(offset, committed)
            if is_step:
                yield
        told = yield from encoded(offset_list(targets) if is_for_cpp else ResetOffsetBody(targets))
        info = self._consumers.info(asked.group)
        if info is None:
            return response(ResponseCode.CONSUMER_NOT_ONLINE, f"no consumer of group {asked.group} is online")
        clients = list(info.clients.values())
        if old := next((client for client in clients if client.version < VERSION_OF_STATUS), None):
            return response(ResponseCode.SYSTEM_ERROR, f"client {old.client_id} is too old to be told an offset")
        header = ResetOffsetRequestHeader(
            group=asked.group, topic=asked.topic, timestamp=asked.timestamp, is_force=False
        )
        if not self._calls.reset_offsets(clients, header, told):
            return response(ResponseCode.SYSTEM_BUSY, "too many calls to clients run already: try again")
        return (yield from answered(ResetOffsetBody(targets)))

    def _offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Of the first message that is not older; the end of the queue for a negative time."""
        if timestamp_ms < 0:
            return self._store.max_offset(topic, queue_id)
        return self._store.offset_at_time(topic, queue_id, timestamp_ms, BoundaryType.LOWER)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._settings.value.broker_name, queue_id)
