"""The hot path of sends: many plain messages in, one write to the log, all their answers out.

What the connections bring in one turn of the loop is laid out as it comes and written when the turn is over: so 64
producers with one message each cost the log as little as one with 64.

It takes what nearly every producer sends: a message with its own unique key, or a batch, for a queue that exists, with
nothing special about it. At the first frame that is different it stops, and the handlers of
`rocketline.broker.sends.handler` decide. For what it takes, it gives the same answer and stores the same record as they
do.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import partial
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Final, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.attributes import CLEANUP_POLICY
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.sends import hot_header
from rocketline.broker.sends.batch_members import plain_members
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.storing.admission import Admission
from rocketline.broker.storing.flusher import Flushed, Flusher
from rocketline.broker.storing.put import NOT_YET_ON_DISK, PutStatus
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError, StoreError
from rocketline.hot import HotPeer
from rocketline.model import names, property_names
from rocketline.model.ids import HostAddress
from rocketline.model.java_hash import tags_code
from rocketline.model.route import PERM_WRITE
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.store.log_writer import FIXED_BYTES_MAX, LogWriter
from rocketline.store.message_store import AppendBatch, MessageStore
from rocketline.store.queues.queue_table import Queue
from rocketline.wire.codes import CURRENT_VERSION, ResponseCode
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG
from rocketline.wire.header_bounds import UNCOUNTED_BYTES_MAX
from rocketline.wire.properties import NAME_END, PROPERTIES_BYTES_MAX, VALUE_END, format_properties, parse_properties

_PREFIX: Final = struct.Struct(">II")
_PREFIXES_MAX: Final = 4096
_END: Final = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
_HEADER_STARTS: Final = (b'{"code":310,', b'{"code":320,')
_HEADER_BYTES_MAX: Final = UNCOUNTED_BYTES_MAX
_MESSAGES_MAX: Final = 512
_TURN_BYTES_MAX: Final = 1024 * 1024
"""A turn that has laid out more is over at once: whoever comes next should not pay for it."""
_KEPT_MAX: Final = 10_000
_KEPT_NAMES_MAX: Final = 1024
_BATCH_PROPERTIES: Final = frozenset({property_names.WAIT, property_names.UNIQ_KEY})
_SPECIAL_SYS_FLAGS: Final = 0xCC  # transactions and inner batches
_SPECIAL_PROPERTIES = frozenset({
    property_names.DELAY, property_names.TIMER_DELAY_SEC, property_names.TIMER_DELAY_MS,
    property_names.TIMER_DELIVER_MS, property_names.TRAN_MSG, property_names.POP_CK, property_names.CRC32,
    property_names.MSG_REGION, property_names.TRACE_ON, property_names.CLUSTER, property_names.INNER_NUM,
})  # fmt: skip
"""With one of these a message takes the ordinary way."""


_Origin: TypeAlias = tuple[bytes, int, int, int, int]
"""Born host and time, system flag, flag, reconsume times."""


class _Run:
    """Requests of one read whose messages are laid out in the log, and what their answers say."""

    __slots__ = ("awaited", "messages", "peer")

    def __init__(self, peer: HotPeer) -> None:
        self.peer = peer
        self.messages: list[tuple[int, int, str]] = []
        """Log offset of the first, opaque and the answer's header, which is empty if nobody waits for one."""
        self.awaited = 0
        """How many answers are waited for."""

    @property
    def replies(self) -> bytes:
        if len(self.messages) == 1:
            header = self.messages[0][2]
            return (_PREFIXES[len(header)] + header).encode("latin-1") if header else b""
        return _frames([header for _, _, header in self.messages])

    def cut(self, end: int) -> list[int]:
        """Keep the messages that lie before the log offset `end`; the opaques of the others that are waited for."""
        lost = [opaque for log_offset, opaque, header in self.messages if log_offset >= end and header]
        self.messages = [message for message in self.messages if message[0] < end]
        self.awaited -= len(lost)
        return lost


class _Turn:
    """What one turn of the loop laid out: a batch that is still open, the runs in it, and what is to be counted."""

    __slots__ = ("batch", "begin", "begin_s", "problem", "runs", "tally", "writer")

    def __init__(self, batch: AppendBatch, begin_s: float) -> None:
        self.batch, self.writer, self.begin_s = batch, batch.open(), begin_s
        self.begin = self.writer.position
        self.runs: list[_Run] = []
        self.problem: StoreError | OSError | None = None
        """Why no more could be laid out."""
        self.tally: dict[Queue, list[int]] = {}
        """Messages, bytes and requests by queue."""


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
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._store, self._flusher, self._topics, self._stats = store, flusher, topics, stats
        self._admission, self._settings, self._clock = admission, settings, clock
        self._call_soon = call_soon
        self._turn: _Turn | None = None
        host = store.store_host
        self._id_prefix = (host.ip + host.port.to_bytes(4, "big")).hex().upper()
        self._topics_version = self._settings_version = -1
        self._queues: dict[tuple[str, str], Queue | None] = {}
        self._tags_codes: dict[str | None, int] = {}
        self._born_hosts: dict[str, bytes] = {}
        self._added = b""
        self._numbers: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        self._layers: Final = {"": self._lay_message, "false": self._lay_message, "true": self._lay_batch}
        """By the mark of a batch."""
        self._tail = ""
        self._is_plain = True
        self._body_bytes_max = self._accept_ms = 0

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """Lay out the plain sends from `start` on. Their answers come at the end of the turn. See `HotPath`."""
        if not data.startswith(_HEADER_STARTS, start + 8) or not self._is_open(peer):
            return start, b"", 0
        born_host = self._born_hosts.get(peer.peer) or self._born_host(peer.peer)
        turn, run = self._turn, _Run(peer)
        if turn is None:
            turn = self._begin_turn()
        else:
            turn.writer.look_at_clock()
        try:
            size = len(data)
            while start < size and (end := self._add(turn, data, start, born_host, run)):
                start = end
                if len(run.messages) >= _MESSAGES_MAX:
                    break
        except (StoreError, OSError) as error:
            turn.problem = error
        if run.messages:
            turn.runs.append(run)
        if turn.problem is not None or turn.writer.position - turn.begin > _TURN_BYTES_MAX:
            self.settle()
        return start, b"", run.awaited

    def _begin_turn(self) -> _Turn:
        turn = self._turn = _Turn(self._store.batch(), self._clock.monotonic())
        self._call_soon(self.settle)
        return turn

    def settle(self) -> None:
        """Write what the turn laid out, and answer. Also called before anybody else writes to the store."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        problem = turn.problem
        try:
            turn.batch.close(problem)
        except StoreError as error:
            problem = error
        if problem is not None:
            self._refuse(turn, str(problem))
        if self._store.is_sync:
            messages = sum(len(run.messages) for run in turn.runs)
            self._flusher.wait(turn.batch.end, partial(self._flushed, turn), messages)
        else:
            self._count(turn)
            for run in turn.runs:
                run.peer.reply_bytes(run.replies, run.awaited)

    # --- taking messages

    def _is_open(self, peer: HotPeer) -> bool:
        """Whether messages are taken at all; the ordinary way tells why not."""
        if self._topics_version != self._topics.version or self._settings_version != self._settings.version:
            self._refresh()
        if self._accept_ms and self._clock.wall_ms() < self._accept_ms:
            return False
        return self._is_plain and self._store.is_writable and self._admission.takes_sends(peer.read_s)

    def _add(self, turn: _Turn, data: bytes, start: int, born_host: bytes, run: _Run) -> int:
        """Lay out what one frame brings; where the frame ends, 0 if it is not taken."""
        if len(data) - start < 8:
            return 0
        size: int
        word: int
        size, word = _PREFIX.unpack_from(data, start)
        end, body_start = start + 4 + size, start + 8 + word
        body_bytes = end - body_start
        # A word of more than the header's length says that the header is not JSON.
        if end > len(data) or word > _HEADER_BYTES_MAX or not 0 < body_bytes <= self._body_bytes_max:
            return 0
        header = hot_header.read(data[start + 8 : body_start])
        if header is None or header.flag & RESPONSE_FLAG:
            return 0
        fields, opaque = header.extFields, header.opaque
        queue = self._queues.get((fields.b, fields.e)) or self._queue_of(fields.b, fields.e)
        marks = fields.f, fields.h, fields.j
        numbers = self._numbers.get(marks) or self._numbers_of(marks)
        born, lay_out = fields.g, self._layers.get(fields.m)
        if queue is None or not numbers or not (born.isdigit() and born.isascii() and len(born) < 19) or not lay_out:
            return 0
        writer, queue_offset = turn.writer, queue.next_offset
        laid = lay_out(writer, queue, data[body_start:end], fields.i, (born_host, int(born), *numbers))
        if laid is None:
            return 0
        places, transaction = laid
        log_offset, answer = places[0], ""
        if not header.flag & ONEWAY_FLAG:
            run.awaited += 1
            answer = (
                f'{{"code":0,"extFields":{{"msgId":"{self._ids(places)}","queueId":"{queue.queue_id}",'
                f'"queueOffset":"{queue_offset}",{transaction}{self._tail}{opaque}{_END}'
            )
        run.messages.append((log_offset, opaque, answer))
        counts = turn.tally.get(queue)
        if counts is None:
            counts = turn.tally[queue] = [0, 0, 0]
        counts[0] += len(places)
        counts[1] += writer.position - log_offset
        counts[2] += 1
        return end

    def _lay_message(
        self, writer: LogWriter, queue: Queue, body: bytes, text: str, origin: _Origin
    ) -> tuple[Sequence[int], str] | None:
        """Lay out one message: where it is, and what the answer says of its id; None if it is not taken."""
        found = _read_properties(text)
        if found is None:
            return None
        text, keys = found
        properties = text.encode() + self._added
        if len(properties) > PROPERTIES_BYTES_MAX:
            return None
        code = self._tags_codes.get(keys[2])
        if code is None:
            code = self._keep_tags_code(keys[2])
        born_host, born_ms, sys_flag, flag, reconsume_times = origin
        log_offset = writer.add(
            queue, body, properties, code, keys, born_host, sys_flag, born_ms, flag, reconsume_times
        )
        return (log_offset,), f'"transactionId":{encode_basestring(keys[0])},'

    def _lay_batch(
        self, writer: LogWriter, queue: Queue, body: bytes, text: str, origin: _Origin
    ) -> tuple[Sequence[int], str] | None:
        """The same for the messages of a batch, as neighbours. `text`: the properties of the whole."""
        properties = parse_properties(text) if text else {}
        unique_key = properties.get(property_names.UNIQ_KEY, "")
        if not _BATCH_PROPERTIES.issuperset(properties) or properties.get(property_names.WAIT, "true") != "true":
            return None
        if self._topics.is_batched(queue.topic) or not unique_key.isascii() or len(text) > PROPERTIES_BYTES_MAX:
            return None
        members = plain_members(body)
        if members is None:
            return None
        born_host, born_ms, sys_flag, _, reconsume_times = origin
        writer.make_room(len(body) + (FIXED_BYTES_MAX + len(queue.topic_field)) * len(members))
        places = writer.add_members(queue, members, born_host, sys_flag, born_ms, reconsume_times)
        return places, f'"transactionId":{encode_basestring(unique_key)},' if unique_key else ""

    def _ids(self, places: Sequence[int]) -> str:
        """The ids of messages, as they stand in an answer."""
        if len(places) == 1:
            return f"{self._id_prefix}{places[0]:016X}"
        offsets = struct.pack(f">{len(places)}Q", *places).hex(",", 8).upper()
        return self._id_prefix + offsets.replace(",", "," + self._id_prefix)

    def _queue_of(self, topic: str, queue_id: str) -> Queue | None:
        """The queue of a topic that plain messages may be sent to; kept until topics or settings change."""
        if len(self._queues) >= _KEPT_MAX:
            self._queues.clear()
        try:
            queue = self._queues[topic, queue_id] = self._find_queue(topic, queue_id)
        except OSError:  # it slept, and cannot be read now; the handler will meet it too, and has somebody to tell
            return None
        return queue

    def _find_queue(self, topic: str, queue_id: str) -> Queue | None:
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
        self._topics_version, self._settings_version = self._topics.version, self._settings.version
        self._queues.clear()
        trace = "true" if config.trace_on else "false"
        added = {
            property_names.MSG_REGION: config.region_id,
            property_names.TRACE_ON: trace,
            property_names.CLUSTER: config.broker_cluster_name,
        }
        self._added = format_properties(added).encode()
        region = encode_basestring(config.region_id)
        self._tail = (
            f'"MSG_REGION":{region},"TRACE_ON":"{trace}"}},"flag":{RESPONSE_FLAG},"language":"PYTHON","opaque":'
        )
        self._is_plain = region.isascii()
        self._body_bytes_max = config.store.max_message_size
        self._accept_ms = config.start_accept_send_request_time_stamp

    def _numbers_of(self, marks: tuple[str, str, str]) -> tuple[int, int, int] | None:
        """System flag, flag and reconsume times, None if one is unusual; kept by their text."""
        sys_flag, flag, reconsume_times = marks
        if not all(_is_number(text, 9) for text in (sys_flag, flag, reconsume_times or "0")):
            return None
        numbers = int(sys_flag), int(flag), int(reconsume_times or "0")
        if numbers[0] & _SPECIAL_SYS_FLAGS:
            return None
        if len(self._numbers) >= _KEPT_MAX:
            self._numbers.clear()
        self._numbers[marks] = numbers
        return numbers

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

    def _count(self, turn: _Turn) -> None:
        took_ms = int((self._clock.monotonic() - turn.begin_s) * 1000)
        for queue, (count, size, requests) in turn.tally.items():
            self._stats.put(queue.topic, queue.queue_id, count, size, requests=requests, took_ms=took_ms)

    def _flushed(self, turn: _Turn, flushed: Flushed) -> None:
        """Answer messages that waited for their flush."""
        if flushed is not Flushed.FAILED:
            self._count(turn)
        for run in turn.runs:
            awaited = run.awaited
            if flushed is Flushed.OK:
                replies = run.replies
            elif flushed is Flushed.TIMEOUT:
                replies = _frames([_timed_out(header) for _, _, header in run.messages])
            else:
                replies = self._refusals(run.cut(0), f"the store is read-only: {self._store.problem}")
            run.peer.reply_bytes(replies, awaited)

    def _refuse(self, turn: _Turn, problem: str) -> None:
        """Answer the messages that the log did not take: those at or beyond its end."""
        turn.tally.clear()  # which of them it holds nobody knows
        for run in turn.runs:
            lost = run.cut(turn.batch.end)
            run.peer.reply_bytes(self._refusals(lost, problem), len(lost))
        turn.runs = [run for run in turn.runs if run.messages]

    def _refusals(self, opaques: list[int], problem: str) -> bytes:
        """The answers to messages that the store did not take."""
        code, status = ResponseCode.SERVICE_NOT_AVAILABLE, PutStatus.SERVICE_NOT_AVAILABLE
        remark = f',"remark":{encode_basestring_ascii(f"{status.name}: {problem}")}'
        for _ in opaques:
            self._stats.put_failed()
        return _frames([f'{{"code":{code},"extFields":{{{self._tail}{opaque}{remark}{_END}' for opaque in opaques])


def _frames(headers: list[str]) -> bytes:
    """The frames of answers without a body. All text in them is ASCII, so a prefix may pose as text meanwhile."""
    return "".join([_PREFIXES[len(header)] + header for header in headers if header]).encode("latin-1")


class _Prefixes(dict[int, str]):
    """What stands before a JSON header of so many bytes."""

    def __missing__(self, size: int) -> str:
        prefix = _PREFIX.pack(4 + size, size).decode("latin-1")
        if size < _PREFIXES_MAX:
            self[size] = prefix
        return prefix


_PREFIXES = _Prefixes()


def _timed_out(header: str) -> str:
    """The answer to a message that is stored, and not yet on disk."""
    status = PutStatus.FLUSH_DISK_TIMEOUT
    head, remark = f'{{"code":{status.code},', f',"remark":"{status.name}: {NOT_YET_ON_DISK}"{_END}'
    return header and header.replace('{"code":0,', head, 1).removesuffix(_END) + remark


def _is_number(text: str, digits_max: int) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= digits_max


def _read_properties(text: str) -> tuple[str, tuple[str, str | None, str | None]] | None:
    """The text, ended as it should be, and what the index wants of it; None unless all is as usual."""
    if not text.endswith(VALUE_END):
        text += VALUE_END
    if not _is_usual(text):
        return None
    parts = text.replace(VALUE_END, NAME_END).split(NAME_END)
    shape = _SHAPES[tuple(parts[:-1:2])]
    if shape is None:
        return None
    values = [*parts[1::2], None]  # the last stands for every property that this message does not have
    unique_at, keys_at, tags_at, wait_at = shape
    unique_key = values[unique_at]
    if unique_key is None or not unique_key.isascii() or values[wait_at] not in ("true", None):
        return None
    return text, (unique_key, values[keys_at], values[tags_at])


_is_usual: Final = re.compile(f"(?:[^{NAME_END}{VALUE_END}]+{NAME_END}[^{NAME_END}{VALUE_END}]+{VALUE_END})+").fullmatch
"""Names and values in turn, none of them empty."""


class _Shapes(dict[tuple[str, ...], "tuple[int, int, int, int] | None"]):
    """By the names of a message's properties: where the unique key, the keys, the tag and the wish to wait are."""

    def __missing__(self, names: tuple[str, ...]) -> tuple[int, int, int, int] | None:
        shape = None
        if len(set(names)) == len(names) and _SPECIAL_PROPERTIES.isdisjoint(names):
            at = {name: number for number, name in enumerate(names)}
            wanted = property_names.UNIQ_KEY, property_names.KEYS, property_names.TAGS, property_names.WAIT
            unique_at, keys_at, tags_at, wait_at = (at.get(name, -1) for name in wanted)
            shape = unique_at, keys_at, tags_at, wait_at
        if len(self) >= _KEPT_MAX:
            self.clear()
        if sum(map(len, names)) <= _KEPT_NAMES_MAX:
            self[names] = shape
        return shape


_SHAPES: Final = _Shapes()
