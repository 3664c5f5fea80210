from __future__ import annotations

from rocketline.client.rebalance.group_members import find_members
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.headers import GetConsumerListByGroupRequestHeader
from support.clients.runtime_double import RuntimeDouble, a_route


async def test_some_broker_of_the_topic_names_the_members() -> None:
    double = RuntimeDouble()
    double.routes.apply("T", a_route(1))
    double.answer(GetConsumerListByGroupRequestHeader, body=ConsumerList(["a", "b"]))
    assert await find_members(double.runtime, "T", "g") == ["a", "b"]
    assert [one.consumer_group for one in double.requests(GetConsumerListByGroupRequestHeader)] == ["g"]


async def test_route_is_asked_for_once_if_no_broker_is_known() -> None:
    double = RuntimeDouble()
    assert await find_members(double.runtime, "T", "g") is None
    assert double.route_updates == ["T"]
    double.known_routes["T"] = a_route(1)
    double.answer(GetConsumerListByGroupRequestHeader, body=ConsumerList(["a"]))
    assert await find_members(double.runtime, "T", "g") == ["a"]


async def test_broker_that_refuses_or_answers_nonsense_leaves_the_members_unknown() -> None:
    double = RuntimeDouble()
    double.routes.apply("T", a_route(1))
    double.answer(GetConsumerListByGroupRequestHeader, code=1)
    assert await find_members(double.runtime, "T", "g") is None
    double.answer(GetConsumerListByGroupRequestHeader, body=b"{")
    assert await find_members(double.runtime, "T", "g") is None
    double.answer(GetConsumerListByGroupRequestHeader)
    assert await find_members(double.runtime, "T", "g") is None
