"""Filters in SQL as Apache's broker keeps them in `consumerFilter.json`. Java: ConsumerFilterManager."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.record import record


@record
class BloomFilterData:
    """The bits that stand for one group and topic in a map of so many bits. Java: BloomFilterData."""

    bit_num: Int32 = 0
    bit_pos: list[Int32] | None = None


@record
class ConsumerFilterData:
    """What a group has chosen among a topic's messages. It is `dead` while nobody of the group is online."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: int = 0
    client_version: int = 0
    """Of the subscription: greater is newer."""
    consumer_group: str = ""
    dead: bool = False
    dead_time: int = 0
    expression: str = ""
    expression_type: str = ""
    topic: str = ""


@record
class FilterDataByGroup:
    """The filters of one topic. Java: FilterDataMapByTopic."""

    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)
    topic: str | None = None


@record
class ConsumerFilterTable:
    """All of them, by topic."""

    filter_data_by_topic: dict[str, FilterDataByGroup] = field(default_factory=dict)
