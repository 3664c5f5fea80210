"""How a send goes on after each outcome of an attempt, one at a time."""

from __future__ import annotations

import itertools

import pytest

from rocketline.client.producer.attempts import SendAttempts, retry_rules
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.options import RETRY_CODES, ProducerOptions
from rocketline.client.producer.queue_choice import BrokerFaults
from rocketline.client.producer.receipts import SendReceipt, SendStatus
from rocketline.errors import (
    BrokerNotFoundError,
    CallTimeoutError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    ForkedError,
    RequestTimeoutError,
    ResponseError,
    RocketlineError,
    SendFailedError,
    response_error,
)
from rocketline.model.queue import MessageQueue

START_S = 1000.0


def attempts(
    mode: SendMode = SendMode.SYNC,
    *,
    is_queue_given: bool = False,
    timeout_s: float = 3.0,
    faults: BrokerFaults | None = None,
    options: ProducerOptions | None = None,
) -> SendAttempts:
    numbers = itertools.count()
    rules = retry_rules(options or ProducerOptions(), mode, is_queue_given=is_queue_given)
    return SendAttempts(
        rules, lambda last, now_s: MessageQueue("T", f"b{next(numbers)}", 0), START_S, timeout_s, faults
    )


def receipt(status: SendStatus = SendStatus.SEND_OK) -> SendReceipt:
    return SendReceipt(status, "id", "place", MessageQueue("T", "b0", 0), 0)


def fail(sending: SendAttempts, *errors: RocketlineError, now_s: float = START_S) -> None:
    for error in errors:
        assert sending.next(now_s) is not None
        sending.failed(error, now_s)


BUSY = response_error(2, "busy")
LOST = ConnectionLostError("b:1", "gone")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BUSY, 2),
        (ConnectError("b:1", "refused"), 10001),
        (RequestTimeoutError("b:1", "silent"), 10002),
        (BrokerNotFoundError("b"), 10003),
        (LOST, -1),
    ],
)
def test_code_is_that_of_the_last_attempt(error: RocketlineError, code: int) -> None:
    sending = attempts()
    fail(sending, LOST, BUSY, error)
    with pytest.raises(SendFailedError) as caught:
        sending.next(START_S + 1)
    assert (caught.value.code, len(caught.value.attempts), caught.value.elapsed_s) == (code, 3, 1)
    assert [broker for broker, _ in caught.value.attempts] == ["b0", "b1", "b2"]


@pytest.mark.parametrize("code", sorted(RETRY_CODES))
def test_refusals_that_another_broker_may_not_share_are_tried_again(code: int) -> None:
    sending = attempts()
    fail(sending, response_error(code, ""))
    assert sending.next(START_S) is not None


@pytest.mark.parametrize("code", [3, 13, 15, 29, 215])
def test_other_refusals_are_raised_at_once(code: int) -> None:
    sending = attempts()
    sending.next(START_S)
    with pytest.raises(ResponseError):
        sending.failed(response_error(code, ""), START_S)


def test_users_may_add_codes() -> None:
    sending = attempts(options=ProducerOptions(retry_codes=RETRY_CODES | {13}))
    fail(sending, response_error(13, ""))


@pytest.mark.parametrize("error", [ClosedError("closed"), ForkedError("it")])
def test_client_that_cannot_be_used_is_no_attempt(error: RocketlineError) -> None:
    sending = attempts()
    sending.next(START_S)
    with pytest.raises(type(error)):
        sending.failed(error, START_S)


def test_time_is_for_all_attempts() -> None:
    """C67: the second attempt gets what the first has left."""
    sending = attempts()
    sending.next(START_S)
    assert sending.timeout_s == pytest.approx(3.0)
    sending.failed(LOST, START_S + 1)
    sending.next(START_S + 1)
    assert (sending.timeout_s, sending.due_s) == pytest.approx((2.0, START_S + 3))
    silent = RequestTimeoutError("b:1", "silent")
    sending.failed(silent, START_S + 3)
    with pytest.raises(CallTimeoutError) as caught:
        sending.next(START_S + 3)
    assert (caught.value.timeout_s, caught.value.cause) == (3.0, silent)


def test_first_attempt_may_be_made_without_asking() -> None:
    """It counts, with its queue and its time."""
    sending = attempts(options=ProducerOptions(attempt_timeout_s=0.5))
    sending.begin_with(MessageQueue("T", "first", 3))
    assert (sending.timeout_s, sending.due_s) == pytest.approx((0.5, START_S + 0.5))
    sending.failed(LOST, START_S + 0.1)
    fail(sending, LOST, LOST)
    with pytest.raises(SendFailedError) as caught:
        sending.next(START_S + 0.2)
    assert [broker for broker, _ in caught.value.attempts] == ["first", "b0", "b1"]


def test_time_spent_before_the_first_attempt_counts() -> None:
    with pytest.raises(CallTimeoutError):
        attempts().next(START_S + 3)


def test_limit_for_one_attempt_does_not_bind_the_last() -> None:
    """C68."""
    sending = attempts(options=ProducerOptions(attempt_timeout_s=0.5))
    given = []
    for number in range(3):
        sending.next(START_S + number * 0.5)
        given.append(sending.timeout_s)
        sending.failed(RequestTimeoutError("b:1", "silent"), START_S + number * 0.5)
    assert given == pytest.approx([0.5, 0.5, 2.0])


def test_unsafe_receipt_is_all_there_is_when_nothing_better_comes() -> None:
    """C70."""
    sending = attempts(options=ProducerOptions(retries_unsafe=True))
    sending.next(START_S)
    assert not sending.answered(receipt(SendStatus.FLUSH_DISK_TIMEOUT), START_S)
    fail(sending, LOST, BUSY)
    assert sending.next(START_S) is None
    assert sending.receipt is not None


def test_unsafe_receipt_outlives_a_final_refusal_and_the_time() -> None:
    for now_s, error in ((START_S, response_error(13, "")), (START_S + 3, LOST)):
        sending = attempts(options=ProducerOptions(retries_unsafe=True))
        sending.next(START_S)
        sending.answered(receipt(SendStatus.SLAVE_NOT_AVAILABLE), START_S)
        sending.next(START_S)
        sending.failed(error, now_s)
        assert sending.next(now_s) is None


def test_given_queue_has_one_attempt_and_its_error() -> None:
    sending = attempts(is_queue_given=True)
    sending.next(START_S)
    with pytest.raises(ConnectionLostError):
        sending.failed(LOST, START_S)


def test_without_waiting_only_lost_connections_are_tried_again() -> None:
    """C74, C75."""
    for is_queue_given in (False, True):
        sending = attempts(SendMode.ASYNC, is_queue_given=is_queue_given)
        fail(sending, LOST, LOST)
        sending.next(START_S)
        with pytest.raises(ResponseError):
            sending.failed(BUSY, START_S)


class TestFaults:
    def faults_after(
        self, error: RocketlineError | None, latency_s: float = 0.0, *, probes: bool = False
    ) -> tuple[bool, bool]:
        """Whether the broker is available, and reachable, a second after an attempt."""
        faults = BrokerFaults()
        sending = attempts(faults=faults, options=ProducerOptions(probes_brokers=probes))
        sending.next(START_S)
        if error is None:
            sending.answered(receipt(), START_S + latency_s)
        else:
            sending.failed(error, START_S + latency_s)
        return faults.is_available("b0", START_S + latency_s + 1), faults.is_reachable("b0")

    def test_what_is_held_against_a_broker(self) -> None:
        assert self.faults_after(None) == (True, True)
        assert self.faults_after(None, 0.6) == (False, True)
        assert self.faults_after(BrokerNotFoundError("b0")) == (True, True)
        assert self.faults_after(LOST) == (False, True)
        assert self.faults_after(LOST, probes=True) == (False, False)
        assert self.faults_after(BUSY) == (False, False)
