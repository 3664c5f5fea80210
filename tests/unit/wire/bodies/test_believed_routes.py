"""What is believed of a route that a stranger had a part in."""

from __future__ import annotations

import pytest

from rocketline.errors import RouteRefusedError
from rocketline.model.queue import QUEUES_MAX
from rocketline.model.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData
from rocketline.wire.bodies import encode_route
from rocketline.wire.bodies.believed_routes import (
    ADDRESSES_MAX,
    BROKERS_MAX,
    ROUTE_BYTES_MAX,
    ROUTE_QUEUES_MAX,
    believed,
    decode_route,
)

HONEST = QueueData("honest", 8, 8, 6)


def broker(name: str, addresses: int = 1) -> BrokerData:
    return BrokerData("c", name, {number: f"127.0.0.1:{1000 + number}" for number in range(addresses)})


def route_with(*offers: QueueData, brokers: list[BrokerData] | None = None) -> TopicRouteData:
    return TopicRouteData(list(offers), brokers or [broker(offer.broker_name) for offer in offers])


def test_route_within_the_bounds_is_as_it_is() -> None:
    route = route_with(HONEST, QueueData("other", QUEUES_MAX, 0, 6))
    assert believed("T", route) == (route, ())


@pytest.mark.parametrize("count", [QUEUES_MAX + 1, 2**31 - 1, -1])
def test_broker_that_says_impossible_numbers_of_queues_is_left_out(count: int) -> None:
    for liar in (QueueData("liar", count, 4, 6), QueueData("liar", 4, count, 6)):
        route, doubts = believed("T", route_with(liar, HONEST))
        assert route.queue_datas == [HONEST]
        assert doubts == (f"broker 'liar' says {count} queues, and 0 to {QUEUES_MAX} are believed",)


def test_queues_of_all_brokers_together_have_a_bound_and_the_largest_go_first() -> None:
    liars = [QueueData(f"a-{number}", QUEUES_MAX, QUEUES_MAX, 6) for number in range(5)]
    route, doubts = believed("T", route_with(*liars, HONEST))
    assert HONEST in route.queue_datas
    assert sum(offer.write_queue_nums for offer in route.queue_datas) <= ROUTE_QUEUES_MAX
    assert len(doubts) == 2
    assert "a-4" in doubts[-1]


def test_broker_that_is_named_twice_counts_once() -> None:
    route, doubts = believed("T", route_with(HONEST, QueueData("honest", 9, 9, 6)))
    assert (route.queue_datas, len(route.broker_datas)) == ([HONEST], 1)
    assert len(doubts) == 2


def test_broker_with_too_many_addresses_is_left_out() -> None:
    liar = broker("liar", ADDRESSES_MAX + 1)
    route, doubts = believed("T", route_with(HONEST, QueueData("liar", 1, 1, 6), brokers=[broker("honest"), liar]))
    assert [data.broker_name for data in route.broker_datas] == ["honest"]
    assert str(ADDRESSES_MAX + 1) in doubts[0]


@pytest.mark.parametrize(
    "mapping",
    [
        TopicQueueMappingInfo("T", "liar", 2**31 - 1),
        TopicQueueMappingInfo("T", "liar", 2, curr_id_map={-1: 0}),
        TopicQueueMappingInfo("T", "liar", 2, curr_id_map={2**31 - 1: 0}),
    ],
)
def test_impossible_static_queues_are_left_out(mapping: TopicQueueMappingInfo) -> None:
    honest = TopicQueueMappingInfo("T", "honest", 1, curr_id_map={0: 0})
    said = TopicRouteData([HONEST], [broker("honest")], topic_queue_mapping_by_broker={"h": honest, "l": mapping})
    assert believed("T", said).route.topic_queue_mapping_by_broker == {"h": honest}


def test_static_queues_of_all_scopes_have_a_bound() -> None:
    scopes = {str(number): TopicQueueMappingInfo("T", "b", ROUTE_QUEUES_MAX, 0, str(number)) for number in range(2)}
    with pytest.raises(RouteRefusedError, match="static queues"):
        believed("T", TopicRouteData([HONEST], [broker("honest")], topic_queue_mapping_by_broker=scopes))


def test_route_of_too_many_brokers_is_refused() -> None:
    with pytest.raises(RouteRefusedError, match=f"names {BROKERS_MAX + 1} brokers"):
        believed("T", route_with(*(QueueData(f"b{number}", 1, 1, 6) for number in range(BROKERS_MAX + 1))))


def test_route_that_nothing_is_left_of_is_refused_with_the_reason() -> None:
    with pytest.raises(RouteRefusedError, match="'T' is not believed: broker 'liar' says 2147483647 queues") as refused:
        believed("T", route_with(QueueData("liar", 2**31 - 1, 1, 6)))
    assert refused.value.topic == "T"


def test_long_answer_is_refused_before_it_is_read() -> None:
    with pytest.raises(RouteRefusedError, match="bytes"):
        decode_route("T", b"{" + b" " * ROUTE_BYTES_MAX)


def test_what_is_left_out_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    data = encode_route(route_with(HONEST, QueueData("liar", 2**31 - 1, 1, 6)), strict=True)
    assert decode_route("orders", data).queue_datas == [HONEST]
    (line,) = caplog.messages
    assert "orders" in line
    assert "liar" in line
    assert "2147483647" in line


@pytest.mark.parametrize("totals", [(ROUTE_QUEUES_MAX, 1), (1, ROUTE_QUEUES_MAX)])
def test_of_two_mappings_of_a_scope_the_larger_counts(totals: tuple[int, int]) -> None:
    """As it does for whoever makes queues of them."""
    mappings = {str(n): TopicQueueMappingInfo("T", str(n), total) for n, total in enumerate(totals)}
    mappings["other"] = TopicQueueMappingInfo("T", "other", 1, scope="another")
    with pytest.raises(RouteRefusedError, match=f"{ROUTE_QUEUES_MAX + 1} static queues"):
        believed("T", TopicRouteData([HONEST], [broker("honest")], topic_queue_mapping_by_broker=mappings))
