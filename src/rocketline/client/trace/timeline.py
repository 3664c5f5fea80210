"""What became of one message, from the trace records of all who saw it: sent, stored, delivered, ended, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from rocketline.client.trace.records import HALF, TraceKind, TraceRecord, decode_records


class TraceStep(Enum):
    """What happened."""

    SENT = "sent"
    """A broker was asked to store it."""
    HALF_SENT = "half sent"
    """The same, as half of a transaction."""
    STORED = "stored"
    """It has answered that it did."""
    ENDED = "transaction ended"
    """The producer told what became of the transaction."""
    CHECKED = "transaction checked"
    """The same, because the broker asked."""
    RECALLED = "recalled"
    DELIVERED = "delivered"
    """A handler was called with it, for the first time in this group."""
    RETRIED = "delivered again"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One thing that happened to the message."""

    step: TraceStep
    at_ms: int | None
    """By the clock of the client that wrote it down; None if that did not tell when."""
    group: str
    took_ms: int | None = None
    """The answer of the broker, or the handler; of several messages in one call each has the same part of it. None: it
    has not ended, or nobody has told yet."""
    outcome: str = ""
    """`OK` or `NOT_SAFE`, what the handler came to (SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL, FAILED), or the state of
    the transaction. Empty: not known yet."""
    where: str = ""
    """The host of the client that wrote it down; of what a broker did, the broker's address."""
    retries: int | None = None
    """Of a delivery: how often the group had failed at it before."""


@dataclass(frozen=True, slots=True)
class MessageTrace:
    """The story of one message. Records of a client that died, or had no room for them, are missing."""

    message_id: str
    topic: str
    tags: str
    keys: str
    offset_message_id: str
    """The broker's id of it; it and those before are empty if nobody told who sent the message."""
    events: tuple[TraceEvent, ...]
    """In the order of their times."""
    broken: int
    """Records that could not be read, in the same trace messages."""

    @classmethod
    def read(cls, message_id: str, told: Iterable[tuple[str, bytes]], broken: int = 0) -> MessageTrace:
        """From hosts and what they told: the bodies of trace messages, in which other messages may be, too; `broken` is
        how many of those could not be read."""
        records, unread = _records_of(message_id, told)
        broken += unread
        sent = next((each for each in records if each.kind is TraceKind.SENT), None)
        events = sorted(
            [*_of_producers(records), *_of_consumers(records)],
            key=lambda event: (event.at_ms is None, event.at_ms or 0),
        )
        if sent is None:
            return cls(message_id, "", "", "", "", tuple(events), broken)
        return cls(message_id, sent.topic, sent.tags, sent.keys, sent.offset_message_id, tuple(events), broken)


def _records_of(message_id: str, told: Iterable[tuple[str, bytes]]) -> tuple[list[TraceRecord], int]:
    found: list[TraceRecord] = []
    broken = 0
    for host, body in told:
        records, unread = decode_records(body)
        broken += unread
        for record in records:
            if message_id in record.message_id.split(","):  # Java notes a batch as one message with the ids of all
                record.client_host = record.client_host or host
                found.append(record)
    return found, broken


def _of_producers(records: Iterable[TraceRecord]) -> Iterable[TraceEvent]:
    for record in records:
        match record.kind:
            case TraceKind.SENT:
                yield from _sending(record)
            case TraceKind.TRANSACTION_ENDED:
                step = TraceStep.CHECKED if record.is_check else TraceStep.ENDED
                yield TraceEvent(
                    step=step, at_ms=record.time_ms, group=record.group, outcome=record.state, where=record.address
                )
            case TraceKind.RECALLED:
                outcome = "OK" if record.is_ok else "FAILED"
                yield TraceEvent(
                    step=TraceStep.RECALLED,
                    at_ms=record.time_ms,
                    group=record.group,
                    outcome=outcome,
                    where=record.client_host,
                )


def _sending(record: TraceRecord) -> Iterable[TraceEvent]:
    assert record.time_ms is not None
    assert record.cost_ms is not None
    step = TraceStep.HALF_SENT if record.message_kind == HALF else TraceStep.SENT
    yield TraceEvent(step=step, at_ms=record.time_ms, group=record.group, where=record.client_host)
    yield TraceEvent(
        step=TraceStep.STORED,
        at_ms=record.time_ms + record.cost_ms,
        group=record.group,
        took_ms=record.cost_ms,
        outcome="OK" if record.is_ok else "NOT_SAFE",
        where=record.address,
    )


def _of_consumers(records: Iterable[TraceRecord]) -> Iterable[TraceEvent]:
    """One event for each call of a handler, of its begin and its end, or of one of them alone."""
    calls: dict[str, dict[TraceKind, TraceRecord]] = {}
    for record in records:
        if record.kind in (TraceKind.BEGUN, TraceKind.CONSUMED):
            calls.setdefault(record.request_id, {}).setdefault(record.kind, record)
    for call in calls.values():
        yield _delivery(call.get(TraceKind.BEGUN), call.get(TraceKind.CONSUMED))


def _delivery(begun: TraceRecord | None, ended: TraceRecord | None) -> TraceEvent:
    known = begun or ended
    assert known is not None
    at_ms = known.time_ms
    if begun is None and ended is not None and ended.time_ms is not None and ended.cost_ms is not None:
        at_ms = ended.time_ms - ended.cost_ms
    retries = known.retries
    return TraceEvent(
        step=TraceStep.RETRIED if retries else TraceStep.DELIVERED,
        at_ms=at_ms,
        group=known.group,
        took_ms=None if ended is None else ended.cost_ms,
        outcome="" if ended is None else ended.return_type,
        where=known.client_host,
        retries=retries,
    )
