"""END_TRANSACTION (37), by which a producer ends a transaction, and RESUME_CHECK_HALF_MESSAGE (323), by which an
administrator takes one up again that was given up.

Differs: what lies at the log offset must be a half message, be the rest as it may; and only a half message, or one that
was given up, is taken up again. (Apache takes any message, and its checks then stumble over it for ever.) Refusals are
logged, because producers ask for no answer.
"""

from __future__ import annotations

from typing import TypeGuard

from rocketline.broker.config import BrokerConfig
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.storing.put import MessagePut, PutResult
from rocketline.broker.storing.real_place import real_place
from rocketline.broker.transactions import half_messages
from rocketline.broker.transactions.check_round import Copies
from rocketline.broker.transactions.figures import TransactionFigures
from rocketline.broker.transactions.op_messages import OpMessages
from rocketline.clock import Clock
from rocketline.errors import RemoteProtocolError
from rocketline.logs import Throttle
from rocketline.model import names, property_names
from rocketline.model.ids import OffsetMessageId
from rocketline.model.message import StoredMessage
from rocketline.model.sys_flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader

_UNKNOWN = 0
_RESUMED_FROM = (names.TRANS_CHECK_MAX_TIME_TOPIC, names.HALF_TOPIC)


class TransactionHandlers:
    """Ends transactions. Java: EndTransactionProcessor."""

    def __init__(
        self,
        store: MessageStore,
        put: MessagePut,
        ops: OpMessages,
        copies: Copies,
        figures: TransactionFigures,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        clock: Clock,
        log: Throttle,
    ) -> None:
        self._store, self._put, self._ops, self._copies = store, put, ops, copies
        self._figures, self._stats = figures, stats
        self._settings, self._clock, self._log = settings, clock, log

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.END_TRANSACTION: self._end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self._resume,
        }

    # --- the end of a transaction

    def _end(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(EndTransactionRequestHeader, request.ext)
        if asked.commit_or_rollback == _UNKNOWN:
            return None  # the producer will be asked
        if asked.commit_or_rollback not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            problem = f"commitOrRollback {asked.commit_or_rollback}: 8 commits, 12 rolls back, 0 leaves it open"
            return response(ResponseCode.SYSTEM_ERROR, problem)
        half = self._store.message_at(asked.commit_log_offset)
        refusal = self._refusal(asked, half)
        if refusal is not None:
            self._log.warning("transaction not ended", refusal.remark or "", group=asked.producer_group[:255])
            return refusal
        assert half is not None, "a half message that is not there is refused"
        if asked.commit_or_rollback == TRANSACTION_ROLLBACK:
            self._ended(half)
            return response(ResponseCode.SUCCESS)
        return self._commit(channel, request, half)

    def _refusal(self, asked: EndTransactionRequestHeader, half: StoredMessage | None) -> Command | None:
        """Why the transaction is not ended; None if it is."""
        where = f"the half message at the log offset {asked.commit_log_offset}"
        if not self._is_of(half, (names.HALF_TOPIC,)) or real_place(half) is None:
            return _refused(f"there is no half message at the log offset {asked.commit_log_offset}")
        if not asked.from_transaction_check and self._is_late(half):
            problem = f"{where} is older than its CHECK_IMMUNITY_TIME_IN_SECONDS: only the answer to a check ends it"
            return response(ResponseCode.ILLEGAL_OPERATION, problem)
        group = half.properties.get(property_names.PGROUP)
        if group != asked.producer_group:
            return _refused(f"{where} is of another producer group than {asked.producer_group[:255]}")
        if half.queue_offset != asked.tran_state_table_offset:
            return _refused(f"{where} is not at the queue offset {asked.tran_state_table_offset}")
        if self._ops.is_full:
            problem = f"{len(self._ops)} ends of transactions cannot be noted: {self._store.problem or 'no disk space'}"
            return response(ResponseCode.SERVICE_NOT_AVAILABLE, problem)
        return None

    def _is_of(self, message: StoredMessage | None, topics: tuple[str, ...]) -> TypeGuard[StoredMessage]:
        """The message is in the queue of one of the topics. Within the body of another message anything may look like a
        record, but no queue leads there."""
        if message is None or message.topic not in topics:
            return False
        units = self._store.units(message.topic, message.queue_id, message.queue_offset, 1)
        return bool(units) and units[0][0] == message.log_offset

    def _is_late(self, half: StoredMessage) -> bool:
        timeout_ms = self._settings.value.transaction_time_out
        wanted_ms = half_messages.immunity_ms(half, timeout_ms)
        return wanted_ms is not None and self._clock.wall_ms() - half.born_ms > max(wanted_ms, timeout_ms)

    def _commit(self, channel: Channel, request: Command, half: StoredMessage) -> Outcome:
        place = real_place(half)
        assert place is not None, "looked at before"
        message = half_messages.committed(half, place)
        half.body = b""  # nobody needs it any more, and the commit may wait for its flush
        later = LaterAnswer(channel, request)

        def stored(result: PutResult) -> None:
            if result.status.is_stored:
                self._stats.put(message.topic, message.queue_id, 1, result.size)
                self._ended(half)
                later.give(response(ResponseCode.SUCCESS))
            else:
                problem = f"{result.status.name}: {result.problem}"
                self._log.warning("transaction not committed", problem, topic=place[0])
                later.give(response(result.status.code, problem))

        self._put.put(message, stored)
        return later.outcome()

    def _ended(self, half: StoredMessage) -> None:
        place = real_place(half)
        assert place is not None, "looked at before"
        self._ops.add(half.queue_offset)
        self._ops.add(self._copies.take(half.queue_offset))
        self._figures.add(place[0], -1)

    # --- one that was given up

    def _resume(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(ResumeCheckHalfMessageRequestHeader, request.ext)
        try:
            place = OffsetMessageId.parse(asked.msg_id or "").log_offset
        except RemoteProtocolError as error:
            return _refused(f"msgId {(asked.msg_id or '')[:80]!r} is no offset id: {error}")
        message = self._store.message_at(place)
        real = None if message is None else real_place(message)
        if not self._is_of(message, _RESUMED_FROM) or real is None:
            return _refused(f"there is no half message at the log offset {place}, nor one that was given up")
        again = half_messages.resumed(message)
        message.body = b""
        later = LaterAnswer(channel, request)

        def stored(result: PutResult) -> None:
            if not result.status.is_stored:
                later.give(_refused(f"{result.status.name}: {result.problem}"))
                return
            self._stats.put(again.topic, 0, 1, result.size)
            if message.topic != names.HALF_TOPIC:
                self._figures.add(real[0], 1)
            later.give(response(ResponseCode.SUCCESS))

        self._put.put_as_it_is(again, stored)
        return later.outcome()


def _refused(problem: str) -> Command:
    return response(ResponseCode.SYSTEM_ERROR, problem)
