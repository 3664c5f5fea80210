"""The topics of a broker, kept in `topics.json`. Java: TopicConfigManager."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.attributes import BATCHED, QUEUE_TYPE, TOPIC_ATTRIBUTES, altered
from rocketline.broker.metadata.saved_table import ConfigTable, SavedTable
from rocketline.broker.metadata.system_topics import system_topics
from rocketline.clock import Clock
from rocketline.model import names
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.queue import QUEUES_MAX as QUEUES_MAX
from rocketline.model.route import PERM_INHERIT, PERM_READ, PERM_WRITE
from rocketline.model.sys_flags import TOPIC_UNIT, TOPIC_UNIT_SUB
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.settings import Settings
from rocketline.store.files.json_files import load_json
from rocketline.store.filesystem import FileSystem

TOPICS_MAX: Final = 200_000
"""Topics for retries and dead letters, which groups have, count too. A table of so many has 50 to 120 MB."""

OnChange = Callable[[Sequence[TopicConfig]], None]


@dataclass(frozen=True, slots=True)
class SavedTopics:
    """The file's content. Java: TopicConfigSerializeWrapper."""

    data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)


def retry_topic(group: SubscriptionGroupConfig, *, is_order: bool = False, is_unit: bool = False) -> TopicConfig:
    """Where messages that the group could not consume wait for the next attempt."""
    queues, sys_flag = group.retry_queue_nums, TOPIC_UNIT_SUB if is_unit else 0
    name = names.retry_topic(group.group_name)
    return TopicConfig(name, queues, queues, topic_sys_flag=sys_flag, order=is_order)


def is_batched(topic: TopicConfig) -> bool:
    """Its queues keep a producer's batch as one record. Java: QueueTypeUtils.isBatchCq."""
    return topic.attributes.get(QUEUE_TYPE) == BATCHED


def no_room(topic: str) -> str:
    """Why a topic was not made."""
    return f"this broker has {TOPICS_MAX} topics, and no room for {topic}: delete some that nobody needs"


class TopicTable(ConfigTable[TopicConfig]):
    """All topics. A change is on disk before it shows, then `on_change` is told of what is new or different.

    Every method that changes something raises `OSError` if that cannot be saved; nothing has changed then.

    Differs from Apache: switching `autoCreateTopicEnable` off leaves the template topic TBW102 as it is, instead of
    taking its inherit permission away for good; so switching it on again works.
    """

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        settings: Settings[BrokerConfig],
        clock: Clock,
        saved: SavedTopics | None = None,
    ) -> None:
        self._settings = settings
        own = {config.topic_name: config for config in system_topics(settings.value)}
        self.system_topics: Collection[str] = names.SYSTEM_TOPICS | own.keys()
        """Java: TopicValidator.getSystemTopicSet."""
        known = own | (saved.topic_config_table if saved else {})
        version = saved.data_version if saved else None
        self._table = SavedTable(files, path, "topicConfigTable", TopicConfig, clock, known, version)
        self.before_create: OnChange = lambda created: None
        """Told of topics that are about to be made. May raise `OSError`: they are not made then."""
        self.on_change: OnChange = lambda changed: None

    @classmethod
    def load(cls, files: FileSystem, path: Path, settings: Settings[BrokerConfig], clock: Clock) -> TopicTable:
        """The system's topics, and over them what the file holds. Raises `CorruptStoreError`."""
        return cls(files, path, settings, clock, load_json(files, path, SavedTopics))

    def is_batched(self, topic: str) -> bool | None:
        """Whether its queues keep a producer's batch as one record; None if there is no such topic."""
        config = self.get(topic)
        return None if config is None else is_batched(config)

    def is_system(self, topic: str) -> bool:
        """The topic is one of the product's own, or named like the broker or its cluster. Java: isSystemTopic."""
        return topic in self.system_topics or names.is_system_topic(topic)

    def create_on_send(
        self, topic: str, *, default_topic: str, default_topic_queue_nums: int, unit_mode: bool = False
    ) -> TopicConfig | None:
        """The topic that a message is sent to, made after the template that the sender names if there is none yet.

        None if the template does not exist or does not pass itself on, or there are too many topics. Retry topics need
        no template. The caller has checked the name. Java: createTopicInSendMessageMethod.
        """
        known = self.get(topic)
        if known is not None:
            return known
        is_retry = names.is_retry_topic(topic)
        sys_flag = 0 if not unit_mode else TOPIC_UNIT_SUB if is_retry else TOPIC_UNIT
        template = self._template(default_topic)
        if template is not None:
            queues = max(0, min(default_topic_queue_nums, template.write_queue_nums))
            made = replace(
                template,
                topic_name=topic,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=template.perm & ~PERM_INHERIT,
                topic_sys_flag=sys_flag,
                order=False,
                attributes={},
            )
        elif is_retry:
            made = TopicConfig(topic, 1, 1, topic_sys_flag=sys_flag)
        else:
            return None
        if not self.has_room([topic]):
            return None
        self._put([made])
        return made

    def has_room(self, topics: Iterable[str]) -> bool:
        """There are not too many for those of these that are new."""
        return self._table.has_room(topics, TOPICS_MAX)

    def _template(self, topic: str) -> TopicConfig | None:
        if topic == names.AUTO_CREATE_TOPIC and not self._settings.value.auto_create_topic_enable:
            return None
        template = self.get(topic)
        return template if template is not None and template.perm & PERM_INHERIT else None

    def ensure(self, wanted: Iterable[TopicConfig], *, with_order: bool = False) -> bool:
        """Make those topics that are missing, with one save for all. `with_order`: the others take the order flag.

        False if some are missing still, because there are too many topics."""
        missing, changed = [], []
        for config in wanted:
            known = self.get(config.topic_name)
            if known is None:
                missing.append(config)
            elif with_order and known.order != config.order:
                changed.append(replace(known, order=config.order))
        has_room = self.has_room(config.topic_name for config in missing)
        self._put([*missing, *changed] if has_room else changed)
        return has_room

    def ensure_retry(self, group: SubscriptionGroupConfig, *, is_unit: bool = False) -> TopicConfig | None:
        """The group's retry topic, made if need be; None if there are too many topics for that."""
        return self._ensured(retry_topic(group, is_unit=is_unit))

    def ensure_dlq(self, group: str) -> TopicConfig | None:
        """Where the group's dead letters end, made if need be; None if there are too many topics for that."""
        return self._ensured(TopicConfig(names.dlq_topic(group), 1, 1, PERM_READ | PERM_WRITE))

    def _ensured(self, config: TopicConfig) -> TopicConfig | None:
        self.ensure([config])
        return self.get(config.topic_name)

    def update(self, *configs: TopicConfig) -> None:
        """Make or replace topics, all or none. Their attributes are changes, with signed keys; see `attributes`.

        Raises `RemoteProtocolError` for a change of attributes that is not allowed.
        """
        self._put([replace(config, attributes=self._attributes(config)) for config in configs])

    def _attributes(self, config: TopicConfig) -> dict[str, str]:
        known = self.get(config.topic_name)
        return altered(TOPIC_ATTRIBUTES, None if known is None else known.attributes, config.attributes)

    def mark_ordered(self, topics: Iterable[str]) -> None:
        """Take over that these are ordered topics, which a name server's order configuration says."""
        known = [config for topic in topics if (config := self.get(topic)) is not None and not config.order]
        if known:
            self._table.change({config.topic_name: replace(config, order=True) for config in known})

    def delete(self, *topics: str) -> None:
        """Remove topics; those that are not there are as good as removed. Whoever asks sees to all else of them."""
        if known := [topic for topic in topics if topic in self._table.entries]:
            self._table.change(dict.fromkeys(known))

    def touch(self) -> None:
        """Make a new version, because what the broker says of its topics changed without them: its permission."""
        self._table.change({})

    def _put(self, configs: Sequence[TopicConfig]) -> None:
        if configs:
            self.before_create([config for config in configs if config.topic_name not in self._table.entries])
            self._table.change({config.topic_name: config for config in configs})
            self.on_change(configs)
