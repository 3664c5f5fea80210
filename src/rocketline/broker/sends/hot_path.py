"""The hot path of sends: many plain messages in, one write to the log, all their answers out.

What the connections bring in one turn of the loop is laid out as it comes and written when the turn is over: so 64
producers with one message each cost the log as little as one with 64.

It takes what nearly every producer sends: a message with its own unique key, or a batch, for a queue that exists, with
nothing special about it. Each frame is parsed (`hot.pure.send_request`), decided on (`hot_decisions`), laid out by the
store's `LogWriter` and, once it is written, answered (`hot.pure.send_reply`). At the first frame that is different it
stops, and the handlers of `rocketline.broker.sends.handler` decide. For what it takes, it gives the same answer and
stores the same record as they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.sends.batch_members import plain_members
from rocketline.broker.sends.hot_decisions import SendDecisions
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.storing.admission import Admission
from rocketline.broker.storing.flusher import Flushed, Flusher
from rocketline.broker.storing.put import NOT_YET_ON_DISK, PutStatus
from rocketline.clock import Clock
from rocketline.errors import StoreError
from rocketline.hot import HotPeer
from rocketline.hot.pure.send_properties import read_properties
from rocketline.hot.pure.send_reply import ReplyTexts, StoredSend, encoded, refusals, stored_replies
from rocketline.hot.pure.send_request import SEND_STARTS, parse_send
from rocketline.model import property_names
from rocketline.settings import Settings
from rocketline.store.log_writer import FIXED_BYTES_MAX, LogWriter
from rocketline.store.message_store import AppendBatch, MessageStore
from rocketline.store.queues.queue_table import Queue
from rocketline.wire.command import ONEWAY_FLAG
from rocketline.wire.properties import PROPERTIES_BYTES_MAX, parse_properties

_REQUESTS_MAX: Final = 512
_TURN_BYTES_MAX: Final = 1024 * 1024
"""A turn that has laid out more is over at once: whoever comes next should not pay for it."""
_BATCH_PROPERTIES: Final = frozenset({property_names.WAIT, property_names.UNIQ_KEY})

_Origin: TypeAlias = tuple[bytes, int, int, int, int]
"""Born host and time, system flag, flag, reconsume times."""


class _Turn:
    """What one turn of the loop laid out: a batch that is still open, who is to be answered, what is to be counted."""

    __slots__ = ("batch", "begin", "begin_s", "problem", "replies", "requests", "runs", "sends", "tally", "writer")

    def __init__(self, batch: AppendBatch, begin_s: float, replies: ReplyTexts) -> None:
        self.batch, self.writer, self.begin_s, self.replies = batch, batch.open(), begin_s, replies
        self.begin = self.writer.position
        self.requests = 0
        """Requests whose messages are laid out, whether or not they are to be answered."""
        self.sends: list[StoredSend] = []
        """Sends that are to be answered, in the order of their messages in the log."""
        self.runs: list[tuple[HotPeer, int, int]] = []
        """Who sent them, and where in `sends` theirs begin and end: a run for each read."""
        self.problem: StoreError | OSError | None = None
        """Why no more could be laid out."""
        self.tally: dict[Queue, list[int]] = {}
        """Messages, bytes and requests by queue."""

    def cut(self, end: int) -> list[tuple[HotPeer, list[int]]]:
        """Keep the sends whose messages lie before the log offset `end`; the opaques of the others, by their peers."""
        kept = sum(places[0] < end for places, *_ in self.sends)
        lost = [
            (peer, [opaque for _, opaque, *_ in self.sends[max(first, kept) : last]])
            for peer, first, last in self.runs
            if last > kept
        ]
        self.runs = [(peer, first, min(last, kept)) for peer, first, last in self.runs if first < kept]
        del self.sends[kept:]
        return lost

    def answer(self, frames: list[str]) -> None:
        """Send the answers to `sends`, one frame each, to whom they belong."""
        for peer, first, last in self.runs:
            peer.reply_bytes(encoded(frames[first:last]), last - first)


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
        self._store, self._flusher, self._stats = store, flusher, stats
        self._admission, self._clock, self._call_soon = admission, clock, call_soon
        self._decisions = SendDecisions(store, topics, settings, clock)
        self._turn: _Turn | None = None
        self._layers: Final = {"": self._lay_message, "false": self._lay_message, "true": self._lay_batch}
        """By the mark of a batch."""

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """Lay out the plain sends from `start` on. Their answers come at the end of the turn. See `HotPath`."""
        if not data.startswith(SEND_STARTS, start + 8):
            return start, b"", 0
        decisions = self._decisions
        replies = decisions.replies_now()
        if replies is None or not self._store.is_writable or not self._admission.takes_sends(peer.read_s):
            return start, b"", 0  # the ordinary way tells why not
        born_host = decisions.born_hosts.get(peer.peer) or decisions.born_host_of(peer.peer)
        turn = self._turn
        if turn is None:
            turn = self._begin_turn(replies)
        else:
            turn.writer.look_at_clock()
        size, first, requests = len(data), len(turn.sends), 0
        try:
            while start < size and requests < _REQUESTS_MAX and (end := self._add(turn, data, start, born_host)):
                start = end
                requests += 1
        except (StoreError, OSError) as error:
            turn.problem = error
        turn.requests += requests
        awaited = len(turn.sends) - first
        if awaited:
            turn.runs.append((peer, first, first + awaited))
        if turn.problem is not None or turn.writer.position - turn.begin > _TURN_BYTES_MAX:
            self.settle()
        return start, b"", awaited

    def _begin_turn(self, replies: ReplyTexts) -> _Turn:
        turn = self._turn = _Turn(self._store.batch(), self._clock.monotonic(), replies)
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
            turn.tally.clear()  # which of them the log holds nobody knows
            self._refuse(turn, turn.batch.end, str(problem))
        if self._store.is_sync:
            self._flusher.wait(turn.batch.end, partial(self._flushed, turn), turn.requests)
        else:
            self._count(turn)
            turn.answer(stored_replies(turn.replies, turn.sends))

    # --- taking messages

    def _add(self, turn: _Turn, data: bytes, start: int, born_host: bytes) -> int:
        """Lay out what one frame brings; where the frame ends, 0 if it is not taken."""
        decisions = self._decisions
        parsed = parse_send(data, start, decisions.body_bytes_max)
        if parsed is None:
            return 0
        end, header, body = parsed
        fields = header.extFields
        queue = decisions.queues.get((fields.b, fields.e)) or decisions.queue_of(fields.b, fields.e)
        marks = fields.f, fields.h, fields.j
        numbers = decisions.numbers.get(marks) or decisions.numbers_of(marks)
        born, lay_out = fields.g, self._layers.get(fields.m)
        if queue is None or not numbers or not (born.isdigit() and born.isascii() and len(born) < 19) or not lay_out:
            return 0
        writer, queue_offset = turn.writer, queue.next_offset
        laid = lay_out(writer, queue, body, fields.i, (born_host, int(born), *numbers))
        if laid is None:
            return 0
        places, unique_key = laid
        if not header.flag & ONEWAY_FLAG:
            turn.sends.append((places, header.opaque, queue.queue_id, queue_offset, unique_key))
        counts = turn.tally.get(queue)
        if counts is None:
            counts = turn.tally[queue] = [0, 0, 0]
        counts[0] += len(places)
        counts[1] += writer.position - places[0]
        counts[2] += 1
        return end

    def _lay_message(
        self, writer: LogWriter, queue: Queue, body: bytes, text: str, origin: _Origin
    ) -> tuple[Sequence[int], str] | None:
        """Lay out one message: where it is, and its unique key; None if it is not taken."""
        found, decisions = read_properties(text), self._decisions
        if found is None:
            return None
        text, keys = found
        properties = text.encode() + decisions.added_properties
        if len(properties) > PROPERTIES_BYTES_MAX:
            return None
        code = decisions.tags_codes.get(keys[2])
        if code is None:
            code = decisions.tags_code_of(keys[2])
        born_host, born_ms, sys_flag, flag, reconsume_times = origin
        log_offset = writer.add(
            queue, body, properties, code, keys, born_host, sys_flag, born_ms, flag, reconsume_times
        )
        return (log_offset,), keys[0]

    def _lay_batch(
        self, writer: LogWriter, queue: Queue, body: bytes, text: str, origin: _Origin
    ) -> tuple[Sequence[int], str] | None:
        """The same for the messages of a batch, as neighbours. `text`: the properties of the whole."""
        if len(text) > PROPERTIES_BYTES_MAX:
            return None
        properties = parse_properties(text) if text else {}
        unique_key = properties.get(property_names.UNIQ_KEY, "")
        if not _BATCH_PROPERTIES.issuperset(properties) or properties.get(property_names.WAIT, "true") != "true":
            return None
        if not unique_key.isascii():
            return None
        members = plain_members(body)
        if members is None:
            return None
        born_host, born_ms, sys_flag, _, reconsume_times = origin
        writer.make_room(len(body) + (FIXED_BYTES_MAX + len(queue.topic_field)) * len(members))
        return writer.add_members(queue, members, born_host, sys_flag, born_ms, reconsume_times), unique_key

    # --- answering

    def _count(self, turn: _Turn) -> None:
        took_ms = int((self._clock.monotonic() - turn.begin_s) * 1000)
        for queue, (count, size, requests) in turn.tally.items():
            self._stats.put(queue.topic, queue.queue_id, count, size, requests=requests, took_ms=took_ms)

    def _flushed(self, turn: _Turn, flushed: Flushed) -> None:
        """Answer messages that waited for their flush."""
        if flushed is not Flushed.FAILED:
            self._count(turn)
            late = PutStatus.FLUSH_DISK_TIMEOUT
            how = () if flushed is Flushed.OK else (late.code, f"{late.name}: {NOT_YET_ON_DISK}")
            turn.answer(stored_replies(turn.replies, turn.sends, *how))
        else:
            self._refuse(turn, 0, f"the store is read-only: {self._store.problem}")

    def _refuse(self, turn: _Turn, end: int, problem: str) -> None:
        """Answer the messages that the log did not take: those at or beyond its end."""
        status = PutStatus.SERVICE_NOT_AVAILABLE
        for peer, opaques in turn.cut(end):
            for _ in opaques:
                self._stats.put_failed()
            frames = refusals(turn.replies, opaques, status.code, f"{status.name}: {problem}")
            peer.reply_bytes(encoded(frames), len(opaques))
