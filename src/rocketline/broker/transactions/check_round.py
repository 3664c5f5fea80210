"""One look at all half messages that wait, in steps that are short. Java: TransactionalMessageServiceImpl.check.

A half message that has ended is passed by. One that has not, and is old enough, is appended to its queue once more, and
its producer is asked about that copy: so the queue's beginning always moves on. What was asked for often enough goes to
TRANS_CHECK_MAX_TIME_TOPIC.

Differs: ends that are noted and not yet written count as well, and so does the end of an older copy. A message is
passed by only once its copy is stored. To be put off, because its producer wants not to be asked yet, does not count as
a question; and if it ended under its first offset, its copy has ended, too. (Apache discards the one after 15 rounds,
and asks for the other.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.topics import TopicTable, no_room
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.storing.real_place import real_place
from rocketline.broker.transactions import half_messages
from rocketline.broker.transactions.figures import TransactionFigures
from rocketline.broker.transactions.op_messages import OpMessages
from rocketline.clock import Clock
from rocketline.errors import IllegalMessageError, LocalProtocolError, StoreError
from rocketline.logs import Throttle
from rocketline.model import names
from rocketline.model.message import StoredMessage
from rocketline.model.route import PERM_READ, PERM_WRITE
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.store.filesystem import told
from rocketline.store.message_store import MessageStore
from rocketline.wire.bodies.transactions import ended_in

_STEP_S: Final = 0.002
"""A step ends with what it is at then; on a machine that is not busy the next two end it before."""
_STEP_EFFORT: Final = 1024
_COPY_EFFORT: Final = 64
_BYTES_PER_EFFORT: Final = 4096
_OP_EFFORT: Final = 8
_UNITS: Final = 256
_ENDED_BEFORE_MAX: Final = 100_000
_COPIES_MAX: Final = 200_000
_HOUR_MS: Final = 3_600_000


class Progress(NamedTuple):
    """How far the queues of half messages and of op messages need not be read any more."""

    half: int
    op: int


@dataclass(slots=True)
class TransactionTools:
    """What a round works with."""

    store: MessageStore
    topics: TopicTable
    ops: OpMessages
    figures: TransactionFigures
    stats: BrokerStats
    settings: Settings[BrokerConfig]
    clock: Clock
    log: Throttle
    copies: Copies


class EndedBefore:
    """Offsets of half messages that ended after their copy was made: those that are put off know them.

    The last hundred thousand. Of one that is forgotten the producer is asked once more.
    """

    def __init__(self) -> None:
        self._offsets: dict[int, None] = {}

    def __contains__(self, offset: int) -> bool:
        return offset in self._offsets

    def add(self, offset: int) -> None:
        self._offsets[offset] = None
        if len(self._offsets) > _ENDED_BEFORE_MAX:
            del self._offsets[next(iter(self._offsets))]


class Copies:
    """Which half message was stored once more, and where: a producer that is late ends the copy, too.

    The last two hundred thousand. The end of one that is forgotten leaves its copy to be asked for.
    """

    def __init__(self) -> None:
        self._newer: dict[int, int] = {}

    def add(self, offset: int, copy: int) -> None:
        """The half message at this offset of the queue is at that one as well."""
        self._newer[offset] = copy
        if len(self._newer) > _COPIES_MAX:
            del self._newer[next(iter(self._newer))]

    def take(self, offset: int) -> int:
        """The newest copy of a half message that has ended; its own offset if there is none."""
        while (newer := self._newer.pop(offset, None)) is not None:
            offset = newer
        return offset


class CheckRound:
    """A walk from `progress` to where the queue of half messages ended when it began, unless it comes to one that is
    too young. After each step `progress` tells how far it is."""

    def __init__(self, tools: TransactionTools, begin: Progress, before: EndedBefore) -> None:
        self._tools, self._before = tools, before
        store = tools.store
        self._half_end = store.max_offset(names.HALF_TOPIC, 0)
        low = store.min_offset(names.HALF_TOPIC, 0)
        self._half = min(max(begin.half, low), self._half_end)
        op_low, op_high = store.min_offset(names.OP_HALF_TOPIC, 0), store.max_offset(names.OP_HALF_TOPIC, 0)
        self._op_next = min(max(begin.op, op_low), op_high)
        self._ended: dict[int, int] = {}
        """Half messages from here on that have ended, each with the op message that says so."""
        self._open_ops: dict[int, int] = {}
        """Op messages that name half messages which are still ahead, with their number; in their order."""
        self._is_over = False

    @property
    def progress(self) -> Progress:
        return Progress(self._half, next(iter(self._open_ops), self._op_next))

    def steps(self) -> Iterator[list[StoredMessage]]:
        """What producers must be asked after each step: copies of half messages, as they are stored. Raises `OSError`
        if the store cannot be read."""
        while not self._is_over and self._half < self._half_end:
            asked: list[StoredMessage] = []
            self._step(asked)
            yield asked

    def _step(self, asked: list[StoredMessage]) -> None:
        effort, store, clock = 0, self._tools.store, self._tools.clock
        due_s = clock.monotonic() + _STEP_S
        units = store.units(names.HALF_TOPIC, 0, self._half, min(_UNITS, self._half_end - self._half))
        if not units:  # its files have lost them
            self._is_over = True
        for log_offset, size, _ in units:
            if self._half in self._ended:
                self._pass_ended()
                effort += 1
            elif self._half in self._tools.ops:
                effort += 1
            elif not self._has_all_ops():
                effort += self._read_ops()
                if self._half not in self._ended:
                    return  # what it says of this one, the next step will see
                self._pass_ended()
            else:
                self._look_at(log_offset, asked)
                effort += _COPY_EFFORT + size // _BYTES_PER_EFFORT
                if clock.monotonic() > due_s:
                    effort = _STEP_EFFORT
            if self._is_over:
                return
            self._half += 1
            if effort >= _STEP_EFFORT:
                return

    def _pass_ended(self) -> None:
        op = self._ended.pop(self._half)
        self._open_ops[op] -= 1
        if not self._open_ops[op]:
            del self._open_ops[op]

    # --- op messages

    def _has_all_ops(self) -> bool:
        return self._op_next >= self._tools.store.max_offset(names.OP_HALF_TOPIC, 0)

    def _read_ops(self) -> int:
        """Read some op messages on. Returns the effort."""
        effort, store = 1, self._tools.store
        for log_offset, _, _ in store.units(names.OP_HALF_TOPIC, 0, self._op_next, _OP_EFFORT):
            op = self._message(names.OP_HALF_TOPIC, log_offset)
            if op is None:
                self._tools.log.warning("ends of transactions unreadable", "asked for again", log_offset=log_offset)
            offsets = [] if op is None else ended_in(op.tag, op.body)
            self._take_ended(offsets)
            self._op_next += 1
            effort += 1 + len(offsets)
            if effort >= _STEP_EFFORT:
                return effort
        if effort == 1:  # the queue's files have lost them
            self._op_next = store.max_offset(names.OP_HALF_TOPIC, 0)
        return effort

    def _take_ended(self, offsets: list[int]) -> None:
        ahead = 0
        for offset in offsets:
            if offset < self._half:
                self._before.add(offset)
            elif offset not in self._ended:
                self._ended[offset] = self._op_next
                ahead += 1
        if ahead:
            self._open_ops[self._op_next] = ahead

    def _message(self, topic: str, log_offset: int) -> StoredMessage | None:
        """The one that a unit leads to: in place of a message that the log has lost that is its beginning."""
        message = self._tools.store.message_at(log_offset)
        return message if message is not None and message.topic == topic else None

    # --- half messages that have not ended

    def _look_at(self, log_offset: int, asked: list[StoredMessage]) -> None:
        """Decide about the half message that the walk is at: when this returns it is done with, or the walk is over."""
        tools, config = self._tools, self._tools.settings.value
        half = self._message(names.HALF_TOPIC, log_offset)
        if half is None:
            tools.log.warning("half message left behind", "it cannot be read", log_offset=log_offset)
            return
        age_ms = tools.clock.wall_ms() - half.born_ms
        kept_ms = max(config.store.file_reserved_time, 1) * _HOUR_MS  # or with 0 nobody would be asked
        if (
            real_place(half) is None
            or half_messages.check_times(half) >= config.transaction_check_max
            or (age_ms > kept_ms and not half_messages.is_counted(half))
        ):
            self._discard(half)
            return
        timeout_ms = config.transaction_time_out
        wanted_ms = half_messages.immunity_ms(half, timeout_ms)
        if wanted_ms is not None and age_ms <= wanted_ms and abs(age_ms) <= kept_ms:
            self._put_off(half)
        elif wanted_ms is None and 0 <= age_ms <= timeout_ms:
            self._is_over = True
        else:
            copy = half_messages.check_copy(half)
            if self._append(copy):
                tools.copies.add(self._half, copy.queue_offset)
                asked.append(copy)

    def _put_off(self, half: StoredMessage) -> None:
        first = half_messages.first_offset(half)
        if first not in self._before and first not in self._tools.ops and self._append(half_messages.put_off(half)):
            self._tools.copies.add(self._half, half.queue_offset)

    def _discard(self, half: StoredMessage) -> None:
        """Keep it where an administrator finds it."""
        tools, topic = self._tools, names.TRANS_CHECK_MAX_TIME_TOPIC
        if not tools.topics.ensure([TopicConfig(topic, 1, 1, PERM_READ | PERM_WRITE)]):
            tools.log.warning("half message not discarded", no_room(topic))
            self._is_over = True
            return
        if self._append(half_messages.discarded(half)):
            place = real_place(half)
            if place is not None:
                tools.figures.add(place[0], -1)
            tools.log.warning(
                "transaction given up",
                f"its producer was asked {half_messages.check_times(half)} times; see `rocketline transaction resume`",
                topic=place and place[0],
                message_id=half.message_id,
            )

    def _append(self, message: StoredMessage) -> bool:
        """False if the message is not stored: the walk ends here, and the next one begins here."""
        tools = self._tools
        try:
            put = tools.store.append_whole(message)
        except (IllegalMessageError, LocalProtocolError) as error:
            # Nothing helps it: it was stored under settings that allowed more.
            tools.log.error("half message left behind", str(error), message_id=message.message_id)
            return False
        except (StoreError, OSError) as error:
            tools.log.warning("half messages not checked", told(error) if isinstance(error, OSError) else str(error))
            self._is_over = True
            return False
        tools.stats.put(message.topic, 0, 1, put.size)
        return True
