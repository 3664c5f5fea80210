"""Administration of real clusters: what was done is there, and what is told is so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from rocketline.aio import Admin
from rocketline.client.aio.producer import Producer
from rocketline.client.aio.push_consumer import PushConsumer
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import NoMessageError, ResponseError, TopicNotFoundError
from rocketline.model.message import Message
from rocketline.model.names import retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from rocketline.wire.bodies.running import CMResult
from rocketline.wire.codes import ResponseCode
from support.clients.clusters import ClientCluster

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
_FOUND_S = 20.0
_CONSUMED_S = 45.0
"""A member may find its queues after 20 s only, and says how far it is every 5 s."""
_SEND_S = 30.0


@pytest.fixture
async def admin(cluster: ClientCluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.name_server) as admin:
        yield admin


async def eventually(ask: Callable[[], Awaitable[bool]], patience_s: float = _FOUND_S) -> None:
    """Return once it is so: brokers tell name servers and index messages a little later."""
    async with asyncio.timeout(patience_s):
        while not await ask():  # noqa: ASYNC110  # it happens in another process
            await asyncio.sleep(0.02)


async def sent(cluster: ClientCluster, topic: str, *bodies: bytes, queue_id: int = 0, broker: str = "broker-a") -> None:
    """Messages in one queue, each with its body as key and tag; they can be read when this returns."""
    queue = MessageQueue(topic, broker, queue_id)
    async with Producer(cluster.name_server, group="scenario-producers", send_timeout_s=_SEND_S) as producer:
        for body in bodies:
            name = body.decode()
            message = Message(topic, body, tags=name, keys=[name], properties={"color": "red"})
            receipt = await producer.send(message, queue=queue)
    async with Admin(cluster.name_server) as admin:
        await eventually(lambda: _is_readable(admin, receipt))


async def _is_readable(admin: Admin, receipt: SendReceipt) -> bool:
    """Apache answers a send before the message is in its queue."""
    return await admin.offsets.max(receipt.queue) > receipt.queue_offset


@asynccontextmanager
async def consuming(cluster: ClientCluster, group: str, topic: str) -> AsyncIterator[list[bytes]]:
    """A member of the group that takes everything and notes the bodies."""

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    seen: list[bytes] = []
    async with PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
        consumer.subscribe(topic, "*", handle)
        yield seen


# --- topics


async def test_topic_is_made_changed_and_deleted(cluster: ClientCluster, admin: Admin) -> None:
    topic = f"{cluster.whose}-made"
    outcome = await admin.topics.create(topic, queue_count=3, read_queue_count=5, attributes={"message.type": "FIFO"})
    assert [broker.name for broker in outcome.done] == ["broker-a", "broker-b"]
    assert [broker.address for broker in outcome.done] == list(cluster.brokers)

    configs = await admin.topics.config(topic)
    assert [(config.write_queue_nums, config.read_queue_nums, config.perm) for config in configs.values()] == [
        (3, 5, 6)
    ] * 2
    assert [config.attributes for config in configs.values()] == [{"message.type": "FIFO"}] * 2
    assert topic in await admin.topics.names()
    assert topic in await admin.topics.names(cluster="DefaultCluster")
    assert len(await admin.topics.writable_queues(topic)) == 6
    assert len(await admin.topics.readable_queues(topic)) == 10

    await admin.topics.set_permission(topic, 4, broker="broker-b")
    assert {broker.name: config.perm for broker, config in (await admin.topics.config(topic)).items()} == {
        "broker-a": 6,
        "broker-b": 4,
    }
    await eventually(lambda: _has_writable(admin, topic, 3))
    configs = await admin.topics.config(topic)
    assert [config.attributes for config in configs.values()] == [{"message.type": "FIFO"}] * 2

    await admin.topics.delete(topic)
    assert topic not in await admin.topics.names()
    with pytest.raises(TopicNotFoundError, match=topic):
        await admin.topics.config(topic)


async def _has_writable(admin: Admin, topic: str, count: int) -> bool:
    return len(await admin.topics.writable_queues(topic)) == count


async def test_ordered_topic_is_in_the_name_servers_and_leaves_them_with_it(
    cluster: ClientCluster, admin: Admin
) -> None:
    topic = f"{cluster.whose}-ordered"
    await admin.topics.create(topic, queue_count=2, is_ordered=True)
    assert await admin.name_servers.value("ORDER_TOPIC_CONFIG", topic) == "broker-a:2;broker-b:2"

    await admin.topics.delete(topic)
    assert await admin.name_servers.value("ORDER_TOPIC_CONFIG", topic) is None


async def test_topic_that_a_broker_refuses_raises_its_answer(admin: Admin) -> None:
    with pytest.raises(ResponseError, match="UPDATE_AND_CREATE_TOPIC") as raised:
        await admin.topics.create("strange", attributes={"no.such.attribute": "1"})
    assert raised.value.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER)


async def test_status_of_a_topic_tells_what_each_queue_holds(cluster: ClientCluster, admin: Admin) -> None:
    topic = cluster.topic(queues=2, brokers=2)
    await sent(cluster, topic, b"1", b"2", b"3", queue_id=1, broker="broker-b")

    status = await admin.topics.status(topic)

    assert [(each.queue.broker_name, each.queue.queue_id, each.message_count) for each in status.queues] == [
        ("broker-a", 0, 0), ("broker-a", 1, 0), ("broker-b", 0, 0), ("broker-b", 1, 3),
    ]  # fmt: skip
    assert status.message_count == 3
    assert status.queues[0].last_stored_ms is None
    assert status.queues[3].last_stored_ms is not None


# --- groups and their offsets


async def test_group_is_made_changed_and_deleted(cluster: ClientCluster, admin: Admin) -> None:
    group = f"{cluster.whose}-made"
    await admin.groups.create(group, retry_max=3, may_broadcast=False)
    assert group in await admin.groups.names()
    assert [
        (each.retry_max_times, each.consume_broadcast_enable) for each in (await admin.groups.config(group)).values()
    ] == [(3, False)] * 2

    await admin.groups.create(group, retry_max=5, broker="broker-b")
    assert [each.retry_max_times for each in (await admin.groups.config(group)).values()] == [3, 5]

    await admin.groups.delete(group, with_offsets=True)
    assert await admin.groups.config(group) == {}


async def test_question_for_a_group_does_not_make_it(admin: Admin) -> None:
    assert await admin.groups.config("never-made") == {}
    assert "never-made" not in await admin.groups.names()


async def test_offsets_of_a_group_are_committed_told_and_cloned(cluster: ClientCluster, admin: Admin) -> None:
    topic, group, copy = cluster.topic(queues=2), cluster.group(), cluster.group()
    await sent(cluster, topic, b"1", b"2", b"3", queue_id=1)
    empty, full = (MessageQueue(topic, "broker-a", number) for number in range(2))

    assert (await admin.offsets.min(full), await admin.offsets.max(full)) == (0, 3)
    assert await admin.offsets.earliest_store_ms(empty) is None
    first_ms = await admin.offsets.earliest_store_ms(full)
    assert first_ms is not None
    assert await admin.offsets.at_time(full, first_ms) == 0
    assert await admin.offsets.at_time(full, first_ms + 3_600_000) == 3
    assert await admin.offsets.committed(group, full) is None

    await admin.offsets.commit(group, full, 1)
    assert await admin.offsets.committed(group, full) == 1
    lag = await admin.groups.lag(group)
    assert [(each.queue, each.max_offset, each.committed_offset, each.lag) for each in lag.queues] == [
        (empty, 0, 0, 0), (full, 3, 1, 2),
    ]  # fmt: skip
    assert lag.lag == 2
    assert lag.queues[1].delay_s is not None
    assert 0 <= lag.queues[1].delay_s < 60
    assert (await admin.groups.lag(group, topic=topic)).lag == 2
    assert {each.group: each.lag for each in await admin.groups.lags()}[group] == 2
    assert await admin.groups.topics(group) == [topic]
    assert group in await admin.topics.groups(topic)

    assert await admin.offsets.clone(group, copy, topic) == {empty: 0, full: 1}
    assert await admin.offsets.committed(copy, full) == 1


async def test_offsets_cannot_be_cloned_to_a_group_that_does_not_exist(cluster: ClientCluster, admin: Admin) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    await admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 0)
    with pytest.raises(ResponseError) as raised:
        await admin.offsets.clone(group, "never-made-either", topic)
    assert raised.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_group_that_is_offline_is_reset_to_begin_end_time_and_offset(
    cluster: ClientCluster, admin: Admin
) -> None:
    topic, group = cluster.topic(queues=2), cluster.group()
    await sent(cluster, topic, b"1", b"2", b"3", queue_id=1)
    empty, full = (MessageQueue(topic, "broker-a", number) for number in range(2))
    await admin.offsets.commit(group, full, 2)
    offsets = admin.offsets

    assert await offsets.reset_to_end(group, topic) == {empty: 0, full: 3}
    assert await offsets.committed(group, full) == 3
    assert await offsets.reset_to_begin(group, topic) == {empty: 0, full: 0}
    assert await offsets.committed(group, full) == 0
    await offsets.reset_to_offset(group, full, 2)
    assert await offsets.committed(group, full) == 2
    first_ms = await offsets.earliest_store_ms(full)
    assert first_ms is not None
    assert await offsets.reset_to_time(group, topic, first_ms) == {empty: 0, full: 0}
    with pytest.raises(ResponseError):
        await offsets.reset_to_offset(group, full, 17)


async def test_consumer_that_runs_goes_where_its_group_is_sent(cluster: ClientCluster, admin: Admin) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    await sent(cluster, topic, b"1", b"2", b"3")

    async with consuming(cluster, group, topic) as seen:
        await eventually(lambda: _is(seen, 3))
        await admin.offsets.reset_to_offset(group, MessageQueue(topic, "broker-a", 0), 1)
        await sent(cluster, topic, b"4")  # a pull that waits hears of the reset when it is answered
        await eventually(lambda: _is(seen, 6))
    assert seen[:3] == [b"1", b"2", b"3"]
    assert {b"2", b"3"} <= set(seen[3:])


async def _is(seen: list[bytes], count: int) -> bool:
    return len(seen) >= count


# --- clients


async def test_consumer_that_runs_is_shown_with_its_queues_and_made_to_consume(
    cluster: ClientCluster, admin: Admin
) -> None:
    topic, group = cluster.topic(queues=2), cluster.group()
    await sent(cluster, topic, b"tea")
    assert not (await admin.clients.consumers(group)).is_online

    async with consuming(cluster, group, topic):
        await eventually(lambda: _has_lag(admin, group, 0), _CONSUMED_S)
        members = await admin.clients.consumers(group)
        (member,) = members.members
        client_id = member.client_id or ""
        assert (members.consume_type, members.message_model) == (ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING)
        assert set(members.subscriptions) == {topic, retry_topic(group)}
        subscription = await admin.clients.subscription(group, topic)
        assert subscription is not None
        assert subscription.sub_string == "*"

        info = await admin.clients.running_info(group, client_id, with_stacks=True)
        assert {queue.queue_id for queue in info.mq_table if queue.topic == topic} == {0, 1}
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.jstack
        offsets = await admin.clients.offsets(group, topic)
        assert offsets[client_id][MessageQueue(topic, "broker-a", 0)] == 1

        message = await admin.messages.at(MessageQueue(topic, "broker-a", 0), 0)
        result = await admin.messages.consume_directly(group, client_id, topic, message.offset_message_id)
        assert (result.consume_result, result.order) == (CMResult.CR_SUCCESS, False)


async def _has_lag(admin: Admin, group: str, lag: int) -> bool:
    found = await admin.groups.lag(group)
    return bool(found.queues) and found.lag == lag and any(each.committed_offset for each in found.queues)


async def test_producer_that_runs_is_shown(cluster: ClientCluster, admin: Admin) -> None:
    topic, group = cluster.topic(queues=1), "shown-producers"
    assert await admin.clients.producers(group) == ()

    async with Producer(cluster.name_server, group=group, send_timeout_s=_SEND_S) as producer:
        await producer.send(Message(topic, b"x"))
        await eventually(lambda: _has_producer(admin, group))
        (shown,) = await admin.clients.producers(group)
        assert shown.client_id == producer.client_id
        assert producer.client_id in [each.client_id for each in (await admin.clients.all_producers())[group]]


async def _has_producer(admin: Admin, group: str) -> bool:
    return bool(await admin.clients.producers(group))


# --- messages


async def test_messages_are_found_by_id_key_place_and_time(cluster: ClientCluster, admin: Admin) -> None:
    topic = cluster.topic(queues=2, brokers=2)
    await sent(cluster, topic, b"one", b"two", queue_id=1)
    await sent(cluster, topic, b"three", broker="broker-b")
    messages, place = admin.messages, MessageQueue(topic, "broker-a", 1)

    two = await messages.at(place, 1)
    assert (two.body, two.tags, two.keys, two.queue) == (b"two", "two", ("two",), place)
    await eventually(lambda: _is_indexed(admin, topic, "three"))
    assert [each.body for each in await messages.by_key(topic, "two")] == [b"two"]
    assert (await messages.by_unique_key(topic, two.message_id)).body == b"two"
    assert (await messages.by_offset_id(topic, two.offset_message_id)).body == b"two"
    assert (await messages.get(topic, two.message_id)).queue_offset == 1
    assert (await messages.get(topic, two.offset_message_id)).queue_offset == 1

    one = await messages.at(place, 0)
    assert [each.body for each in await messages.between(topic, one.store_ms)] == [b"one", b"two", b"three"]
    assert [each.body for each in await messages.between(topic, 0, selector="two || three")] == [b"two", b"three"]
    assert await messages.between(topic, 0, one.store_ms) == []
    assert [each.body for each in await messages.between(topic, 0, count_max=1)] == [b"one"]
    assert [each.body for each in await messages.last(topic, 2)] == [b"two", b"three"]
    assert [each.body for each in await messages.last(topic, 5, selector="one")] == [b"one"]
    with pytest.raises(NoMessageError, match="reaches from 0 to 2"):
        await messages.at(place, 2)


async def _is_indexed(admin: Admin, topic: str, key: str) -> bool:
    try:
        return bool(await admin.messages.by_key(topic, key))
    except NoMessageError:
        return False


async def test_message_is_sent_again_with_all_that_the_application_gave_it(
    cluster: ClientCluster, admin: Admin
) -> None:
    topic, other = cluster.topic(queues=1), cluster.topic(queues=1)
    await sent(cluster, topic, b"tea")
    message = await admin.messages.at(MessageQueue(topic, "broker-a", 0), 0)

    receipt = await admin.messages.resend(topic, message.offset_message_id, to=other)

    await eventually(lambda: _is_readable(admin, receipt))
    copy = await admin.messages.at(receipt.queue, receipt.queue_offset)
    assert (copy.topic, copy.body, copy.tags, copy.keys) == (other, b"tea", "tea", ("tea",))
    assert copy.properties["color"] == "red"
    assert copy.message_id == receipt.message_id != message.message_id


async def test_follower_shows_what_is_there_and_what_comes(cluster: ClientCluster, admin: Admin) -> None:
    topic = cluster.topic(queues=2, brokers=2)
    await sent(cluster, topic, b"1", b"2", b"3")
    shown: list[bytes] = []

    def show(messages: list[ReceivedMessage]) -> None:
        shown.extend(message.body for message in messages)

    async with asyncio.TaskGroup() as group:
        following = group.create_task(admin.messages.follow(topic, show, count=2))
        await eventually(lambda: _is(shown, 2))
        await sent(cluster, topic, b"4", queue_id=1, broker="broker-b")
        await eventually(lambda: _is(shown, 3))
        following.cancel()
    assert shown == [b"2", b"3", b"4"]


# --- brokers and name servers


async def test_brokers_are_shown_with_their_state(cluster: ClientCluster, admin: Admin) -> None:
    (only,) = await admin.brokers.clusters()
    assert only.name == "DefaultCluster"
    assert [(broker.name, broker.broker_id, broker.address) for broker in only.brokers] == [
        ("broker-a", 0, cluster.brokers[0]),
        ("broker-b", 0, cluster.brokers[1]),
    ]
    for status in await admin.brokers.status():
        assert (status.version, status.is_active, status.problem) == ("V5_5_0", True, None)
        assert status.started_ms is not None
        assert 0 < status.disk_used < 1
    (figures,) = (await admin.brokers.figures(cluster.brokers[0])).values()
    assert figures["brokerVersionDesc"] == "V5_5_0"


async def test_setting_of_a_broker_is_changed_and_shown(cluster: ClientCluster, admin: Admin) -> None:
    key = "maxMessageSize"
    before = {broker.name: table[key] for broker, table in (await admin.brokers.config()).items()}
    await admin.brokers.set_config({key: "4000000"}, broker="broker-b")
    after = {broker.name: table[key] for broker, table in (await admin.brokers.config()).items()}
    assert after == {**before, "broker-b": "4000000"}
    await admin.brokers.set_config({key: before["broker-b"]}, broker="broker-b")


async def test_count_of_a_topic_is_told(cluster: ClientCluster, admin: Admin) -> None:
    topic = cluster.topic(queues=1)
    await sent(cluster, topic, b"x")
    (found,) = (await admin.brokers.statistic("broker-a", "TOPIC_PUT_NUMS", topic)).values()
    assert found.stats_minute.sum >= 0


async def test_brokers_clean_up_when_told_to(admin: Admin) -> None:
    for clean in (
        admin.brokers.clean_expired_queues,
        admin.brokers.delete_expired_logs,
        admin.brokers.clean_unused_topics,
    ):
        assert [broker.name for broker in (await clean()).done] == ["broker-a", "broker-b"]


async def test_texts_in_name_servers_are_kept_shown_and_forgotten(admin: Admin) -> None:
    await admin.name_servers.set_value("scenario", "key", "value")
    assert await admin.name_servers.value("scenario", "key") == "value"
    assert await admin.name_servers.values("scenario") == {"key": "value"}
    await admin.name_servers.delete_value("scenario", "key")
    assert await admin.name_servers.value("scenario", "key") is None
    assert await admin.name_servers.values("never") == {}


async def test_setting_of_the_name_servers_is_changed_and_shown(cluster: ClientCluster, admin: Admin) -> None:
    assert await admin.name_servers.addresses() == (cluster.name_server,)
    await admin.name_servers.set_config({"productEnvName": "scenario"})
    assert {table["productEnvName"] for table in (await admin.name_servers.config()).values()} == {"scenario"}


async def test_writes_to_a_broker_are_forbidden_and_allowed(cluster: ClientCluster, admin: Admin) -> None:
    topic = cluster.topic(queues=1, brokers=2)
    (count,) = (await admin.name_servers.forbid_writes("broker-b")).values()
    assert count > 0
    assert [queue.broker_name for queue in await admin.topics.writable_queues(topic)] == ["broker-a"]
    assert len(await admin.topics.readable_queues(topic)) == 2

    (count,) = (await admin.name_servers.allow_writes("broker-b")).values()
    assert count > 0
    assert len(await admin.topics.writable_queues(topic)) == 2
