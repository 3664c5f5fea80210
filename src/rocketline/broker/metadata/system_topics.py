"""The topics that a broker makes for itself at every start."""

from __future__ import annotations

from collections.abc import Iterator

from rocketline.broker.config import BrokerConfig
from rocketline.model import names
from rocketline.model.route import PERM_INHERIT as INHERIT
from rocketline.model.route import PERM_READ as READ
from rocketline.model.route import PERM_WRITE as WRITE
from rocketline.model.topic_config import TopicConfig

_DELAY_LEVELS_MAX = 18
_BENCHMARK_QUEUES = 1024


def system_topics(config: BrokerConfig) -> Iterator[TopicConfig]:
    """All of them, as the settings want them. Java: TopicConfigManager.init."""
    cluster, broker = config.broker_cluster_name, config.broker_name
    yield _topic(names.SELF_TEST_TOPIC)
    if config.auto_create_topic_enable:
        yield _topic(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, READ | WRITE | INHERIT)
    yield _topic(names.BENCHMARK_TOPIC, _BENCHMARK_QUEUES)
    # Names of their own, so that a route to a cluster or to one broker can be asked for.
    yield _topic(cluster, 16, _template_perm(config.cluster_topic_enable))
    yield _topic(broker, 1, _template_perm(config.broker_topic_enable))
    yield _topic(names.OFFSET_MOVED_EVENT_TOPIC)
    yield _topic(names.SCHEDULE_TOPIC, _DELAY_LEVELS_MAX)
    if config.trace_topic_enable:
        yield _topic(config.msg_trace_topic_name)
    yield _topic(names.reply_topic(cluster))
    yield _topic(names.revive_topic(cluster), config.revive_queue_num)
    yield _topic(f"{names.SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker}", 1, INHERIT)
    for topic in (names.HALF_TOPIC, names.OP_HALF_TOPIC, names.ROCKSDB_HALF_TOPIC, names.ROCKSDB_OP_HALF_TOPIC):
        yield _topic(topic)
    if config.store.timer_wheel_enable:
        yield _topic(names.WHEEL_TIMER_TOPIC)


def _topic(name: str, queues: int = 1, perm: int = READ | WRITE) -> TopicConfig:
    return TopicConfig(name, queues, queues, perm)


def _template_perm(is_open: bool) -> int:
    return INHERIT | (READ | WRITE if is_open else 0)
