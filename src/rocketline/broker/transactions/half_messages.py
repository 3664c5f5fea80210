"""What a message of a transaction looks like: committed, asked for, put off, given up, taken up again.

Java: TransactionalMessageBridge and EndTransactionProcessor. A half message itself is made by `MessagePut.put_half`.

Differs: a copy keeps the message's flag and how often it was consumed, which Apache's copies lose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rocketline.model import names, property_names
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.sys_flags import TRANSACTION_COMMIT, with_transaction_type
from rocketline.wire.bodies.transactions import REMOVED_TAG

_DIGITS_MAX: Final = 19


def committed(half: StoredMessage, place: tuple[str, int]) -> StoredMessage:
    """The message as consumers get it. It keeps all its properties, as Apache's does."""
    topic, queue_id = place
    return replace(
        half,
        topic=topic,
        queue_id=queue_id,
        properties=dict(half.properties),
        sys_flag=with_transaction_type(half.sys_flag, TRANSACTION_COMMIT),
        prepared_log_offset=half.log_offset,
        version=1,
    )


def check_copy(half: StoredMessage) -> StoredMessage:
    """The half message, just read from the log, as it is stored once more to be asked for: one question more has been.

    This and `put_off` change the message itself, because there may be a hundred thousand.
    """
    half.properties[property_names.TRANSACTION_CHECK_TIMES] = str(check_times(half) + 1)
    return half


def put_off(half: StoredMessage) -> StoredMessage:
    """The same, because it must not be asked for yet. It knows where it was first."""
    half.properties.setdefault(property_names.TRAN_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    return half


def discarded(half: StoredMessage) -> StoredMessage:
    """The half message that was asked for often enough."""
    return replace(half, topic=names.TRANS_CHECK_MAX_TIME_TOPIC, queue_id=0, properties=dict(half.properties))


def resumed(message: StoredMessage) -> StoredMessage:
    """A half message that was given up, or is thought to be, as one that nobody was asked for yet."""
    properties = message.properties | {property_names.TRANSACTION_CHECK_TIMES: "0"}
    return replace(message, topic=names.HALF_TOPIC, queue_id=0, properties=properties)


def op_message(body: str, host: HostAddress, now_ms: int) -> StoredMessage:
    """What notes that half messages have ended: their queue offsets, each with a comma behind it."""
    properties = {property_names.WAIT: "true", property_names.TAGS: REMOVED_TAG}
    queue_offset, log_offset = QueueOffset(0), LogOffset(0)  # both to be known once it is stored
    return StoredMessage(
        names.OP_HALF_TOPIC, body.encode(), properties, 0, 0, queue_offset, log_offset, 0, now_ms, host, 0, host
    )


def check_times(half: StoredMessage) -> int:
    """How often its producer was asked. What is no number counts as -1, as in Java."""
    times = half.properties.get(property_names.TRANSACTION_CHECK_TIMES)
    return 0 if times is None else _number(times)


def is_counted(half: StoredMessage) -> bool:
    """Its producer was asked before, or it was taken up again: how often it is asked bounds its life."""
    return property_names.TRANSACTION_CHECK_TIMES in half.properties


def immunity_ms(half: StoredMessage, timeout_ms: int) -> int | None:
    """How long its producer wants not to be asked, from its birth on; None if it does not say."""
    seconds = half.properties.get(property_names.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if not seconds:
        return None
    number = _number(seconds)
    return timeout_ms if number == -1 else number * 1000


def first_offset(half: StoredMessage) -> int:
    """Of a half message that was put off: where in the queue it was first; -1 for any other."""
    return _number(half.properties.get(property_names.TRAN_PREPARED_QUEUE_OFFSET, ""))


def _number(text: str) -> int:
    """What Java's `getLong` makes of it: -1 for what is none."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX else -1
