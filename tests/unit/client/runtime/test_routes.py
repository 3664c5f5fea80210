from __future__ import annotations

import pytest

from rocketline.client.runtime.routes import NO_BROKER, ClientRoutes, limit_queues, static_endpoints
from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.model.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData


def broker(name: str, **addresses: str) -> BrokerData:
    return BrokerData("c", name, {int(broker_id[2:]): address for broker_id, address in addresses.items()})


def route(*brokers: BrokerData, queues: int = 1, perm: int = 6, order: str | None = None) -> TopicRouteData:
    datas = [QueueData(entry.broker_name, queues, queues, perm) for entry in brokers]
    return TopicRouteData(datas, list(brokers), order_topic_conf=order)


def test_queues_come_in_the_order_of_broker_names() -> None:
    table = ClientRoutes()
    assert table.apply("T", route(broker("z", id0="z:1"), broker("a", id0="a:1"), queues=2))
    info = table.publish_info("T")
    assert info is not None
    assert [(queue.broker_name, queue.queue_id) for queue in info.queues] == [("a", 0), ("a", 1), ("z", 0), ("z", 1)]


def test_unknown_topic_has_nothing() -> None:
    table = ClientRoutes()
    assert table.publish_info("T") is None
    assert table.route("T") is None
    assert table.queues_to_read("T") == ()
    assert table.any_address("T") is None
    assert table.master("b") is None
    assert table.address_for_pull("b", 0) is None
    assert table.broker_version("b:1") == 0


@pytest.mark.parametrize(
    ("broker_id", "only_this", "expected"),
    [
        (0, False, ("m:1", False)),
        (2, False, ("s2:1", True)),
        (1, False, ("s2:1", True)),  # the next one
        (1, True, ("s2:1", True)),
        (5, False, ("m:1", False)),  # any
        (5, True, None),
    ],
)
def test_address_for_pull_is_the_one_asked_for_the_next_or_any(
    broker_id: int, only_this: bool, expected: tuple[str, bool] | None
) -> None:
    table = ClientRoutes()
    table.apply("T", route(broker("b", id0="m:1", id2="s2:1")))
    assert table.address_for_pull("b", broker_id, only_this=only_this) == expected


def test_slave_alone_serves_pulls_and_questions() -> None:
    table = ClientRoutes()
    table.apply("T", route(broker("b", id1="s:1")))
    assert table.address_for_pull("b", 0) == ("s:1", True)
    assert table.any_address("T") == "s:1"


def test_any_address_prefers_masters_and_reaches_every_broker() -> None:
    table = ClientRoutes()
    table.apply("T", route(broker("a", id0="a:1", id1="as:1"), broker("b", id0="b:1")))
    assert {table.any_address("T") for _ in range(200)} == {"a:1", "b:1"}


def test_offline_addresses_are_forgotten_with_their_release() -> None:
    table = ClientRoutes()
    table.apply("T", route(broker("a", id0="a:1", id1="as:1"), broker("b", id0="b:1")))
    table.apply("S", route(broker("b", id0="b:1")))
    table.learn_version("b:1", 513)
    assert table.clean_offline() == set()
    table.apply("T", route(broker("a", id0="a:1")))
    assert table.clean_offline() == set()  # the slave left with the old route, and b lives on in the route of S
    assert table.brokers() == {"a": {0: "a:1"}, "b": {0: "b:1"}}
    table.apply("S", route(broker("a", id0="a:1")))
    assert table.clean_offline() == {"b:1"}
    assert table.broker_version("b:1") == 0
    assert not table.is_known("b:1")


def test_broken_order_configuration_changes_nothing() -> None:
    table = ClientRoutes()
    table.apply("T", route(broker("a", id0="a:1")))
    with pytest.raises(RemoteProtocolError, match="order configuration 'a:x'"):
        table.apply("T", route(broker("a", id0="a:1"), order="a:x"))
    info = table.publish_info("T")
    assert info is not None
    assert not info.is_order_topic


def test_queues_of_a_topic_to_be_made_are_limited() -> None:
    limited = limit_queues(route(broker("a", id0="a:1"), queues=8), 4)
    assert [(data.read_queue_nums, data.write_queue_nums) for data in limited.queue_datas] == [(4, 4)]
    limited = limit_queues(route(broker("a", id0="a:1"), queues=2), 4)
    assert [(data.read_queue_nums, data.write_queue_nums) for data in limited.queue_datas] == [(2, 2)]


def test_static_topic_has_logical_queues_at_their_newest_owner() -> None:
    """C39."""
    mappings = {
        "a": TopicQueueMappingInfo("T", "a", 3, epoch=1, curr_id_map={0: 0, 1: 1}),
        "b": TopicQueueMappingInfo("T", "b", 4, epoch=2, curr_id_map={1: 0}),
    }
    endpoints = static_endpoints("T", mappings)
    owners = {queue.queue_id: name for queue, name in endpoints.items()}
    assert owners == {0: "a", 1: "b", 2: NO_BROKER, 3: NO_BROKER}
    table = ClientRoutes()
    table.apply("T", TopicRouteData([], [broker("a", id0="a:1")], topic_queue_mapping_by_broker=mappings))
    info = table.publish_info("T")
    assert info is not None
    assert [queue.queue_id for queue in info.queues] == [0, 1, 2, 3]
    assert [table.broker_of(queue) for queue in info.queues] == ["a", "b", NO_BROKER, NO_BROKER]
    assert set(table.queues_to_read("T")) == set(info.queues)
    assert table.broker_of(MessageQueue("S", "a", 0)) == "a"
