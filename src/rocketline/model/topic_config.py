"""What a broker keeps of a topic, and the version of what it keeps."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.record import record


@record
class DataVersion:
    """The state of a table. Equal if all three are; newer by state version, then counter, then time."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0


@record
class TopicConfig:
    """One topic as its broker has it. Java: TopicConfig."""

    topic_name: str = field(metadata={"absent": ""})
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
