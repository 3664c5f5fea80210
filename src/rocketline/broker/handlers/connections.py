"""Who is connected, for clients that share a group and for administrators.

GET_CONSUMER_LIST_BY_GROUP (38), GET_CONSUMER_CONNECTION_LIST (203), GET_PRODUCER_CONNECTION_LIST (204),
GET_ALL_PRODUCER_INFO (328).
"""

from __future__ import annotations

from rocketline.broker.clients.consumers import ConsumerGroupInfo, ConsumerRegistry
from rocketline.broker.clients.memberships import Client
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.long_work import LARGE_TABLE, LongWork, Steps, answered, answered_with, each_with_pause
from rocketline.errors import LocalProtocolError
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire import headers
from rocketline.wire.bodies.connections import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.frame import FRAME_BYTES_MAX

_GROUP_BYTES_MIN = 100
"""What a group with one producer takes in the list."""
_CLIENTS_A_STEP = 500


class ConnectionHandlers:
    """The registries, read only."""

    def __init__(self, consumers: ConsumerRegistry, producers: ProducerRegistry, work: LongWork) -> None:
        self._consumers, self._producers, self._work = consumers, producers, work

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._list_consumer_ids,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._list_consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._list_producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self._list_all_producers,
        }

    def _list_consumer_ids(self, channel: Channel, request: Command) -> Outcome:
        """What the members of a group share out its queues by."""
        asked = headers.read(headers.GetConsumerListByGroupRequestHeader, request.ext)
        client_ids = self._consumers.client_ids(asked.consumer_group)
        if not client_ids:
            return response(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {asked.consumer_group}")
        return self._work.begin(channel, request, answered(ConsumerList(client_ids)))

    def _list_consumers(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.GetConsumerConnectionListRequestHeader, request.ext)
        info = self._consumers.info(asked.consumer_group)
        if info is None:
            return response(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{asked.consumer_group}] not online")
        return self._work.begin(channel, request, answered_with(_consumers(info)))

    def _list_producers(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.GetProducerConnectionListRequestHeader, request.ext)
        clients = self._producers.clients(asked.producer_group)
        if not clients:
            return response(ResponseCode.SYSTEM_ERROR, f"the producer group {asked.producer_group} is not online")
        return self._work.begin(channel, request, answered_with(_producers(list(clients.values()))))

    def _list_all_producers(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, answered_with(self._all_producers()))

    def _all_producers(self) -> Steps[ProducerTable]:
        table: dict[str, list[ProducerInfo]] = {}
        each = ((group, client) for group in self._producers.groups() for client in self._producers.members(group))
        for (group, client), is_step in each_with_pause(each):
            table.setdefault(group, []).append(_producer_info(client))
            if len(table) * _GROUP_BYTES_MIN > FRAME_BYTES_MAX:
                raise LocalProtocolError(f"the producers of {len(table)} groups and more are too many for a frame")
            if is_step:
                yield
        return ProducerTable(table)


def _consumers(info: ConsumerGroupInfo) -> Steps[ConsumerConnection]:
    if len(info.subscriptions) > LARGE_TABLE:
        yield
    how = info.consume_from_where, info.consume_type, info.message_model, dict(info.subscriptions)
    return ConsumerConnection((yield from _connections(list(info.clients.values()))), *how)


def _producers(clients: list[Client]) -> Steps[ProducerConnection]:
    return ProducerConnection((yield from _connections(clients)))


def _connections(clients: list[Client]) -> Steps[list[ClientConnection]]:
    found = []
    for client, is_step in each_with_pause(clients, _CLIENTS_A_STEP):
        found.append(client.connection)
        if is_step:
            yield
    return found


def _producer_info(client: Client) -> ProducerInfo:
    # Java writes a socket address here, which begins with the host's name: none, and a slash.
    remote = f"/{client.channel.peer}"
    return ProducerInfo(client.client_id, remote, client.language, client.version, client.heard_ms)
