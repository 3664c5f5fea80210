"""How often, where and how long a message is tried: the rules of sending, without a socket.

Java: DefaultMQProducerImpl.sendDefaultImpl for callers that wait, MQClientAPIImpl.onExceptionImpl for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.options import ProducerOptions
from rocketline.client.producer.queue_choice import BrokerFaults
from rocketline.client.producer.receipts import SendReceipt, SendStatus
from rocketline.errors import (
    CallTimeoutError,
    ClientError,
    ConnectError,
    RequestTimeoutError,
    ResponseError,
    SendFailedError,
    TransportError,
)
from rocketline.model.queue import MessageQueue

CONNECT_FAILED: Final = 10001
TIMED_OUT: Final = 10002
FAILED_HERE: Final = 10003
_SEND_OK: Final = SendStatus.SEND_OK


@dataclass(frozen=True, slots=True)
class RetryRules:
    """What counts as another chance."""

    attempts_max: int
    attempt_timeout_s: float | None = None
    codes: frozenset[int] = frozenset()
    """Refusals that another broker may not share."""
    retries_unsafe: bool = False
    wraps: bool = True
    """Give up with `SendFailedError`; otherwise with the very error of the one attempt."""
    probes_brokers: bool = False
    """Failed brokers are asked whether they are back, so until then they count as not reachable."""


def retry_rules(options: ProducerOptions, mode: SendMode, *, is_queue_given: bool) -> RetryRules:
    """The rules for a caller that waits, or does not. A given queue is the only one tried; once, if it waits."""
    if mode is SendMode.ASYNC:
        return RetryRules(1 + options.async_retries, probes_brokers=options.probes_brokers)
    if is_queue_given:
        return RetryRules(1, wraps=False, probes_brokers=options.probes_brokers)
    return RetryRules(
        1 + options.retries,
        options.attempt_timeout_s,
        options.retry_codes,
        options.retries_unsafe,
        probes_brokers=options.probes_brokers,
    )


class SendAttempts:
    """One message on its way. Whoever drives it asks for the `next` attempt and tells what became of it.

        while (queue := attempts.next(now)) is not None:
            ... attempts.answered(receipt, now) or attempts.failed(error, now) ...

    `choose` gives a queue, of another broker than the one named if there is any.
    """

    __slots__ = (
        "_attempt_s",
        "_choose",
        "_deadline_s",
        "_errors",
        "_faults",
        "_made",
        "_queue",
        "_rules",
        "_started_s",
        "due_s",
        "receipt",
        "timeout_s",
    )

    def __init__(
        self,
        rules: RetryRules,
        choose: Callable[[str | None, float], MessageQueue],
        started_s: float,
        timeout_s: float,
        faults: BrokerFaults | None = None,
    ) -> None:
        self._rules, self._choose, self._faults = rules, choose, faults
        self._deadline_s = started_s + timeout_s
        self._started_s = started_s
        self._attempt_s = started_s
        self._made = 0
        self._queue: MessageQueue | None = None
        self._errors: list[tuple[str, Exception]] = []
        self.timeout_s = timeout_s
        """How much time the attempt under way was given."""
        self.due_s = started_s
        """When that is over."""
        self.receipt: SendReceipt | None = None
        """The last one that came, which may be for a message that is not safe yet."""

    def next(self, now_s: float) -> MessageQueue | None:
        """The queue to try now, for `timeout_s`; None if `receipt` is all there will be.

        Raises `CallTimeoutError` if the time is over and `SendFailedError` if all attempts were made.
        """
        rules = self._rules
        left_s = self._deadline_s - now_s
        if self._made == rules.attempts_max or left_s <= 0:
            if self.receipt is None:
                raise self._failure(now_s)
            return None
        last = self._queue
        self._queue = queue = self._choose(None if last is None else last.broker_name, now_s)
        self._begin(now_s, left_s)
        return queue

    def begin_with(self, queue: MessageQueue) -> None:
        """The first attempt goes, or went, to `queue` at the very start."""
        self._queue = queue
        self._begin(self._started_s, self._deadline_s - self._started_s)

    def _begin(self, now_s: float, left_s: float) -> None:
        rules = self._rules
        self._made += 1
        if rules.attempt_timeout_s is not None and self._made < rules.attempts_max:
            left_s = min(left_s, rules.attempt_timeout_s)
        self._attempt_s, self.timeout_s, self.due_s = now_s, left_s, now_s + left_s

    def answered(self, receipt: SendReceipt, now_s: float) -> bool:
        """A receipt came. True: it is the last word; otherwise another attempt may bring a better one."""
        self.receipt = receipt
        if self._faults is not None:
            self._faults.note(self._broker, now_s - self._attempt_s, now_s)
        return receipt.status is _SEND_OK or not self._rules.retries_unsafe

    def failed(self, error: Exception, now_s: float) -> None:
        """The attempt brought no receipt. Returns if another one may help; raises `error` otherwise."""
        rules = self._rules
        is_refused = isinstance(error, ResponseError)
        if self._faults is not None:
            is_lost = isinstance(error, TransportError)
            is_reachable = not is_refused and not (is_lost and rules.probes_brokers)
            self._faults.note(
                self._broker,
                now_s - self._attempt_s,
                now_s,
                is_failed=is_refused or is_lost,
                is_reachable=is_reachable,
            )
        is_final = error.code not in rules.codes if isinstance(error, ResponseError) else not _is_curable(error)
        if is_final and self.receipt is not None:
            self._made = rules.attempts_max
        elif is_final or not rules.wraps:
            raise error
        else:
            self._errors.append((self._broker, error))

    @property
    def _broker(self) -> str:
        assert self._queue is not None, "an outcome belongs to an attempt"
        return self._queue.broker_name

    def _failure(self, now_s: float) -> ClientError:
        last = self._errors[-1][1] if self._errors else None
        topic = self._queue.topic if self._queue is not None else ""
        if self._made < self._rules.attempts_max:
            what = f"sending to topic {topic!r}" if topic else "sending"
            return CallTimeoutError(what, round(self._deadline_s - self._started_s, 3), last)
        return SendFailedError(topic, _code(last), self._errors, now_s - self._started_s)


def _is_curable(error: Exception) -> bool:
    """Another broker may do better; but not if the client is used where it cannot be, which are the RuntimeErrors."""
    return isinstance(error, TransportError | ClientError) and not isinstance(error, RuntimeError)


def _code(error: Exception | None) -> int:
    """Java's number for what the last attempt died of."""
    match error:
        case ResponseError():
            return error.code
        case ConnectError():
            return CONNECT_FAILED
        case RequestTimeoutError():
            return TIMED_OUT
        case ClientError():
            return FAILED_HERE
    return -1
