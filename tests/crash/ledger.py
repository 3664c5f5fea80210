"""What was sent, acknowledged and seen: what a broker must not contradict, however often it is killed.

Every message has a number of its own, and its body follows from the number: a body that was torn, mixed up or made up
is recognised by itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from rocketline.model.message import StoredMessage
from rocketline.wire.codes import ResponseCode

PLAIN, DELAYED, TIMED, TRANSACTED = "crash-plain", "crash-delayed", "crash-timed", "crash-transacted"
MADE = "crash-made-"
QUEUES = {PLAIN: 4, DELAYED: 2, TIMED: 2, TRANSACTED: 1}
TIMER_MS_MAX = 5_000
DELAY_LEVELS_MS = {1: 1_000, 2: 2_000, 3: 4_000}
_PROBLEMS_MAX = 20
_WORD = "{:08x} "
_LARGE_EACH, _LARGE_WORDS, _SMALL_WORDS = 61, 2_000, 97


def body_of(number: int) -> bytes:
    """Nine bytes, again and again: mostly some hundred bytes, at times some kilobytes."""
    words = _LARGE_WORDS if number % _LARGE_EACH == 0 else 1 + number * 31 % _SMALL_WORDS
    return _WORD.format(number).encode() * words


def number_of(body: bytes) -> int | None:
    """The message's number; None if this is no whole body of ours."""
    try:
        number = int(body[:8], 16)
    except ValueError:
        return None
    return number if body == body_of(number) else None


def key_of(number: int) -> str:
    return f"key-{number}"


def is_rolled_back(number: int) -> bool:
    """What becomes of the transaction with this message, whoever is asked."""
    return number % 3 == 0


class Place(NamedTuple):
    """Where a queue has a message."""

    topic: str
    queue_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A message on its way, whatever became of it."""

    topic: str
    sent_ms: int
    delay_ms: int = 0


class Ledger:
    """The memory of all producers and consumers together; `problems` is what contradicts it."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.places: dict[Place, int] = {}
        """Which message is where: because a producer was told so, or a consumer got it there."""
        self.log_offsets: dict[int, int] = {}
        """Of acknowledged messages, from the ids that the broker gave them."""
        self.waiting: set[int] = set()
        """Delayed messages that were acknowledged, and not called back, and that nobody has seen yet."""
        self.recalled: set[int] = set()
        """Those of which the broker said so."""
        self.open: set[int] = set()
        """Half messages that were acknowledged, are to be committed, and that nobody has seen yet."""
        self.committed: set[int] = set()
        """Those whose commit was acknowledged."""
        self.answers = 0
        """Commits, acknowledged ones, that the broker had asked for."""
        self.topics: set[str] = set()
        self.groups: set[str] = set()
        self.acknowledged = self.unanswered = 0
        self.refused: Counter[str] = Counter()
        """Answers other than success, by code and remark."""
        self.problems: list[str] = []

    def report(self, problem: str) -> None:
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)

    def send(self, number: int, sent: Sent) -> None:
        self.sent[number] = sent

    def acknowledge(self, number: int, place: Place, log_offset: int | None) -> None:
        """A producer was told that the message is stored there; a delayed one is only parked."""
        self.acknowledged += 1
        self.topics.add(place.topic)
        if log_offset is not None:
            self.log_offsets[number] = log_offset
        if self.sent[number].delay_ms:
            self.waiting.add(number)
        else:
            self._settle(place, number, "acknowledged")

    def recall(self, number: int, code: int | None) -> None:
        """A producer wants the message back: what it was told, None if nothing. Then it may come, or not."""
        if code in (ResponseCode.SUCCESS, None):
            self.waiting.discard(number)
        if code == ResponseCode.SUCCESS:
            self.recalled.add(number)

    def begin_transaction(self, number: int) -> None:
        """A producer was told that half of a transaction is stored."""
        self.acknowledged += 1
        if not is_rolled_back(number):
            self.open.add(number)

    def see(self, message: StoredMessage, place: Place, who: str) -> int | None:
        """`who` got the message from there; its number, None if it is none of ours."""
        number = number_of(message.body)
        sent = self.sent.get(number) if number is not None else None
        if number is None or sent is None:
            self.report(f"{who} got at {place} what nobody sent: {message.body[:40]!r}, {len(message.body)} bytes")
            return None
        told = Place(message.topic, message.queue_id, message.queue_offset)
        if told != place or sent.topic != place.topic or message.properties.get("KEYS") != key_of(number):
            self.report(f"{who} got message {number} of {sent.topic} at {place}, and its record says {told}")
        if message.store_ms < sent.sent_ms + sent.delay_ms:
            early_ms = sent.sent_ms + sent.delay_ms - message.store_ms
            self.report(f"{who} got message {number} at {place}, {early_ms} ms early")
        if number in self.recalled:
            self.report(f"{who} got message {number} at {place}, though it was called back")
        if sent.topic == TRANSACTED and is_rolled_back(number):
            self.report(f"{who} got message {number} at {place}, which was rolled back")
        self._settle(place, number, f"seen by {who}")
        self.waiting.discard(number)
        self.open.discard(number)
        return number

    def _settle(self, place: Place, number: int, how: str) -> None:
        before = self.places.setdefault(place, number)
        if before != number:
            self.report(f"{place} had message {before}, and now message {number} is {how} there")
