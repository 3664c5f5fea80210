"""The administrator meets brokers that fail, lie or are not known yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from rocketline.admin.aio import Admin
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import (
    BrokerNotFoundError,
    ClientError,
    InvalidNameError,
    NoMessageError,
    ResponseError,
    RocketlineError,
    TopicNotFoundError,
)
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.queue import MessageQueue
from rocketline.model.route import BrokerData, QueueData, TopicRouteData
from rocketline.model.topic_config import DataVersion
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_broker import Received
from rocketline.testing.scripted_peer import ScriptedPeer
from rocketline.wire.bodies import encode_route
from rocketline.wire.bodies.connections import ClientConnection, ConsumerConnection
from rocketline.wire.bodies.groups import SubscriptionGroupTable
from rocketline.wire.bodies.lists import KVTable
from rocketline.wire.bodies.offsets import ResetOffsetBody
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.bodies.running import CMResult, ConsumeMessageDirectlyResult
from rocketline.wire.bodies.stats import (
    ConsumeStats,
    ConsumeTimeSpans,
    OffsetWrapper,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import (
    GetAllSubscriptionGroupResponseHeader,
    GetEarliestMsgStoretimeResponseHeader,
    QueryMessageResponseHeader,
)
from rocketline.wire.message_codec import encode_record

CLUSTER = "scripted"
FOUND = QueryMessageResponseHeader(index_last_update_timestamp=0, index_last_update_phyoffset=0)
UNIQUE_ID = "7F00000100002A9F18B4AAC200000001"


class Scene:
    """A name server, two brokers that it knows, a topic on both, and an administrator."""

    def __init__(self, name_server: ScriptedPeer, a: ScriptedPeer, b: ScriptedPeer, admin: Admin) -> None:
        self.name_server, self.a, self.b, self.admin = name_server, a, b, admin


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(ScriptedPeer())
        a = await stack.enter_async_context(ScriptedPeer(broker_name="a"))
        b = await stack.enter_async_context(ScriptedPeer(broker_name="b"))
        info = ClusterInfo(
            {name: BrokerData(CLUSTER, name, {0: peer.address}) for name, peer in (("b", b), ("a", a))},
            {CLUSTER: ["b", "a"]},
        )
        name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO).reply(body=info)
        name_server.route("orders", {"a": a, "b": b}, queues=2)
        admin = await stack.enter_async_context(Admin(name_server.address))
        yield Scene(name_server, a, b, admin)


def stored(peer: ScriptedPeer, topic: str = "orders", **properties: str) -> bytes:
    """The record of a message on a peer."""
    host = HostAddress.parse(peer.address)
    return encode_record(
        StoredMessage(topic, b"tea", properties, 0, 1, QueueOffset(7), LogOffset(4200), 0, 1, host, 2, host)
    )


# --- topics


async def test_create_topic_when_one_master_fails_five_times_succeeds_on_the_other(scene: Scene) -> None:
    """C216: five tries on the broker that fails, and the call succeeds."""
    scene.a.on(RequestCode.UPDATE_AND_CREATE_TOPIC).reply(code=1, remark="disk on fire")
    scene.b.on(RequestCode.UPDATE_AND_CREATE_TOPIC).reply()

    outcome = await scene.admin.topics.create("orders", queue_count=3, attributes={"message.type": "FIFO"})

    assert [broker.name for broker in outcome.done] == ["b"]
    ((failed, error),) = outcome.failed.items()
    assert (failed.name, str(error)) == (
        "a",
        f"UPDATE_AND_CREATE_TOPIC at {scene.a.address}: code 1: disk on fire (the broker's log says more)",
    )
    assert len(scene.a.requests(RequestCode.UPDATE_AND_CREATE_TOPIC)) == 5
    (request,) = scene.b.requests(RequestCode.UPDATE_AND_CREATE_TOPIC)
    header = request.header
    assert (header.topic, header.default_topic, header.perm) == ("orders", "TBW102", 6)
    assert (header.read_queue_nums, header.write_queue_nums, header.topic_filter_type) == (3, 3, "SINGLE_TAG")
    assert header.attributes == "+message.type=FIFO"


async def test_create_topic_when_a_try_succeeds_is_not_tried_again(scene: Scene) -> None:
    scene.a.on(RequestCode.UPDATE_AND_CREATE_TOPIC).reply(code=2, times=4).reply()
    scene.b.on(RequestCode.UPDATE_AND_CREATE_TOPIC).reply()

    outcome = await scene.admin.topics.create("orders")

    assert [broker.name for broker in outcome.done] == ["a", "b"]
    assert len(scene.a.requests(RequestCode.UPDATE_AND_CREATE_TOPIC)) == 5
    assert len(scene.b.requests(RequestCode.UPDATE_AND_CREATE_TOPIC)) == 1


async def test_create_topic_returns_when_the_name_server_tells_clients_of_it(scene: Scene) -> None:
    for peer in (scene.a, scene.b):
        peer.on(RequestCode.UPDATE_AND_CREATE_TOPIC).reply()
    asked = scene.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    asked.reply(code=ResponseCode.TOPIC_NOT_EXIST).call(told_of("a")).default()
    scene.name_server.route("made", {"a": scene.a, "b": scene.b})

    await scene.admin.topics.create("made")

    assert len(scene.name_server.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 3


def told_of(broker: str) -> Callable[[Received], Command]:
    """A route with this broker only."""
    route = TopicRouteData([QueueData(broker, 8, 8, 6)], [BrokerData(CLUSTER, broker, {0: "127.0.0.1:1"})])
    return lambda received: response(0, body=encode_route(route, strict=True))


async def test_create_topic_when_all_masters_fail_raises(scene: Scene) -> None:
    """C216: both fail, the call raises."""
    for peer in (scene.a, scene.b):
        peer.on(RequestCode.UPDATE_AND_CREATE_TOPIC).reply(code=1, remark="no")

    with pytest.raises(ResponseError) as raised:
        await scene.admin.topics.create("orders")

    assert raised.value.code == 1
    assert len(scene.a.requests(RequestCode.UPDATE_AND_CREATE_TOPIC)) == 5
    assert len(scene.b.requests(RequestCode.UPDATE_AND_CREATE_TOPIC)) == 5


@pytest.mark.parametrize("name", ["", "TBW102", "a b", "x" * 128])
async def test_create_topic_with_a_name_that_no_broker_takes_asks_nobody(scene: Scene, name: str) -> None:
    with pytest.raises(InvalidNameError):
        await scene.admin.topics.create(name)
    assert scene.name_server.received == []


async def test_create_ordered_topic_tells_all_name_servers_and_keeps_what_they_know_of_other_brokers(
    scene: Scene,
) -> None:
    scene.a.on(RequestCode.UPDATE_AND_CREATE_TOPIC).reply()
    scene.name_server.on(RequestCode.GET_KV_CONFIG).reply({"value": "a:9;gone:2"})
    scene.name_server.on(RequestCode.PUT_KV_CONFIG).reply()

    await scene.admin.topics.create("orders", queue_count=4, is_ordered=True, broker="a")

    (put,) = scene.name_server.requests(RequestCode.PUT_KV_CONFIG)
    assert put.ext == {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "a:4;gone:2"}
    assert scene.b.received == []


async def test_unknown_broker_is_told_with_those_that_there_are(scene: Scene) -> None:
    with pytest.raises(BrokerNotFoundError, match=r"'c'.*clusters scripted have the brokers a, b"):
        await scene.admin.topics.create("orders", broker="c")


# --- offsets


async def test_question_about_a_queue_goes_to_its_master_after_exactly_one_route_query(scene: Scene) -> None:
    """C217: requests 30, 31, 29, 32 go to the queue's master, and an unknown broker costs one route query."""
    earliest = GetEarliestMsgStoretimeResponseHeader(timestamp=-1)
    scene.b.on(RequestCode.GET_EARLIEST_MSG_STORETIME).reply(earliest)
    scene.b.broker.put("orders", b"1", b"2", queue_id=1)
    queue = MessageQueue("orders", "b", 1)
    offsets = scene.admin.offsets

    assert await offsets.max(queue) == 2
    assert await offsets.min(queue) == 0
    assert await offsets.at_time(queue, 1_700_000_000_000) == 0
    assert await offsets.earliest_store_ms(queue) is None

    asked = [request.code for request in scene.b.received]
    assert asked == [30, 31, 29, 32]
    assert scene.b.received[2].header.timestamp == 1_700_000_000_000
    assert scene.a.received == []
    assert len(scene.name_server.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1


async def test_question_about_a_broker_that_no_route_names_costs_one_query_and_raises(scene: Scene) -> None:
    """C217: one route query, then an error that names the broker."""
    with pytest.raises(BrokerNotFoundError, match=r"'c'.*route of topic orders"):
        await scene.admin.offsets.max(MessageQueue("orders", "c", 0))
    assert len(scene.name_server.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1


async def test_question_about_an_unknown_topic_names_it(scene: Scene) -> None:
    with pytest.raises(TopicNotFoundError, match="'nothing' has no route"):
        await scene.admin.topics.status("nothing")


async def test_reset_of_an_offline_group_that_the_broker_leaves_to_clients_is_written_as_offsets(scene: Scene) -> None:
    """As mqadmin does, when a broker of useServerSideResetOffset=false says that nobody is online."""
    for name, peer in (("a", scene.a), ("b", scene.b)):
        peer.on(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET).reply(code=ResponseCode.CONSUMER_NOT_ONLINE)
        table = {MessageQueue("orders", name, number): TopicOffset(3, 10 + number) for number in range(2)}
        peer.on(RequestCode.GET_TOPIC_STATS_INFO).reply(body=TopicStatsTable(table))

    made = await scene.admin.offsets.reset_to_end("billing", "orders")

    assert [(queue.broker_name, queue.queue_id, offset) for queue, offset in made.items()] == [
        ("a", 0, 10), ("a", 1, 11), ("b", 0, 10), ("b", 1, 11),
    ]  # fmt: skip
    assert scene.a.broker.offsets == {("billing", "orders", 0): 10, ("billing", "orders", 1): 11}
    (reset,) = scene.a.requests(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
    assert (reset.header.timestamp, reset.header.is_force) == (-1, True)


async def test_reset_to_an_offset_that_the_broker_did_not_take_is_an_error(scene: Scene) -> None:
    """A broker that leaves resets to its clients answers with the offset of the time 0, wherever it was sent."""
    queue = MessageQueue("orders", "a", 1)
    scene.a.on(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET).reply(body=ResetOffsetBody({queue: 0}))

    with pytest.raises(ClientError, match=r"reset to 0, not to 5.*useServerSideResetOffset"):
        await scene.admin.offsets.reset_to_offset("billing", queue, 5)


async def test_lag_adds_up_all_brokers_with_the_time_that_each_tells(scene: Scene) -> None:
    for name, peer in (("a", scene.a), ("b", scene.b)):
        queue = MessageQueue("orders", name, 0)
        stats = ConsumeStats({queue: OffsetWrapper(10, 4, 7, 1_700_000_000_000)}, 1.5)
        peer.on(RequestCode.GET_CONSUME_STATS).reply(body=stats)
    spans = ConsumeTimeSpans([QueueTimeSpan(MessageQueue("orders", "a", 0), delay_time=2500)])
    scene.a.on(RequestCode.QUERY_CONSUME_TIME_SPAN).reply(body=spans)
    scene.b.on(RequestCode.QUERY_CONSUME_TIME_SPAN).reply(code=1)

    lag = await scene.admin.groups.lag("billing", topic="orders")

    assert (lag.lag, lag.in_flight, lag.consume_per_s, lag.delay_s) == (12, 6, 3.0, 2.5)
    assert [each.delay_s for each in lag.queues] == [2.5, None]


async def test_lag_is_not_told_without_a_broker_that_does_not_answer(scene: Scene) -> None:
    scene.a.on(RequestCode.GET_CONSUME_STATS).reply(body=ConsumeStats())
    scene.b.on(RequestCode.GET_CONSUME_STATS).reply(code=1)
    with pytest.raises(ResponseError):
        await scene.admin.groups.lag("billing")


# --- groups and clients


async def test_groups_are_read_page_by_page_and_again_when_they_change(scene: Scene) -> None:
    def page(counter: int, *names: str) -> SubscriptionGroupTable:
        return SubscriptionGroupTable(
            DataVersion(counter), subscription_group_table={name: SubscriptionGroupConfig(name) for name in names}
        )

    total = GetAllSubscriptionGroupResponseHeader(total_group_num=3)
    script = scene.a.on(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    script.reply(total, page(1, "g1", "g2")).reply(total, page(2, "n1", "n2")).reply(total, page(2, "n3"))

    assert await scene.admin.groups.names(broker="a") == ["n1", "n2", "n3"]

    asked = [request.header for request in scene.a.requests(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)]
    assert [header.group_seq for header in asked] == [0, 2, 2]
    assert [header.data_version for header in asked] == [
        None,
        '{"counter":1,"stateVersion":0,"timestamp":0}',
        '{"counter":2,"stateVersion":0,"timestamp":0}',
    ]


async def test_members_of_a_group_are_those_that_any_broker_knows(scene: Scene) -> None:
    one, two = ClientConnection("one", "1.1.1.1:1"), ClientConnection("two", "1.1.1.1:2")
    scene.a.on(RequestCode.GET_CONSUMER_CONNECTION_LIST).reply(body=ConsumerConnection([two, one]))
    scene.b.on(RequestCode.GET_CONSUMER_CONNECTION_LIST).reply(code=ResponseCode.CONSUMER_NOT_ONLINE)
    assert (await scene.admin.clients.consumers("billing")).members == (one, two)

    scene.a.on(RequestCode.GET_CONSUMER_CONNECTION_LIST).reply(code=ResponseCode.CONSUMER_NOT_ONLINE)
    assert not (await scene.admin.clients.consumers("billing")).is_online


async def test_status_of_a_broker_that_does_not_answer_says_why(scene: Scene) -> None:
    figures = KVTable({"brokerVersionDesc": "V5_5_0", "putTps": "2.25 0.42 ", "commitLogDiskRatio": "0.5"})
    scene.a.on(RequestCode.GET_BROKER_RUNTIME_INFO).reply(body=figures)
    scene.b.on(RequestCode.GET_BROKER_RUNTIME_INFO).reply(code=1, remark="no")

    good, bad = await scene.admin.brokers.status()

    assert (good.version, good.puts.last_10_s, good.puts.last_minute, good.puts.last_10_minutes) == (
        "V5_5_0", 2.25, 0.42, 0.0,
    )  # fmt: skip
    assert (good.disk_used, good.problem) == (0.5, None)
    assert not bad.is_active
    assert "code 1: no" in str(bad.problem)


# --- messages


async def test_message_by_offset_id_is_asked_of_the_address_in_the_id(scene: Scene) -> None:
    """C218: the request goes to the address encoded in the id."""
    scene.b.on(RequestCode.VIEW_MESSAGE_BY_ID).reply(body=stored(scene.b))
    offset_id = str(OffsetMessageId(HostAddress.parse(scene.b.address), LogOffset(4200)))

    message = await scene.admin.messages.get("orders", offset_id)

    assert (message.body, message.offset_message_id) == (b"tea", offset_id)
    (request,) = scene.b.requests(RequestCode.VIEW_MESSAGE_BY_ID)
    assert (request.header.offset, request.header.topic) == (4200, "orders")
    assert scene.name_server.received == []


async def test_message_by_an_id_that_no_broker_gives_is_no_message(scene: Scene) -> None:
    with pytest.raises(NoMessageError, match="no broker gave the id 'x'") as raised:
        await scene.admin.messages.by_offset_id("orders", "x")
    assert raised.value.code == 208


async def test_messages_by_key_leave_out_those_whose_key_only_has_the_same_hash(scene: Scene) -> None:
    """C219: messages with other keys are filtered out."""
    scene.a.on(RequestCode.QUERY_MESSAGE).reply(FOUND, stored(scene.a, KEYS="41 42") + stored(scene.a, KEYS="BB"))
    scene.b.on(RequestCode.QUERY_MESSAGE).reply(code=ResponseCode.QUERY_NOT_FOUND)

    (message,) = await scene.admin.messages.by_key("orders", "42", count_max=5, begin_ms=1, end_ms=9)

    assert (message.keys, message.queue.broker_name) == (("41", "42"), "a")
    for peer in (scene.a, scene.b):
        (request,) = peer.requests(RequestCode.QUERY_MESSAGE)
        header = request.header
        assert (header.key, header.max_num, header.begin_timestamp, header.end_timestamp) == ("42", 5, 1, 9)
        assert (header.index_type, header.is_unique_key_query) == ("K", None)


async def test_messages_by_key_without_a_match_raise_code_208(scene: Scene) -> None:
    """C219: with no match it raises code 208."""
    scene.a.on(RequestCode.QUERY_MESSAGE).reply(FOUND, stored(scene.a, KEYS="other"))
    scene.b.on(RequestCode.QUERY_MESSAGE).reply(code=ResponseCode.QUERY_NOT_FOUND)
    with pytest.raises(NoMessageError) as raised:
        await scene.admin.messages.by_key("orders", "42")
    assert raised.value.code == 208


async def test_message_by_unique_key_is_asked_of_every_broker_and_found_though_one_fails(scene: Scene) -> None:
    """C220: `_UNIQUE_KEY_QUERY`=true to every broker; the match is returned even if one broker fails."""
    scene.a.on(RequestCode.QUERY_MESSAGE).reply(code=1)
    other = stored(scene.b, UNIQ_KEY="7F00000100002A9F18B4AAC200000002")
    scene.b.on(RequestCode.QUERY_MESSAGE).reply(FOUND, other + stored(scene.b, UNIQ_KEY=UNIQUE_ID))

    message = await scene.admin.messages.by_unique_key("orders", UNIQUE_ID)

    assert message.message_id == UNIQUE_ID
    for peer in (scene.a, scene.b):
        (request,) = peer.requests(RequestCode.QUERY_MESSAGE)
        assert request.ext["_UNIQUE_KEY_QUERY"] == "true"
        assert (request.header.max_num, request.header.index_type) == (32, "U")
        assert request.header.end_timestamp - request.header.begin_timestamp > 2**62


async def test_query_that_no_broker_answers_raises_why(scene: Scene) -> None:
    for peer in (scene.a, scene.b):
        peer.on(RequestCode.QUERY_MESSAGE).reply(code=1, remark="index broken")
    with pytest.raises(ResponseError, match="index broken"):
        await scene.admin.messages.by_key("orders", "42")


async def test_consume_directly_goes_to_the_broker_that_has_the_message(scene: Scene) -> None:
    scene.a.on(RequestCode.QUERY_MESSAGE).reply(code=ResponseCode.QUERY_NOT_FOUND)
    scene.b.on(RequestCode.QUERY_MESSAGE).reply(FOUND, stored(scene.b, UNIQ_KEY=UNIQUE_ID))
    result = ConsumeMessageDirectlyResult(consume_result=CMResult.CR_LATER, spent_time_mills=3)
    scene.b.on(RequestCode.CONSUME_MESSAGE_DIRECTLY).reply(body=result)

    assert await scene.admin.messages.consume_directly("billing", "client", "orders", UNIQUE_ID) == result

    (request,) = scene.b.requests(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    offset_id = OffsetMessageId(HostAddress.parse(scene.b.address), LogOffset(4200))
    assert request.ext == {
        "consumerGroup": "billing", "clientId": "client", "msgId": str(offset_id), "topic": "orders",
    }  # fmt: skip


# --- following


async def test_follower_finds_queues_that_come_later_and_pulls_again_after_a_failure(
    peer: ScriptedPeer, clock: FakeClock
) -> None:
    peer.route("orders", queues=1)
    shown: list[bytes] = []
    problems: list[str] = []

    def complain(queue: MessageQueue, error: RocketlineError) -> None:
        problems.append(f"{queue.queue_id}: {error}")

    async with Admin(peer.address, clock=clock) as admin, asyncio.TaskGroup() as group:
        peer.broker.put("orders", b"old", b"new")
        following = group.create_task(
            admin.messages.follow(
                "orders", lambda messages: shown.extend(each.body for each in messages), count=1, complain=complain
            )
        )
        await peer.wait_for(RequestCode.PULL_MESSAGE, 2)  # the last message, and a pull that waits for the next
        peer.on(RequestCode.PULL_MESSAGE).reply(code=1, remark="busy").default()
        peer.broker.put("orders", b"newer")
        await peer.wait_for(RequestCode.PULL_MESSAGE, 3)
        while not problems:  # noqa: ASYNC110  # the answer is on its way
            await asyncio.sleep(0)
        peer.route("orders", queues=2)
        peer.broker.put("orders", b"elsewhere", queue_id=1)
        clock.advance(30)
        await peer.wait_for(RequestCode.PULL_MESSAGE, 6)
        while len(shown) < 3:  # noqa: ASYNC110  # the answer is on its way
            await asyncio.sleep(0)
        following.cancel()

    assert shown == [b"new", b"newer", b"elsewhere"]
    assert problems == [f"0: PULL_MESSAGE at {peer.address}: code 1: busy (the broker's log says more)"]


async def test_follower_ends_with_what_its_listener_raises(peer: ScriptedPeer) -> None:
    """A pipe that nobody reads any more, say."""
    peer.route("orders", queues=2)

    def show(messages: list[ReceivedMessage]) -> None:
        if messages:
            raise BrokenPipeError

    async def feed() -> None:
        await peer.wait_for(RequestCode.PULL_MESSAGE, 2)
        peer.broker.put("orders", b"x")

    async with Admin(peer.address) as admin, asyncio.TaskGroup() as group:
        group.create_task(feed())
        with pytest.raises(BrokenPipeError):
            await admin.messages.follow("orders", show, count=0)
