"""The crash test's own memory: it must object to whatever a broker may get wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crash import requests
from crash.ledger import PLAIN, TIMED, TRANSACTED, Ledger, Place, Sent, body_of, number_of
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage

HOST = HostAddress.parse("127.0.0.1:10911")
PLACE = Place(PLAIN, 1, 5)


def stored(number: int, place: Place = PLACE, store_ms: int = 10_000) -> StoredMessage:
    properties = requests.message_of(number, place.topic).properties
    places = place.queue_id, QueueOffset(place.offset), LogOffset(0)
    return StoredMessage(place.topic, body_of(number), properties, 0, *places, 0, 0, HOST, store_ms, HOST)


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    for number in (7, 8):
        ledger.send(number, Sent(PLAIN, 10_000))
    return ledger


@pytest.mark.parametrize("number", [1, 60, 61, 2**32 - 1])
def test_body_tells_its_number_and_no_part_or_mixture_does(number: int) -> None:
    body = body_of(number)
    assert number_of(body) == number
    assert number_of(body[:-1]) is None
    assert number_of(body + body[:1]) is None
    assert number_of(body[:-1] + b"x") is None
    assert number_of(b"") is None


def test_message_where_it_was_acknowledged_and_seen_again_is_no_problem(ledger: Ledger) -> None:
    ledger.acknowledge(7, PLACE, 100)
    assert ledger.see(stored(7), PLACE, "A") == ledger.see(stored(7), PLACE, "B") == 7
    assert not ledger.problems


def test_transaction_that_was_rolled_back_and_is_seen_is_a_problem(ledger: Ledger) -> None:
    committed, rolled_back = 10, 12
    for number in (committed, rolled_back):
        ledger.send(number, Sent(TRANSACTED, 10_000))
        ledger.begin_transaction(number)
    assert ledger.open == {committed}
    ledger.see(stored(committed, Place(TRANSACTED, 0, 0)), Place(TRANSACTED, 0, 0), "the test")
    assert not ledger.open
    assert not ledger.problems
    ledger.see(stored(rolled_back, Place(TRANSACTED, 0, 1)), Place(TRANSACTED, 0, 1), "the test")
    assert "which was rolled back" in ledger.problems[0]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (stored(9), "what nobody sent"),
        (replace(stored(7), body=body_of(7)[:-9]), "what nobody sent"),
        (stored(8), "had message 7, and now message 8"),
        (stored(7, store_ms=9_999), "1 ms early"),
        (stored(7, PLACE._replace(offset=6)), "its record says"),
        (replace(stored(7), properties={}), "its record says"),
    ],
)
def test_anything_else_in_its_place_is_a_problem(ledger: Ledger, message: StoredMessage, problem: str) -> None:
    ledger.acknowledge(7, PLACE, 100)
    ledger.see(message, PLACE, "A")
    assert problem in ledger.problems[0]


def test_delayed_message_waits_until_somebody_sees_it_in_time(ledger: Ledger) -> None:
    ledger.send(10, Sent(PLAIN, 10_000, delay_ms=1_000))
    ledger.acknowledge(10, Place(PLAIN, 0, 99), 100)
    assert ledger.waiting == {10}
    ledger.see(stored(10, store_ms=11_000), PLACE, "A")
    assert not ledger.waiting
    assert not ledger.problems


def test_message_that_was_called_back_is_not_waited_for_and_must_not_come(ledger: Ledger) -> None:
    """Unless the broker said no; nobody knows what became of a question without an answer."""
    for number in (11, 12, 13):
        ledger.send(number, Sent(TIMED, 10_000, 2000))
        ledger.acknowledge(number, Place(TIMED, 0, number), None)
    for number, code in ((11, 0), (12, None), (13, 604)):
        ledger.recall(number, code)
    assert ledger.waiting == {13}
    for at, number in enumerate((13, 12, 11)):
        assert not ledger.problems
        ledger.see(stored(number, Place(TIMED, 0, at), store_ms=12_000), Place(TIMED, 0, at), "a test")
    assert len(ledger.problems) == 1
    assert "message 11 " in ledger.problems[0]
    assert "called back" in ledger.problems[0]
