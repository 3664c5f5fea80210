"""Who consumes what.

QUERY_TOPIC_CONSUME_BY_WHO (300), QUERY_TOPICS_BY_CONSUMER (343), QUERY_SUBSCRIPTION_BY_CONSUMER (345).
"""

from __future__ import annotations

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.long_work import LARGE_TABLE, LongWork, Steps, answered_with
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire import headers
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.groups import GroupSubscription
from rocketline.wire.bodies.lists import GroupList, TopicList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class SubscriptionHandlers:
    """Topics and groups that belong together, by what is online and by what was committed."""

    def __init__(
        self, consumers: ConsumerRegistry, offsets: ConsumerOffsets, broker_address: str, work: LongWork
    ) -> None:
        self._consumers, self._offsets, self._broker_address, self._work = consumers, offsets, broker_address, work

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._groups_of_topic,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self._topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
        }

    def _groups_of_topic(self, channel: Channel, request: Command) -> Outcome:
        topic = headers.read(headers.QueryTopicConsumeByWhoRequestHeader, request.ext).topic
        return self._work.begin(channel, request, answered_with(self._groups(topic)))

    def _groups(self, topic: str) -> Steps[GroupList]:
        if len(self._groups_now(topic)) > LARGE_TABLE:
            yield
        return GroupList(self._groups_now(topic))

    def _groups_now(self, topic: str) -> list[str]:
        return list(dict.fromkeys([*self._consumers.groups_subscribed_to(topic), *self._offsets.groups_of(topic)]))

    def _topics_of_group(self, channel: Channel, request: Command) -> Outcome:
        group = headers.read(headers.QueryTopicsByConsumerRequestHeader, request.ext).group
        return self._work.begin(channel, request, answered_with(self._topics(group)))

    def _topics(self, group: str) -> Steps[TopicList]:
        if len(self._offsets.topics_of(group)) > LARGE_TABLE:
            yield
        return TopicList(self._offsets.topics_of(group), self._broker_address)

    def _subscription(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.QuerySubscriptionByConsumerRequestHeader, request.ext)
        found = self._consumers.subscription(asked.group, asked.topic or "")
        return response(ResponseCode.SUCCESS, body=encode(GroupSubscription(asked.group, asked.topic, found)))
