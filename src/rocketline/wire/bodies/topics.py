"""Topic configurations, one by one and as a broker's whole table."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.route import TopicQueueMappingInfo
from rocketline.model.static_topic import TopicQueueMappingDetail
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.record import record


@record
class TopicConfigTable:
    """A broker's topics and their versions; 4.x has no mappings. Java: TopicConfigAndMappingSerializeWrapper."""

    data_version: DataVersion = field(default_factory=DataVersion)
    mapping_data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = field(default_factory=dict)


@record
class TopicConfigList:
    """The topics to create with one command; attribute names begin with + or -. Java: CreateTopicListRequestBody."""

    topic_config_list: list[TopicConfig]
