"""The hot path of sends: many plain messages in, one write to the log, all their answers out, in one call.

It takes what nearly every producer sends: a message with its own unique key, for a queue that exists, with nothing
special about it. At the first frame that is different it stops, and the handlers of `rocketline.broker.handlers.send`
decide. For what it takes, it gives the same answer and stores the same record as they do.
"""

from __future__ import annotations

import struct
from functools import partial
from json.encoder import encode_basestring
from typing import Final, NamedTuple

from rocketline.broker import send_header
from rocketline.broker.admission import Admission
from rocketline.broker.attributes import CLEANUP_POLICY
from rocketline.broker.config import BrokerConfig
from rocketline.broker.flush import Flushed, Flusher
from rocketline.broker.put import NOT_YET_ON_DISK, PutStatus
from rocketline.broker.stats import BrokerStats
from rocketline.broker.topics import TopicTable
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError, StoreError
from rocketline.hot import HotPeer
from rocketline.model import names, property_names
from rocketline.model.ids import HostAddress
from rocketline.model.java_hash import tags_code
from rocketline.model.route import PERM_WRITE
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.store.consume_queue import ConsumeQueue
from rocketline.store.log_writer import IndexKeys, LogWriter
from rocketline.store.message_store import MessageStore
from rocketline.wire.codes import CURRENT_VERSION, ResponseCode
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG
from rocketline.wire.properties import NAME_END, PROPERTIES_BYTES_MAX, VALUE_END, format_properties

_PREFIX: Final = struct.Struct(">II")
_HEADER_START: Final = b'{"code":310,'
_HEADER_BYTES_MAX: Final = 64 * 1024
_MESSAGES_MAX: Final = 512
_KEPT_MAX: Final = 10_000
_SPECIAL_SYS_FLAGS: Final = 0xCC  # transactions and inner batches
_SPECIAL_PROPERTIES = frozenset({
    property_names.DELAY, property_names.TIMER_DELAY_SEC, property_names.TIMER_DELAY_MS,
    property_names.TIMER_DELIVER_MS, property_names.TRAN_MSG, property_names.POP_CK, property_names.CRC32,
    property_names.MSG_REGION, property_names.TRACE_ON, property_names.CLUSTER,
})  # fmt: skip
"""With one of these a message takes the ordinary way."""


class _Sent(NamedTuple):
    """A message that is laid out, and what its answer says."""

    opaque: int
    is_oneway: bool
    log_offset: int
    queue: ConsumeQueue
    queue_offset: int
    unique_key: str
    record_bytes: int


class SendPath:
    """Takes runs of plain sends. Java has no such thing: there each message is a task of its own."""

    def __init__(
        self,
        store: MessageStore,
        flusher: Flusher,
        topics: TopicTable,
        stats: BrokerStats,
        admission: Admission,
        settings: Settings[BrokerConfig],
        clock: Clock,
    ) -> None:
        self._store, self._flusher, self._topics, self._stats = store, flusher, topics, stats
        self._admission, self._settings, self._clock = admission, settings, clock
        host = store.store_host
        self._id_prefix = (host.ip + host.port.to_bytes(4, "big")).hex().upper()
        self._version = (-1, -1)
        self._queues: dict[tuple[str, str], ConsumeQueue | None] = {}
        self._tags_codes: dict[str | None, int] = {}
        self._born_hosts: dict[str, bytes] = {}
        self._added = b""
        self._answer_tail = ""
        self._body_bytes_max = self._accept_ms = 0

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """Store the plain sends from `start` on. With SYNC_FLUSH all answers come later. See `HotPath`."""
        if not data.startswith(_HEADER_START, start + 8) or not self._is_open(peer):
            return start, b"", 0
        born_host = self._born_hosts.get(peer.peer) or self._born_host(peer.peer)
        sent: list[_Sent] = []
        batch = self._store.batch()
        try:
            with batch as writer:
                while (end := self._add(writer, data, start, born_host, sent)) and len(sent) < _MESSAGES_MAX:
                    start = end
                start = end or start
        except StoreError as error:
            return start, *self._refused(peer, sent, batch.end, str(error))
        return start, *(self._stored(peer, sent, batch.end) if sent else (b"", 0))

    def _stored(self, peer: HotPeer, sent: list[_Sent], end: int) -> tuple[bytes, int]:
        """The messages are written: their answers now, or how many come later."""
        self._count(sent)
        if self._store.is_sync:
            self._flusher.wait(end, partial(self._flushed, peer, sent), len(sent))
            return b"", sum(not message.is_oneway for message in sent)
        return self._replies(sent), 0

    # --- taking messages

    def _is_open(self, peer: HotPeer) -> bool:
        """Whether messages are taken at all; the ordinary way tells why not."""
        if self._version != (self._topics.version, self._settings.version):
            self._refresh()
        if self._accept_ms and self._clock.wall_ms() < self._accept_ms:
            return False
        return self._store.is_writable and self._admission.send_refusal(peer.read_s) is None

    def _add(self, writer: LogWriter, data: bytes, start: int, born_host: bytes, sent: list[_Sent]) -> int:
        """Lay out the message of one frame; where the frame ends, 0 if it is not taken."""
        if len(data) - start < 8:
            return 0
        size, word = _PREFIX.unpack_from(data, start)
        end, body_start = start + 4 + int(size), start + 8 + int(word)
        body_bytes = end - body_start
        # A word of more than the header's length says that the header is not JSON.
        if end > len(data) or word > _HEADER_BYTES_MAX or not 0 < body_bytes <= self._body_bytes_max:
            return 0
        header = send_header.read(data[start + 8 : body_start])
        if header is None:
            return 0
        opaque, flag, topic, queue_id, sys_flag, born_ms, message_flag, text, reconsume_times = header
        queue = self._queues.get((topic, queue_id)) or self._queue_of(topic, queue_id)
        numbers = _numbers(sys_flag, born_ms, message_flag, reconsume_times)
        found = _read_properties(text)
        if queue is None or numbers is None or found is None:
            return 0
        properties = found[0].encode("utf-8", "replace") + self._added
        if len(properties) > PROPERTIES_BYTES_MAX:
            return 0
        keys = found[1]
        code = self._tags_codes.get(keys.tag)
        if code is None:
            code = self._keep_tags_code(keys.tag)
        queue_offset = queue.next_offset
        log_offset = writer.add(queue, data[body_start:end], properties, code, keys, born_host, *numbers)
        is_oneway = flag & ONEWAY_FLAG != 0
        sent.append(
            _Sent(
                opaque, is_oneway, log_offset, queue, queue_offset, keys.unique_key or "", writer.position - log_offset
            )
        )
        return end

    def _queue_of(self, topic: str, queue_id: str) -> ConsumeQueue | None:
        """The queue of a topic that plain messages may be sent to; kept until topics or settings change."""
        if len(self._queues) >= _KEPT_MAX:
            self._queues.clear()
        queue = self._queues[topic, queue_id] = self._find_queue(topic, queue_id)
        return queue

    def _find_queue(self, topic: str, queue_id: str) -> ConsumeQueue | None:
        config = self._topics.get(topic)
        if config is None or not _is_number(queue_id, 9) or not self._takes_plain(config):
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

    def _refresh(self) -> None:
        """Topics or settings have changed: forget what was worked out from them."""
        config = self._settings.value
        self._version = self._topics.version, self._settings.version
        self._queues.clear()
        trace = "true" if config.trace_on else "false"
        added = {
            property_names.MSG_REGION: config.region_id,
            property_names.TRACE_ON: trace,
            property_names.CLUSTER: config.broker_cluster_name,
        }
        self._added = format_properties(added).encode()
        self._answer_tail = (
            f'"MSG_REGION":{encode_basestring(config.region_id)},"TRACE_ON":"{trace}"}},'
            f'"flag":{RESPONSE_FLAG},"language":"PYTHON","opaque":'
        )
        self._body_bytes_max = config.store.max_message_size
        self._accept_ms = config.start_accept_send_request_time_stamp

    def _keep_tags_code(self, tag: str | None) -> int:
        if len(self._tags_codes) >= _KEPT_MAX:
            self._tags_codes.clear()
        code = self._tags_codes[tag] = tags_code(tag)
        return code

    def _born_host(self, peer: str) -> bytes:
        if len(self._born_hosts) >= _KEPT_MAX:
            self._born_hosts.clear()
        host = HostAddress.parse(peer)
        packed = self._born_hosts[peer] = host.ip + host.port.to_bytes(4, "big")
        return packed

    # --- answering

    def _count(self, sent: list[_Sent]) -> None:
        """Add to the statistics, once for each queue."""
        tally: dict[ConsumeQueue, list[int]] = {}
        for message in sent:
            counts = tally.get(message.queue)
            if counts is None:
                tally[message.queue] = [1, message.record_bytes]
            else:
                counts[0] += 1
                counts[1] += message.record_bytes
        for queue, (count, size) in tally.items():
            self._stats.put(queue.topic, queue.queue_id, count, size, requests=count)

    def _replies(self, sent: list[_Sent], status: str = '"code":0,', remark: str = "") -> bytes:
        """The answers to all that were sent and are waited for."""
        frames: list[bytes] = []
        prefix, tail = self._id_prefix, self._answer_tail
        for opaque, is_oneway, log_offset, queue, queue_offset, unique_key, _ in sent:
            if is_oneway:
                continue
            header = (
                f'{{{status}"extFields":{{"msgId":"{prefix}{log_offset:016X}","queueId":"{queue.queue_id}",'
                f'"queueOffset":"{queue_offset}","transactionId":{encode_basestring(unique_key)},'
                f'{tail}{opaque},{remark}"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
            ).encode()
            frames += (_PREFIX.pack(4 + len(header), len(header)), header)
        return b"".join(frames)

    def _flushed(self, peer: HotPeer, sent: list[_Sent], flushed: Flushed) -> None:
        """Answer messages that waited for their flush."""
        if flushed is Flushed.OK:
            replies = self._replies(sent)
        elif flushed is Flushed.TIMEOUT:
            code, status = ResponseCode.FLUSH_DISK_TIMEOUT, PutStatus.FLUSH_DISK_TIMEOUT
            replies = self._replies(sent, f'"code":{code},', f'"remark":"{status.name}: {NOT_YET_ON_DISK}",')
        else:
            replies = self._refusals(sent, f"the store is read-only: {self._store.problem}")
        peer.reply_bytes(replies, sum(not message.is_oneway for message in sent))

    def _refused(self, peer: HotPeer, sent: list[_Sent], end: int, problem: str) -> tuple[bytes, int]:
        """The log took the messages before `end`, which are stored, and not the others."""
        stored = [message for message in sent if message.log_offset < end]
        refusals = self._refusals(sent[len(stored) :], problem)
        replies, later = self._stored(peer, stored, end) if stored else (b"", 0)
        return replies + refusals, later

    def _refusals(self, sent: list[_Sent], problem: str) -> bytes:
        """The answers to messages that the store did not take."""
        frames: list[bytes] = []
        code, status = ResponseCode.SERVICE_NOT_AVAILABLE, PutStatus.SERVICE_NOT_AVAILABLE
        remark = encode_basestring(f"{status.name}: {problem}")
        for message in sent:
            self._stats.put_failed()
            if not message.is_oneway:
                header = (
                    f'{{"code":{code},"extFields":{{{self._answer_tail}{message.opaque},"remark":{remark},'
                    f'"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
                ).encode("utf-8", "replace")
                frames += (_PREFIX.pack(4 + len(header), len(header)), header)
        return b"".join(frames)


def _is_number(text: str, digits_max: int) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= digits_max


def _numbers(sys_flag: str, born_ms: str, flag: str, reconsume_times: str) -> tuple[int, int, int, int] | None:
    """The header's numbers, None unless all are plain: not negative, of a length that fits, nothing special."""
    digits = sys_flag + born_ms + flag + reconsume_times
    if not (digits.isdigit() and digits.isascii() and len(digits) <= 9 + 18 + 1 + 1):
        return None
    try:
        numbers = int(sys_flag), int(born_ms), int(flag), int(reconsume_times or "0")
    except ValueError:  # one of them is empty
        return None
    is_plain = numbers[0] < 2**30 and numbers[1] < 2**62 and numbers[2] < 2**30 and numbers[3] < 2**30
    return numbers if is_plain and not numbers[0] & _SPECIAL_SYS_FLAGS else None


def _read_properties(text: str) -> tuple[str, IndexKeys] | None:
    """The text, ended as it should be, and what the index wants of it; None unless all is as usual."""
    if not text.endswith(VALUE_END):
        text += VALUE_END
    pairs = text[:-1].split(VALUE_END)
    try:
        properties = dict([pair.split(NAME_END, 1) for pair in pairs])
    except ValueError:  # one without a value
        return None
    unique_key = properties.get(property_names.UNIQ_KEY)
    if not unique_key or len(properties) != len(pairs) or not _SPECIAL_PROPERTIES.isdisjoint(properties):
        return None
    if "" in properties or "" in properties.values() or properties.get(property_names.WAIT, "true") != "true":
        return None
    return text, IndexKeys(unique_key, properties.get(property_names.KEYS), properties.get(property_names.TAGS))
