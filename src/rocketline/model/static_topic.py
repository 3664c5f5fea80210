"""Static topics: logical queues that keep their numbers while the queues behind them move between brokers."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.model.route import TopicQueueMappingInfo
from rocketline.model.topic_config import TopicConfig
from rocketline.record import record


@record
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


@record
class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """What a broker holds of a static topic, queue by queue. Java: TopicQueueMappingDetail."""

    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = field(default_factory=dict)


@record
class TopicConfigAndQueueMapping(TopicConfig):
    """A topic's configuration with its mapping, if it is a static topic. Java: TopicConfigAndQueueMapping."""

    mapping_detail: TopicQueueMappingDetail | None = None
