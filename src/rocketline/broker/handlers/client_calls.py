"""What an administrator asks of a client, through the broker that the client is connected to.

INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223), GET_CONSUMER_RUNNING_INFO (307), CONSUME_MESSAGE_DIRECTLY (309).

Differs from Apache: the clients of a group are asked for their status at once, not one after the other. To consume a
message for a group that does not exist does not create the group. What waits for clients is bounded in bytes, and a
client that takes nothing is asked nothing.
"""

from __future__ import annotations

from rocketline.broker.clients.client_calls import VERSION_OF_RELAYS, VERSION_OF_STATUS, ClientCalls
from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TopicTable
from rocketline.model.ids import OffsetMessageId
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

RUNNING_INFO_BODY_MAX = 64 * 1024
"""No client of ours or Apache's sends one at all."""


class ClientCallHandlers:
    """Requests that a client answers, not the broker."""

    def __init__(
        self,
        calls: ClientCalls,
        consumers: ConsumerRegistry,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        settings: Settings[BrokerConfig],
    ) -> None:
        self._calls, self._consumers = calls, consumers
        self._topics, self._groups, self._store, self._settings = topics, groups, store, settings

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._get_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._get_running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def _get_status(self, channel: Channel, request: Command) -> Outcome:
        """The offsets that the group's clients have in their memory, of one or of all."""
        asked = headers.read(headers.GetConsumerStatusRequestHeader, request.ext)
        info = self._consumers.info(asked.group)
        if info is None:
            return response(ResponseCode.SYSTEM_ERROR, f"no consumer of the group {asked.group} is online")
        clients = info.clients.values()
        if old := next((client for client in clients if client.version < VERSION_OF_STATUS), None):
            return response(ResponseCode.SYSTEM_ERROR, f"client {old.client_id} is too old to be asked for its status")
        client_id = asked.client_addr or ""
        wanted = clients if not client_id.strip() else [client for client in clients if client.client_id == client_id]
        return self._calls.ask_status(channel, request, wanted, asked.topic, asked.group)

    def _get_running_info(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.GetConsumerRunningInfoRequestHeader, request.ext)
        if len(request.body) > RUNNING_INFO_BODY_MAX:
            remark = f"a body of {len(request.body)} bytes: at most {RUNNING_INFO_BODY_MAX} are passed on to a client"
            return response(ResponseCode.SYSTEM_ERROR, remark)
        call = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, dict(request.ext), request.body)
        return self._relay(channel, request, asked.consumer_group, asked.client_id, call)

    def _consume_directly(self, channel: Channel, request: Command) -> Outcome:
        """The client gets the message itself, which we hold and it perhaps never saw."""
        asked = headers.read(headers.ConsumeMessageDirectlyResultRequestHeader, request.ext)
        if asked.msg_id is None:
            return response(ResponseCode.SYSTEM_ERROR, "the field msgId is missing: which message is meant?")
        record = self._store.record_at(OffsetMessageId.parse(asked.msg_id).log_offset)
        if record is None:
            return response(ResponseCode.SYSTEM_ERROR, f"this broker has no message {asked.msg_id}")
        ext = {**request.ext, "brokerName": self._settings.value.broker_name}
        topic = self._topics.get(asked.topic) if asked.topic else None
        if topic is not None:
            ext["topicSysFlag"] = str(topic.topic_sys_flag)
        group = self._groups.get(asked.consumer_group)
        if group is not None:
            ext["groupSysFlag"] = str(group.group_sys_flag)
        call = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, record)
        return self._relay(channel, request, asked.consumer_group, asked.client_id, call)

    def _relay(self, channel: Channel, request: Command, group: str, client_id: str | None, call: Command) -> Outcome:
        client = self._consumers.client(group, client_id)
        if client is None:
            return response(ResponseCode.SYSTEM_ERROR, f"the consumer {client_id} of group {group} is not online")
        if client.version < VERSION_OF_RELAYS:
            return response(ResponseCode.SYSTEM_ERROR, f"the consumer {client_id} is too old to be asked this")
        return self._calls.relay(channel, request, client, call)
