"""Where a topic lives: the queues that brokers offer, and the brokers' addresses."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.record import record

PERM_PRIORITY = 8
PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1

MASTER_ID = 0
"""The broker id of a master; slaves have greater ones."""


@record
class QueueData:
    """What one broker offers of one topic. Java: QueueData."""

    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = field(default=0, metadata={"also": ("topicSynFlag",)})


@record
class BrokerData:
    """The addresses that share one broker name: a master and its slaves. Java: BrokerData."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]
    enable_acting_master: bool = False
    zone_name: str | None = None


@record
class BrokerMemberGroup:
    """The live brokers that share one name, by id. Java: BrokerMemberGroup."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)


@record
class TopicQueueMappingInfo:
    """How the queues of a static topic lie on one broker. Java: TopicQueueMappingInfo."""

    topic: str
    bname: str
    total_queues: Int32
    epoch: int = 0
    scope: str = "__global__"
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] = field(default_factory=dict)


@record
class TopicRouteData:
    """The name server's answer to "where is this topic?". Java: TopicRouteData."""

    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None
