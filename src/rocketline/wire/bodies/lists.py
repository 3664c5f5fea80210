"""Plain lists and tables that many commands answer with."""

from __future__ import annotations

from dataclasses import field

from rocketline.record import record


@record
class KVTable:
    """Names and values: a name server's namespace, a broker's runtime figures. Java: KVTable."""

    table: dict[str, str] = field(default_factory=dict)


@record
class TopicList:
    """Topics, and for some commands the address of a broker. Java: TopicList."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


@record
class GroupList:
    """The consumer groups of a topic. Java: GroupList."""

    group_list: list[str] = field(default_factory=list)


@record
class ConsumerList:
    """The client ids of a group's consumers. Java: GetConsumerListByGroupResponseBody."""

    consumer_id_list: list[str] = field(default_factory=list)
