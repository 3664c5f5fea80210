"""Which queues are a client's, decided here and not by the client; and the modes of consuming that go with it.

QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401), GET_ALL_MESSAGE_REQUEST_MODE (402).

Differs from Apache: without name servers, the queues of a topic are those of this broker. A broker that keeps no timers
cannot be popped from, so it tells all clients to pull.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.memberships import NAME_MAX
from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import QUEUES_A_STEP, LongWork, Steps, answered, each_with_pause
from rocketline.broker.metadata.assignment import pop_share, share
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.request_modes import RequestModes
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.request_body import read_body
from rocketline.errors import RemoteProtocolError
from rocketline.model import names
from rocketline.model.queue import MessageQueue
from rocketline.model.route import PERM_READ
from rocketline.model.subscription import MessageModel, MessageRequestMode
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.net.saves import Saves
from rocketline.settings import Settings
from rocketline.store.filesystem import told
from rocketline.wire.bodies.pop import (
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

Queues = Sequence[MessageQueue]
_ASSIGNED_A_STEP = 1_000
FindQueues = Callable[[str, Callable[[Queues | None], None]], None]
"""Calls back with the queues of a topic in the whole cluster, at once or later; None if nobody knows the topic."""


class AssignmentHandlers:
    """Assignments by the consumers that are online, and the modes that administrators set."""

    def __init__(
        self,
        consumers: ConsumerRegistry,
        topics: TopicTable,
        groups: GroupTable,
        modes: RequestModes,
        saves: Saves,
        find_queues: FindQueues,
        settings: Settings[BrokerConfig],
        work: LongWork,
    ) -> None:
        self._work, self._saves = work, saves
        self._consumers, self._topics, self._groups, self._modes = consumers, topics, groups, modes
        self._find_queues, self._settings = find_queues, settings

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_ASSIGNMENT: self._query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._get_modes,
        }

    def _query(self, channel: Channel, request: Command) -> Outcome:
        """Answered now if the topic's queues are known, otherwise when a name server has told them."""
        asked = read_body(QueryAssignmentRequestBody, request.body)
        if asked.topic is None or asked.message_model is None:
            raise RemoteProtocolError("QueryAssignmentRequestBody lacks topic or messageModel")
        if (length := max(map(len, (asked.topic, asked.consumer_group or "", asked.client_id or "")))) > NAME_MAX:
            raise RemoteProtocolError(
                f"QueryAssignmentRequestBody: a name of {length} characters, of {NAME_MAX} at most"
            )
        if not self._settings.value.name_servers:
            return self._work.begin(channel, request, self._assigned_here(asked, asked.topic))
        outcome: Outcome = None
        is_later = False
        request = replace(request, ext={}, body=b"")  # it may wait, and is no longer needed

        def found(queues: Queues | None) -> None:
            nonlocal outcome
            outcome = self._work.begin(channel, request, self._assigned(asked, queues))
            if is_later and isinstance(outcome, Command):
                channel.reply(request, outcome)

        self._find_queues(asked.topic, found)
        if outcome is not None:
            return outcome
        is_later = True
        return LATER

    def _assigned_here(self, asked: QueryAssignmentRequestBody, topic: str) -> Steps[Command]:
        config = self._topics.get(topic)
        if config is not None and config.read_queue_nums > QUEUES_A_STEP:
            yield
        return (yield from self._assigned(asked, self._own_queues(topic)))

    def _assigned(self, asked: QueryAssignmentRequestBody, queues: Queues | None) -> Steps[Command]:
        if queues is not None and len(queues) > QUEUES_A_STEP:
            yield
        mode = self._mode(asked)
        shared = self._share(asked, queues, mode)
        assignments = None if shared is None else (yield from _assigned(shared, mode.mode))
        return (yield from answered(QueryAssignmentResponseBody(assignments)))

    def _own_queues(self, topic: str) -> Queues | None:
        config, broker = self._topics.get(topic), self._settings.value.broker_name
        if config is None or not config.perm & PERM_READ:
            return None
        return [MessageQueue(topic, broker, queue_id) for queue_id in range(config.read_queue_nums)]

    def _mode(self, asked: QueryAssignmentRequestBody) -> SetMessageRequestModeRequestBody:
        """How the group gets the topic's messages."""
        config, topic, group = self._settings.value, asked.topic or "", asked.consumer_group or ""
        known = self._modes.mode_of(topic, group)
        if not config.store.timer_wheel_enable or (known is None and names.is_retry_topic(topic)):
            return SetMessageRequestModeRequestBody(topic, group, MessageRequestMode.PULL)
        if known is not None:
            return known
        mode, share_queues = config.default_message_request_mode, config.default_pop_share_queue_num
        return SetMessageRequestModeRequestBody(topic, group, mode, share_queues)

    def _share(
        self, asked: QueryAssignmentRequestBody, queues: Queues | None, mode: SetMessageRequestModeRequestBody
    ) -> Queues | None:
        """None tells the client to keep what it has, for we do not know better."""
        if queues is None or asked.message_model is MessageModel.BROADCASTING:
            return queues
        if asked.message_model is not MessageModel.CLUSTERING:
            return None
        if not self._settings.value.server_load_balancer_enable:
            return queues
        clients = self._consumers.client_ids(asked.consumer_group or "")
        if not clients:
            return None
        if mode.mode is MessageRequestMode.POP:
            share_queues = mode.pop_share_queue_num
            return pop_share(asked.strategy_name, asked.client_id, clients, queues, share_queues)
        return share(asked.strategy_name, asked.client_id, clients, queues)

    def _set_mode(self, channel: Channel, request: Command) -> Outcome:
        asked = read_body(SetMessageRequestModeRequestBody, request.body)
        if asked.topic is None or asked.consumer_group is None:
            raise RemoteProtocolError("SetMessageRequestModeRequestBody lacks topic or consumerGroup")
        if names.is_retry_topic(asked.topic):
            return response(ResponseCode.NO_PERMISSION, f"{asked.topic} is a retry topic, which is always pulled")
        if self._topics.get(asked.topic) is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"topic {asked.topic} does not exist")
        if self._groups.find(asked.consumer_group) is None:
            remark = f"group {asked.consumer_group} does not exist"
            return response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if self._saves.is_full:
            return response(ResponseCode.SYSTEM_BUSY, "too many modes of consuming wait to be saved: try again")
        self._modes.set(asked.topic, asked.consumer_group, asked)
        later = LaterAnswer(channel, request)
        self._saves.save(lambda problem: later.give(self._mode_saved(problem)))
        return later.outcome()

    def _mode_saved(self, problem: OSError | None) -> Command:
        """Told for each of those that were saved together."""
        if problem is not None:
            self._modes.save_failed()
            return response(ResponseCode.SYSTEM_ERROR, f"the mode of consuming cannot be saved: {told(problem)}")
        self._modes.save_done()
        return response(ResponseCode.SUCCESS)

    def _get_modes(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, answered(self._modes.table))


def _assigned(queues: Queues, mode: MessageRequestMode) -> Steps[list[MessageQueueAssignment]]:
    assignments = []
    for queue, is_step in each_with_pause(queues, _ASSIGNED_A_STEP):
        assignments.append(MessageQueueAssignment(queue, mode))
        if is_step:
            yield
    return assignments
