"""Trace records in the text that Apache's clients write and its tools read: columns, and a mark behind each record.

Java: TraceDataEncoder. Where Java has no value it writes `null`, and its readers count columns from the left: a last
one that is empty would be none to them. So each of ours has something in every column. Readers are given what any
release of Java's or Go's client has written: columns were added in the course of time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

COLUMN: Final = "\x01"
END: Final = "\x02"
NOTHING: Final = "null"
NORMAL, HALF, ENDED, DELAYED = range(4)
"""What kind of message it is. Java: the ordinals of MessageType."""
RETURN_TYPES: Final = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")
"""What became of a delivery, by its number. Java: the ordinals of ConsumeReturnType."""
_END_OF_TIME_MS: Final = 253_402_300_800_000
"""The year 10,000."""


class TraceKind(Enum):
    """What a record tells. Java: TraceType."""

    SENT = "Pub"
    BEGUN = "SubBefore"
    """A handler was called with the message."""
    CONSUMED = "SubAfter"
    """It has ended."""
    TRANSACTION_ENDED = "EndTransaction"
    RECALLED = "Recall"


# --- writing


def encode_sent(
    time_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str,
    keys: str,
    address: str,
    body_bytes: int,
    cost_ms: int,
    kind: int,
    offset_message_id: str,
    is_ok: bool,
) -> str:
    """A message is stored; `address` is the broker's, and `is_ok` false if it is not as safe as it should be."""
    return (
        f"Pub\x01{time_ms}\x01{region}\x01{group}\x01{topic}\x01{message_id}\x01{tags}\x01{keys}\x01{address}"
        f"\x01{body_bytes}\x01{cost_ms}\x01{kind}\x01{offset_message_id}\x01{'true' if is_ok else 'false'}\x02"
    )


def encode_begun(
    time_ms: int, region: str, group: str, request_id: str, message_id: str, retries: int, keys: str
) -> str:
    """A handler is called; `request_id` is of this call."""
    return f"SubBefore\x01{time_ms}\x01{region}\x01{group}\x01{request_id}\x01{message_id}\x01{retries}\x01{keys}\x02"


def encode_consumed(
    time_ms: int, group: str, request_id: str, message_id: str, cost_ms: int, is_ok: bool, keys: str, return_type: int
) -> str:
    """It has ended at `time_ms`, after `cost_ms` for each of its messages."""
    return (
        f"SubAfter\x01{request_id}\x01{message_id}\x01{cost_ms}\x01{'true' if is_ok else 'false'}\x01{keys}"
        f"\x01{return_type}\x01{time_ms}\x01{group}\x02"
    )


def encode_ended(
    time_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str,
    keys: str,
    address: str,
    transaction_id: str,
    state: str,
    is_check: bool,
) -> str:
    """A broker is told what became of a transaction, by Java's name of that; `is_check`: because it asked."""
    return (
        f"EndTransaction\x01{time_ms}\x01{region}\x01{group}\x01{topic}\x01{message_id}\x01{tags}\x01{keys}"
        f"\x01{address}\x01{ENDED}\x01{transaction_id}\x01{state}\x01{'true' if is_check else 'false'}\x02"
    )


def encode_recalled(time_ms: int, region: str, group: str, topic: str, message_id: str, is_ok: bool) -> str:
    """A timer message was called back."""
    done = "true" if is_ok else "false"
    return f"Recall\x01{time_ms}\x01{region}\x01{group}\x01{topic}\x01{message_id}\x01{done}\x02"


# --- reading


@dataclass(slots=True, kw_only=True)
class TraceRecord:
    """One record, as far as whoever wrote it told. None and empty texts: it did not."""

    kind: TraceKind
    message_id: str
    time_ms: int | None = None
    region: str = ""
    group: str = ""
    topic: str = ""
    tags: str = ""
    keys: str = ""
    address: str = ""
    """The broker's."""
    client_host: str = ""
    body_bytes: int | None = None
    cost_ms: int | None = None
    message_kind: int = NORMAL
    offset_message_id: str = ""
    is_ok: bool = True
    request_id: str = ""
    retries: int = 0
    return_type: str = ""
    transaction_id: str = ""
    state: str = ""
    is_check: bool = False


def decode_records(body: bytes) -> tuple[list[TraceRecord], int]:
    """The records in the body of a trace message, and how many are broken: those are passed over.

    >>> records, broken = decode_records(b"SubAfter\\x01R\\x01M\\x0112\\x01true\\x01null\\x010\\x02Pub\\x01late\\x02")
    >>> records[0].message_id, records[0].cost_ms, records[0].return_type, broken
    ('M', 12, 'SUCCESS', 1)
    """
    records: list[TraceRecord] = []
    broken = 0
    for text in body.decode("utf-8", "replace").split(END):
        if not text.strip():
            continue
        try:
            records.append(_decode(text))
        except (ValueError, IndexError, KeyError):
            broken += 1
    return records, broken


def _decode(text: str) -> TraceRecord:
    columns = ["" if column == NOTHING else column for column in text.split(COLUMN)]
    kind = TraceKind(columns[0])
    if len(columns) < _LEAST[kind]:
        raise ValueError(f"{len(columns)} columns are too few for {kind.value}")
    record = TraceRecord(kind=kind, **_READERS[kind](columns))
    if not record.message_id:
        raise ValueError("a record without the id of a message")
    return record


def _read_sent(columns: list[str]) -> dict[str, Any]:
    told = {
        **_read_head(columns),
        "topic": columns[4],
        "message_id": columns[5],
        "tags": columns[6],
        "keys": columns[7],
        "address": columns[8],
        "body_bytes": _number(columns[9]),
        "cost_ms": _number(columns[10]),
        "message_kind": _number(columns[11]),
    }
    if len(columns) == _LEAST[TraceKind.SENT]:  # before the broker's id was told
        return told | {"is_ok": _is_true(columns[12])}
    client_host = columns[14] if len(columns) > 14 else ""
    return told | {"offset_message_id": columns[12], "is_ok": _is_true(columns[13]), "client_host": client_host}


def _read_begun(columns: list[str]) -> dict[str, Any]:
    return {
        **_read_head(columns),
        "request_id": columns[4],
        "message_id": columns[5],
        "retries": _number(columns[6]),
        "keys": columns[7] if len(columns) > 7 else "",
        "client_host": columns[8] if len(columns) > 8 else "",
    }


def _read_consumed(columns: list[str]) -> dict[str, Any]:
    is_ok = _is_true(columns[4])
    code = _number(columns[6]) if len(columns) > 6 else None
    if code is None:
        return_type = "SUCCESS" if is_ok else "FAILED"
    else:
        return_type = RETURN_TYPES[code] if 0 <= code < len(RETURN_TYPES) else str(code)
    return {
        "request_id": columns[1],
        "message_id": columns[2],
        "cost_ms": _number(columns[3]),
        "is_ok": is_ok,
        "keys": columns[5] if len(columns) > 5 else "",
        "return_type": return_type,
        "time_ms": _time(columns[7]) if len(columns) > 7 else None,
        "group": columns[8] if len(columns) > 8 else "",
    }


def _read_ended(columns: list[str]) -> dict[str, Any]:
    return {
        **_read_head(columns),
        "topic": columns[4],
        "message_id": columns[5],
        "tags": columns[6],
        "keys": columns[7],
        "address": columns[8],
        "message_kind": _number(columns[9]),
        "transaction_id": columns[10],
        "state": columns[11],
        "is_check": _is_true(columns[12]),
    }


def _read_recalled(columns: list[str]) -> dict[str, Any]:
    return {
        **_read_head(columns),
        "topic": columns[4],
        "message_id": columns[5],
        "is_ok": _is_true(columns[6]),
    }


def _read_head(columns: list[str]) -> dict[str, Any]:
    return {"time_ms": _time(columns[1]), "region": columns[2], "group": columns[3]}


def _number(column: str) -> int:
    """A Java int: what took time may be negative, where a clock was set back."""
    number = int(column)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} is no int")
    return number


def _time(column: str) -> int:
    time_ms = int(column)
    if not 0 <= time_ms < _END_OF_TIME_MS:
        raise ValueError(f"there is no time {time_ms}")
    return time_ms


def _is_true(column: str) -> bool:
    return column == "true"


_READERS: Final[Mapping[TraceKind, Callable[[list[str]], dict[str, Any]]]] = {
    TraceKind.SENT: _read_sent,
    TraceKind.BEGUN: _read_begun,
    TraceKind.CONSUMED: _read_consumed,
    TraceKind.TRANSACTION_ENDED: _read_ended,
    TraceKind.RECALLED: _read_recalled,
}
_LEAST: Final[Mapping[TraceKind, int]] = {
    TraceKind.SENT: 13,
    TraceKind.BEGUN: 7,
    TraceKind.CONSUMED: 5,
    TraceKind.TRANSACTION_ENDED: 13,
    TraceKind.RECALLED: 7,
}
"""The columns that each kind of record had in the first release that wrote it."""
