"""Static topics: logical queues that keep their numbers while the queues behind them move between brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketline.model.integers import Int32
from rocketline.model.route import TopicQueueMappingInfo
from rocketline.model.topic_config import TopicConfig


@dataclass(frozen=True, slots=True)
class LogicQueueMappingItem:
    """A span of a logical queue, and the physical queue that holds it. Java: LogicQueueMappingItem."""

    bname: str
    queue_id: Int32 = 0
    gen: Int32 = 0
    logic_offset: int = 0
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


@dataclass(frozen=True, slots=True)
class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """What a broker holds of a static topic, queue by queue. Java: TopicQueueMappingDetail."""

    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicConfigAndQueueMapping(TopicConfig):
    """A topic's configuration with its mapping, if it is a static topic. Java: TopicConfigAndQueueMapping."""

    mapping_detail: TopicQueueMappingDetail | None = None
