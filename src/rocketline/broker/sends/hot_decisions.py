"""What the hot path of sends has to know of topics and settings to decide whether it takes a message.

It is worked out when it is first asked for, and kept until topics or settings change. Every table has a bound, behind
which it is forgotten as a whole: whoever sends to more queues than that is served all the same, by a longer way.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.attributes import CLEANUP_POLICY
from rocketline.broker.metadata.topics import TopicTable, is_batched
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError
from rocketline.hot.pure.send_reply import ReplyTexts, reply_texts
from rocketline.model import names, property_names
from rocketline.model.ids import HostAddress
from rocketline.model.java_hash import tags_code
from rocketline.model.route import PERM_WRITE
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.queue_table import Queue
from rocketline.wire.properties import format_properties

_KEPT_MAX: Final = 10_000
_SPECIAL_SYS_FLAGS: Final = 0xCC  # transactions and inner batches

Marks: TypeAlias = "tuple[str, str, str]"
"""System flag, flag and reconsume times, as a header has them."""
Numbers: TypeAlias = "tuple[int, int, int]"


class SendDecisions:
    """Asked for each message: tables that are filled on demand, and settings as the hot path needs them."""

    def __init__(self, store: MessageStore, topics: TopicTable, settings: Settings[BrokerConfig], clock: Clock) -> None:
        self._store, self._topics, self._settings, self._clock = store, topics, settings, clock
        self._topics_version = self._settings_version = -1
        self.queues: dict[tuple[str, str], Queue | None] = {}
        """By topic and queue id, as a header has them; None if plain messages must not go there."""
        self.numbers: dict[Marks, Numbers] = {}
        self.tags_codes: dict[str | None, int] = {}
        self.born_hosts: dict[str, bytes] = {}
        """By a connection's other end."""
        self.added_properties = b""
        """What the broker adds to those of each message that is sent by itself."""
        self.body_bytes_max = 0
        self._replies: ReplyTexts | None = None
        self._accept_ms = 0

    def replies_now(self) -> ReplyTexts | None:
        """How messages are answered that are sent now; None if the hot path must not take any.

        Ask this before anything else: if topics or settings have changed, what was worked out from them is forgotten.
        """
        if self._topics_version != self._topics.version or self._settings_version != self._settings.version:
            self._refresh()
        if self._accept_ms and self._clock.wall_ms() < self._accept_ms:
            return None
        return self._replies

    def _refresh(self) -> None:
        config = self._settings.value
        self._topics_version, self._settings_version = self._topics.version, self._settings.version
        self.queues.clear()
        trace_on = "true" if config.trace_on else "false"
        added = {
            property_names.MSG_REGION: config.region_id,
            property_names.TRACE_ON: trace_on,
            property_names.CLUSTER: config.broker_cluster_name,
        }
        self.added_properties = format_properties(added).encode()
        self._replies = reply_texts(_packed(self._store.store_host), config.region_id, trace_on)
        self.body_bytes_max = config.store.max_message_size
        self._accept_ms = config.start_accept_send_request_time_stamp

    def queue_of(self, topic: str, queue_id: str) -> Queue | None:
        """Fill `queues` with this one."""
        if len(self.queues) >= _KEPT_MAX:
            self.queues.clear()
        try:
            queue = self.queues[topic, queue_id] = self._find_queue(topic, queue_id)
        except OSError:  # it slept, and cannot be read now; the handler will meet it too, and has somebody to tell
            return None
        return queue

    def numbers_of(self, marks: Marks) -> Numbers | None:
        """Fill `numbers` with these; None if one is unusual."""
        sys_flag, flag, reconsume_times = marks
        if not all(_is_number(text) for text in (sys_flag, flag, reconsume_times or "0")):
            return None
        numbers = int(sys_flag), int(flag), int(reconsume_times or "0")
        if numbers[0] & _SPECIAL_SYS_FLAGS:
            return None
        if len(self.numbers) >= _KEPT_MAX:
            self.numbers.clear()
        self.numbers[marks] = numbers
        return numbers

    def tags_code_of(self, tag: str | None) -> int:
        """Fill `tags_codes` with this one."""
        if len(self.tags_codes) >= _KEPT_MAX:
            self.tags_codes.clear()
        code = self.tags_codes[tag] = tags_code(tag)
        return code

    def born_host_of(self, peer: str) -> bytes:
        """Fill `born_hosts` with this one."""
        if len(self.born_hosts) >= _KEPT_MAX:
            self.born_hosts.clear()
        packed = self.born_hosts[peer] = _packed(HostAddress.parse(peer))
        return packed

    def _find_queue(self, topic: str, queue_id: str) -> Queue | None:
        config = self._topics.get(topic)
        if config is None or not _is_number(queue_id) or not self._takes_plain(config):
            return None
        if is_batched(config):  # such a queue may be derived anew at any time, and nobody may hold it meanwhile
            return None
        if int(queue_id) >= max(config.write_queue_nums, config.read_queue_nums) or str(int(queue_id)) != queue_id:
            return None
        return self._store.queues.make(topic, int(queue_id))

    def _takes_plain(self, topic: TopicConfig) -> bool:
        name, settings = topic.topic_name, self._settings.value
        try:
            names.check_topic(name)
        except LocalProtocolError:
            return False
        is_open = settings.broker_permission & PERM_WRITE or not topic.order
        is_special = names.is_retry_topic(name) or topic.attributes.get(CLEANUP_POLICY) == "COMPACTION"
        return bool(is_open) and names.is_sendable_topic(name) and not is_special


def _packed(host: HostAddress) -> bytes:
    return host.ip + host.port.to_bytes(4, "big")


def _is_number(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= 9
