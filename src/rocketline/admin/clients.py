"""Clients that are connected: consumers and producers, what they do, and what they can be made to do."""

from __future__ import annotations

from typing import Final

from rocketline.admin.calls import Calls, settled
from rocketline.admin.views import BrokerAddress, GroupMembers
from rocketline.errors import ClientError, ResponseError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.connections import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from rocketline.wire.bodies.groups import GroupSubscription
from rocketline.wire.bodies.offsets import ConsumerStatus
from rocketline.wire.bodies.running import ConsumerRunningInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    GetProducerConnectionListRequestHeader,
    Header,
    QuerySubscriptionByConsumerRequestHeader,
)

_RELAY_TIMEOUT_S: Final = 15.0
"""A broker gives the client ten seconds to answer."""


class Clients:
    """`admin.clients`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def consumers(self, group: str) -> GroupMembers:
        """Who is online in a group, and what they subscribe to. Java: examineConsumerConnectionInfo."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        answers = await self._known(code, header, ResponseCode.CONSUMER_NOT_ONLINE)
        connections = [decode_answer(ConsumerConnection, answer.body) for answer in answers.values()]
        if not connections:
            return GroupMembers(group)
        clients = {client.client_id or "": client for each in connections for client in each.connection_set}
        subscriptions = {topic: data for each in connections for topic, data in each.subscription_table.items()}
        first = connections[0]
        return GroupMembers(
            group,
            tuple(clients[client_id] for client_id in sorted(clients)),
            dict(sorted(subscriptions.items())),
            first.consume_type,
            first.message_model,
            first.consume_from_where,
        )

    async def producers(self, group: str) -> tuple[ClientConnection, ...]:
        """Who is online in a producer group. Java: examineProducerConnectionInfo."""
        header = GetProducerConnectionListRequestHeader(producer_group=group)
        # A broker that knows nobody of the group calls it a system error.
        answers = await self._known(RequestCode.GET_PRODUCER_CONNECTION_LIST, header, ResponseCode.SYSTEM_ERROR)
        connections = [decode_answer(ProducerConnection, answer.body) for answer in answers.values()]
        clients = {client.client_id or "": client for each in connections for client in each.connection_set}
        return tuple(clients[client_id] for client_id in sorted(clients))

    async def all_producers(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, tuple[ProducerInfo, ...]]:
        """Every producer by its group. Java: getAllProducerInfo."""
        answers = await self._calls.each(
            await self._calls.brokers(cluster=cluster, broker=broker),
            lambda target: self._calls.ask(target.address, RequestCode.GET_ALL_PRODUCER_INFO),
        )
        groups: dict[str, dict[str, ProducerInfo]] = {}
        for answer in answers.values():
            for group, producers in decode_answer(ProducerTable, answer.body).data.items():
                groups.setdefault(group, {}).update({each.client_id or "": each for each in producers})
        return {group: tuple(groups[group].values()) for group in sorted(groups)}

    async def running_info(self, group: str, client_id: str, *, with_stacks: bool = False) -> ConsumerRunningInfo:
        """What a consumer tells of itself: options, queues, rates; and what its threads do. Raises `ClientError`.

        Java: getConsumerRunningInfo.
        """
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=group, client_id=client_id, jstack_enable=with_stacks
        )
        answers = await settled(
            self._calls.ask(broker.address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout_s=_RELAY_TIMEOUT_S)
            for broker in await self._calls.brokers()
        )
        for answer in answers:
            if isinstance(answer, Command):
                return decode_answer(ConsumerRunningInfo, answer.body)
        problems = "; ".join(str(answer) for answer in answers)
        raise ClientError(f"consumer {client_id!r} of group {group!r} does not answer: {problems}")

    async def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What an online group wants of a topic. Java: querySubscription."""
        header = QuerySubscriptionByConsumerRequestHeader(group=group, topic=topic)
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda target: self._calls.ask(target.address, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header),
        )
        found = [
            decode_answer(GroupSubscription, answer.body).subscription_data
            for answer in answers.values()
            if answer.body
        ]
        return next((data for data in found if data is not None), None)

    async def offsets(
        self, group: str, topic: str, *, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """The offsets in the memory of each consumer, by client id; not yet committed, perhaps. Java: getConsumeStatus.

        Consumers of Java up to 5.5 answer this for push and old pull consumers only.
        """
        header = GetConsumerStatusRequestHeader(topic=topic, group=group, client_addr=client_id)
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda target: self._calls.ask(
                target.address,
                RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
                header,
                timeout_s=_RELAY_TIMEOUT_S,
            ),
        )
        found: dict[str, dict[MessageQueue, int]] = {}
        for answer in answers.values():
            for client, table in (decode_answer(ConsumerStatus, answer.body).consumer_table or {}).items():
                found.setdefault(client, {}).update(table)
        return found

    async def _known(self, code: RequestCode, header: Header, unknown: ResponseCode) -> dict[BrokerAddress, Command]:
        """The answers of those brokers that do not say `unknown`. Raises any other failure."""
        brokers = await self._calls.brokers()
        answers = await settled(self._calls.ask(broker.address, code, header) for broker in brokers)
        known: dict[BrokerAddress, Command] = {}
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, Command):
                known[broker] = answer
            elif not (isinstance(answer, ResponseError) and answer.code == unknown):
                raise answer
        return known
