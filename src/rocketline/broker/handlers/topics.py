"""Topics as administrators make, change, look at and delete them.

UPDATE_AND_CREATE_TOPIC (17), UPDATE_AND_CREATE_TOPIC_LIST (18), GET_ALL_TOPIC_CONFIG (21), DELETE_TOPIC_IN_BROKER
(215), GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305), GET_TOPIC_CONFIG (351).

Like Apache: a list with one topic that is there already, the same in all, ends with success and changes nothing.

Differs from Apache:
- a list with a topic that is refused changes nothing; Apache keeps those before it until the next start;
- a topic may have 16,384 queues, not any number, and not fewer than none; there may be 200,000 topics;
- a list may have 1,000 topics, and is made as a whole;
- topics with COMPACTION are made, but nothing compacts them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import LARGE_TABLE, LongWork, Steps, answered, each_with_pause
from rocketline.broker.metadata.attributes import MESSAGE_TYPE, MIXED, parse_changes
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.topics import QUEUES_MAX, TOPICS_MAX, TopicTable
from rocketline.broker.request_body import LISTED_MAX, read_body_in_steps
from rocketline.broker.stats.counters import BrokerStats
from rocketline.errors import LocalProtocolError, RemoteProtocolError, StoreError
from rocketline.logs import Throttle
from rocketline.model import names
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.lists import TopicList
from rocketline.wire.bodies.topics import TopicConfigList, TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_NAMED_MAX = 10
"""Topics that one line of the log names."""
_TOPICS_A_STEP = 8
"""To be deleted, each of which is a line of the journal's and a change of names on disk."""
_GROUPS_A_STEP = 500
_CHECKED_A_STEP = 100
_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class QueueStore(Protocol):
    """What is asked of the store here."""

    def delete_topics(self, topics: Collection[str]) -> None:
        """Remove the topics' queues."""
        ...


class TopicHandlers:
    """The topic table, as administrators use it.

    `when_told` calls back when the name servers know what was changed: as from Apache's broker, the answer comes then.
    """

    def __init__(
        self,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: QueueStore,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        work: LongWork,
        log: Throttle,
        when_told: Callable[[Callable[[], None]], None],
    ) -> None:
        self._topics, self._offsets, self._store, self._stats = topics, offsets, store, stats
        self._settings, self._work, self._log, self._when_told = settings, work, log, when_told

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self._update_list,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._get_all,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._list_system,
            RequestCode.GET_TOPIC_CONFIG: self._get,
        }

    def _update(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.CreateTopicRequestHeader, request.ext)
        config = TopicConfig(
            topic_name=asked.topic,
            read_queue_nums=asked.read_queue_nums,
            write_queue_nums=asked.write_queue_nums,
            perm=asked.perm,
            topic_filter_type=asked.topic_filter_type,
            topic_sys_flag=asked.topic_sys_flag or 0,
            order=asked.order,
            attributes=parse_changes(asked.attributes),
        )
        return self._work.begin(channel, request, self._updated([config], channel, request), is_change=True)

    def _update_list(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._list_updated(channel, request), is_change=True)

    def _list_updated(self, channel: Channel, request: Command) -> Steps[Outcome]:
        configs = (yield from read_body_in_steps(TopicConfigList, request.body)).topic_config_list
        if len(configs) > LISTED_MAX:
            return response(ResponseCode.INVALID_PARAMETER, f"{len(configs)} topics at once: at most {LISTED_MAX}")
        return (yield from self._updated(configs, channel, request))

    def _updated(self, configs: list[TopicConfig], channel: Channel, request: Command) -> Steps[Outcome]:
        """Checked some at a time, then made all at once, and told to the name servers before it is answered."""
        for config, is_step in each_with_pause(configs, _CHECKED_A_STEP):
            if is_step:
                yield
            problem = self._problem(config)
            if problem is not None:
                return response(ResponseCode.INVALID_PARAMETER, problem)
            # What is asked for has signs before the names of attributes: with one of them it is never the same.
            if config == self._topics.get(config.topic_name):
                return response(ResponseCode.SUCCESS)
        if not self._topics.has_room(config.topic_name for config in configs):
            return response(
                ResponseCode.INVALID_PARAMETER, f"this broker has {TOPICS_MAX} topics, and no room for more"
            )
        self._topics.update(*configs)
        self._log.info(
            "topics updated", ", ".join(config.topic_name for config in configs[:_NAMED_MAX]), by=channel.peer
        )
        answer = LaterAnswer(channel, request)
        self._when_told(lambda: answer.give(response(ResponseCode.SUCCESS)))
        return answer.outcome()

    def _problem(self, config: TopicConfig) -> str | None:
        """Why a topic may not be made or changed like this."""
        topic = config.topic_name
        try:
            names.check_topic(topic)
        except LocalProtocolError as error:
            return str(error)
        if config.topic_filter_type not in _FILTER_TYPES:
            raise RemoteProtocolError(
                f"topicFilterType {config.topic_filter_type!r}: one of {', '.join(_FILTER_TYPES)}"
            )
        if self._is_protected(topic):
            return f"topic {topic} is one of the system's own"
        for queues in (config.read_queue_nums, config.write_queue_nums):
            if not 0 <= queues <= QUEUES_MAX:
                return f"topic {topic} cannot have {queues} queues: 0 to {QUEUES_MAX} are possible"
        if config.attributes.get(f"+{MESSAGE_TYPE}") == MIXED and not self._settings.value.enable_mixed_message_type:
            return f"topic {topic}: {MESSAGE_TYPE}={MIXED} needs enableMixedMessageType=true"
        return None

    def _is_protected(self, topic: str) -> bool:
        return self._settings.value.validate_system_topic_when_update_topic and self._topics.is_system(topic)

    def _get_all(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._all(request))

    def _all(self, request: Command) -> Steps[Command]:
        if len(self._topics.all()) > LARGE_TABLE:
            yield
        asked = headers.read(headers.GetAllTopicConfigRequestHeader, request.ext)
        config = self._settings.value
        header = headers.GetAllTopicConfigResponseHeader(total_topic_num=len(self._topics.all()))
        data_version = self._topics.data_version
        if config.enable_split_metadata and request.ext.keys() & {"topicSeq", "dataVersion", "maxTopicNum"}:
            size_max = config.split_metadata_size
            size = size_max if asked.max_topic_num is None else min(size_max, asked.max_topic_num)
            table = yield from self._topics.page(asked.data_version, asked.topic_seq, size)
        else:
            table = dict(self._topics.all())
        body = TopicConfigTable(data_version=data_version, topic_config_table=table)
        return (yield from answered(body, headers.encode(header)))

    def _get(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.GetTopicConfigRequestHeader, request.ext)
        config = self._topics.get(asked.topic)
        if config is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"topic {asked.topic} does not exist on this broker")
        return response(ResponseCode.SUCCESS, body=encode(config))

    def _list_system(self, channel: Channel, request: Command) -> Command:
        return response(ResponseCode.SUCCESS, body=encode(TopicList(sorted(self._topics.system_topics))))

    def _delete(self, channel: Channel, request: Command) -> Outcome:
        """Remove the topic, its queues and all offsets in it. Name servers are told by whoever asks."""
        topic = request.ext.get("topic", "")
        if not topic.strip():
            return response(ResponseCode.INVALID_PARAMETER, "the name of the topic is missing or blank")
        if self._is_protected(topic):
            return response(ResponseCode.INVALID_PARAMETER, f"topic {topic} is one of the system's own")
        return self._work.begin(channel, request, self._deleted(topic, channel), is_change=True)

    def _deleted(self, topic: str, channel: Channel) -> Steps[Command]:
        """A topic and its queues go together, so that no message gets in between; what else was kept of it follows."""
        groups, gone, problem = self._offsets.groups_of(topic), set[str](), None
        try:
            self._drop([topic], gone)
            yield from self._drop_pop_retries(topic, groups, gone)
        except (OSError, StoreError) as error:
            if not gone:
                raise
            problem = error
        yield from self._offsets.remove_topics(gone)
        yield from self._stats.forget_topics(gone)
        self._log.info("topics deleted", ", ".join(sorted(gone)[:_NAMED_MAX]), count=len(gone), by=channel.peer)
        if problem is not None:
            raise problem
        return response(ResponseCode.SUCCESS)

    def _drop(self, topics: Collection[str], gone: set[str]) -> None:
        self._topics.delete(*topics)
        gone.update(topics)
        self._store.delete_topics(topics)

    def _drop_pop_retries(self, topic: str, groups: Collection[str], gone: set[str]) -> Steps[None]:
        """Where messages of the topic wait that were popped and not acknowledged, in both spellings of 5.x."""
        if not self._settings.value.clear_retry_topic_when_delete_topic:
            return
        found: list[str] = []
        for group, is_step in each_with_pause(groups, _GROUPS_A_STEP):
            names_of_both = (f"{names.retry_topic(group)}{sign}{topic}" for sign in "+_")
            found += [name for name in names_of_both if self._topics.get(name) is not None]
            if is_step or len(found) >= _TOPICS_A_STEP:
                self._drop(found, gone)
                found = []
                yield
        self._drop(found, gone)
