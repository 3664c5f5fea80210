from __future__ import annotations

import random

import pytest

from rocketline.client.runtime.name_servers import NameServerChoice, parse_discovery
from rocketline.errors import ConnectError

ADDRESSES = ("a:1", "b:1", "c:1")


def test_chosen_one_comes_first_until_it_fails() -> None:
    choice = NameServerChoice(ADDRESSES, random.Random(1))
    first, second, third = choice.order()
    choice.works(second)
    assert choice.order() == [second, third, first]
    choice.failed(second)
    assert choice.order() == [third, first, second]
    choice.failed(third)
    assert choice.order() == [first, second, third]


def test_clients_spread_over_the_servers() -> None:
    assert {NameServerChoice(ADDRESSES, random.Random(seed)).order()[0] for seed in range(50)} == set(ADDRESSES)


def test_same_list_in_another_order_changes_nothing() -> None:
    choice = NameServerChoice(ADDRESSES)
    choice.works("b:1")
    before = choice.addresses
    assert choice.replace(("c:1", "b:1", "a:1")) == set()
    assert (choice.addresses, choice.chosen) == (before, "b:1")


def test_new_list_keeps_a_chosen_one_that_is_still_in_it() -> None:
    choice = NameServerChoice(ADDRESSES)
    choice.works("b:1")
    assert choice.replace(("b:1", "d:1")) == {"a:1", "c:1"}
    assert choice.order()[0] == "b:1"
    assert choice.replace(("d:1",)) == {"b:1"}
    assert choice.order() == ["d:1"]
    assert choice.replace(()) == {"d:1"}
    assert choice.order() == []


def test_shorter_list_is_walked_from_a_place_that_exists() -> None:
    choice = NameServerChoice(ADDRESSES)
    for address in choice.order()[:2]:
        choice.failed(address)
    choice.replace(("x:1",))
    assert choice.order() == ["x:1"]


def test_address_that_is_no_longer_listed_cannot_be_chosen() -> None:
    choice = NameServerChoice(ADDRESSES)
    choice.replace(("x:1",))
    choice.works("a:1")
    choice.failed("a:1")
    assert choice.order() == ["x:1"]


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"HTTP/1.1 404 Not Found\r\n\r\na:1"])
def test_discovery_that_is_no_success_is_an_error(answer: bytes) -> None:
    with pytest.raises(ConnectError, match="http://d: answered"):
        parse_discovery("http://d", answer)


def test_discovery_without_addresses_finds_none() -> None:
    assert parse_discovery("http://d", b"HTTP/1.0 200 OK\r\n\r\n\n") == ()
