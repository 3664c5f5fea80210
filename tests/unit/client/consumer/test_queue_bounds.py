from __future__ import annotations

from dataclasses import replace

import pytest

from rocketline.client.consumer.queue_bounds import QueueBounds, find_broker
from rocketline.errors import BrokerNotFoundError
from rocketline.model.queue import MessageQueue
from rocketline.model.route import TopicQueueMappingInfo
from rocketline.wire.headers import (
    BoundaryType,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from support.clients.runtime_double import ADDRESS, RuntimeDouble, a_route, queues

(QUEUE,) = queues(1)


async def test_bounds_are_asked_of_the_master() -> None:
    """C217."""
    double = RuntimeDouble()
    double.routes.apply("T", a_route(1))
    double.answer(GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader(offset=9))
    double.answer(GetMinOffsetRequestHeader, GetMinOffsetResponseHeader(offset=2))
    double.answer(SearchOffsetRequestHeader, SearchOffsetResponseHeader(offset=5))
    double.answer(GetEarliestMsgStoretimeRequestHeader, GetEarliestMsgStoretimeResponseHeader(timestamp=77))
    bounds = QueueBounds(double.runtime)
    assert (await bounds.max_offset(QUEUE), await bounds.min_offset(QUEUE)) == (9, 2)
    assert await bounds.search_offset(QUEUE, 1234) == 5
    assert await bounds.earliest_store_ms(QUEUE) == 77
    (searched,) = double.requests(SearchOffsetRequestHeader)
    assert (searched.timestamp, searched.boundary_type) == (1234, BoundaryType.LOWER)
    assert {address for address, _ in double.asked} == {ADDRESS}
    assert double.route_updates == []


async def test_unknown_broker_costs_one_route_query_and_then_an_error() -> None:
    """C217."""
    double = RuntimeDouble()
    with pytest.raises(BrokerNotFoundError, match="the newest route of 'T'"):
        await QueueBounds(double.runtime).max_offset(QUEUE)
    assert double.route_updates == ["T"]
    double.known_routes["T"] = a_route(1)
    assert await find_broker(double.runtime, QUEUE) == ADDRESS


async def test_queue_of_a_static_topic_is_looked_for_at_the_broker_that_has_it() -> None:
    double = RuntimeDouble()
    mapping = {"b": TopicQueueMappingInfo("T", "b", 1, curr_id_map={0: 0})}
    double.routes.apply("T", replace(a_route(1), topic_queue_mapping_by_broker=mapping))
    (logical,) = double.routes.queues_to_read("T")
    assert logical == MessageQueue("T", "__syslo__global__", 0)
    assert await find_broker(double.runtime, logical) == ADDRESS
