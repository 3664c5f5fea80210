"""Clients at a broker: they come, are told of each other, are asked, and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from rocketline.broker.clients import client_calls
from rocketline.broker.server import Broker
from rocketline.clock import Clock
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.heartbeat import ConsumerData
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.connections import ConsumerConnection
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from support.brokers.connections import BROADCASTING, consumer, heartbeat
from support.brokers.running import BrokerPeer, broker

OK = ResponseCode.SUCCESS


class Scene:
    """A running broker and as many clients as a test wants."""

    def __init__(self, running: Broker, stack: AsyncExitStack) -> None:
        self.broker, self._stack = running, stack

    async def peer(self, *, is_fast: bool = False) -> BrokerPeer:
        address = f"127.0.0.1:{self.broker.port - 2}" if is_fast else self.broker.address
        return await self._stack.enter_async_context(BrokerPeer(address))

    async def member(self, client_id: str, *groups: ConsumerData) -> BrokerPeer:
        """A client that has sent its first heartbeat, with what it was told of that read already."""
        peer = await self.peer()
        assert (await peer.request(heartbeat(client_id, *groups), 5)).code == OK
        await peer.told_meanwhile()
        return peer


@asynccontextmanager
async def scene(*, clock: Clock | None = None, **settings: str) -> AsyncIterator[Scene]:
    async with broker(clock=clock, files=None, **settings) as running, AsyncExitStack() as stack:
        yield Scene(running, stack)


async def client_ids(peer: BrokerPeer, group: str) -> list[str]:
    """What the members of a group share out its queues by; empty for the answer that there are none."""
    answer = await peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    return decode(ConsumerList, answer.body).consumer_id_list if answer.code == OK else []


async def until_ids_are(peer: BrokerPeer, group: str, wanted: list[str]) -> None:
    """Ask until it is so; the test's timeout is the bound."""
    while await client_ids(peer, group) != wanted:
        pass


async def groups_told(peer: BrokerPeer) -> list[str]:
    """The groups of which this client was told that they changed."""
    told = await peer.told_meanwhile()
    assert all(c.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and c.is_oneway for c in told)
    return [command.ext["consumerGroup"] for command in told]


async def test_first_heartbeat_makes_the_group_and_its_retry_topic() -> None:
    """S75, S77."""
    async with scene() as s:
        peer = await s.peer()
        answer = await peer.request(heartbeat("c", consumer("g", "T")), 5)
        assert (answer.code, answer.ext) == (OK, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
        group = await peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
        config = decode(SubscriptionGroupConfig, group.body)
        assert (config.retry_max_times, config.retry_queue_nums) == (16, 1)
        topic = await peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "%RETRY%g"})
        assert decode(TopicConfig, topic.body).write_queue_nums == 1


async def test_group_that_may_not_be_made_is_not_registered() -> None:
    """S76."""
    async with scene(autoCreateSubscriptionGroup="false") as s:
        peer = await s.peer()
        assert (await peer.request(heartbeat("c", consumer("g", "T")), 5)).code == OK
        listed = await peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
        assert listed.code == ResponseCode.SYSTEM_ERROR
        pull = {
            "consumerGroup": "g",
            "topic": "BenchmarkTest",
            "queueId": "0",
            "queueOffset": "0",
            "maxMsgNums": "1",
            "sysFlag": "0",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subVersion": "0",
        }
        pulled = await peer.ask(RequestCode.PULL_MESSAGE, pull)
        assert pulled.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_second_member_is_told_to_both_and_its_repeated_heartbeat_to_nobody() -> None:
    """S78, S79."""
    async with scene() as s:
        a = await s.member("a", consumer("g", "T"))
        b = await s.peer()
        await b.request(heartbeat("b", consumer("g", "T")), 5)
        assert (await groups_told(a), await groups_told(b)) == (["g"], ["g"])
        await b.request(heartbeat("b", consumer("g", "T")), 5)
        assert (await groups_told(a), await groups_told(b)) == ([], [])


async def test_other_topics_are_told_to_all_and_another_expression_to_nobody() -> None:
    """S80."""
    async with scene() as s:
        a = await s.member("a", consumer("g", SubscriptionData("T", "A", sub_version=1)))
        b = await s.member("b", consumer("g", SubscriptionData("T", "A", sub_version=1)))
        await groups_told(a)
        await b.request(heartbeat("b", consumer("g", SubscriptionData("T", "B", sub_version=2))), 5)
        assert (await groups_told(a), await groups_told(b)) == ([], [])
        for topics in (["T", "U"], ["T"]):
            await b.request(heartbeat("b", consumer("g", *topics)), 5)
            assert (await groups_told(a), await groups_told(b)) == (["g"], ["g"])


@pytest.mark.parametrize("is_farewell", [True, False], ids=["unregisters", "closes its connection"])
async def test_member_that_goes_is_told_to_the_others_and_no_longer_listed(is_farewell: bool) -> None:
    """S81. Go clients only close their connections."""
    async with scene() as s:
        a = await s.member("a", consumer("g", "T"))
        b = await s.member("b", consumer("g", "T"))
        assert await groups_told(a) == ["g"]
        if is_farewell:
            farewell = {"clientID": "b", "consumerGroup": "g"}
            assert (await b.ask(RequestCode.UNREGISTER_CLIENT, farewell)).code == OK
        else:
            await b.close()
        assert (await a.told()).ext == {"consumerGroup": "g"}
        assert await client_ids(a, "g") == ["a"]


async def test_connection_that_is_cut_off_is_noticed() -> None:
    """S81."""
    async with scene() as s:
        a = await s.member("a", consumer("g", "T"))
        host, port = s.broker.address.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(frame.encode(heartbeat("b", consumer("g", "T"))))
        await a.told()
        assert await client_ids(a, "g") == ["a", "b"]
        writer.transport.abort()
        await a.told()
        assert await client_ids(a, "g") == ["a"]


async def test_silent_member_goes_with_its_connection_and_nobody_is_told(clock: FakeClock) -> None:
    """S82."""
    async with scene(clock=clock) as s:
        quiet = await s.member("quiet", consumer("g", "T"))
        clock.advance(60)
        other = await s.member("other", consumer("g", "T"))
        clock.advance(60)
        s.broker.services.expiry.scan(clock.monotonic())
        assert await client_ids(other, "g") == ["quiet", "other"]
        clock.advance(1)
        s.broker.services.expiry.scan(clock.monotonic())
        assert await client_ids(other, "g") == ["other"]
        assert await groups_told(other) == []
        # A new connection is made for this: the old one is closed.
        await quiet.request(heartbeat("quiet", consumer("g", "T")), 5)
        assert await client_ids(other, "g") == ["other", "quiet"]


async def test_broadcasting_group_is_told_nothing() -> None:
    """S83."""
    async with scene() as s:
        a = await s.member("a", consumer("g", "T", model=BROADCASTING))
        b = await s.member("b", consumer("g", "T", model=BROADCASTING))
        await b.close()
        await until_ids_are(a, "g", ["a"])
        assert await groups_told(a) == []


async def test_group_that_wants_no_notices_of_heartbeats_gets_none() -> None:
    """S84."""
    async with scene() as s:
        admin = await s.peer()
        config = SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=False)
        await admin.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode(config))
        a = await s.member("a", consumer("g", "T"))
        await s.member("b", consumer("g", "U"))
        assert await groups_told(a) == []


async def test_groups_that_are_not_online_have_their_codes() -> None:
    """S85, S86."""
    async with scene() as s:
        admin = await s.peer()
        group = {"consumerGroup": "g", "producerGroup": "g"}
        codes = [(await admin.ask(code, group)).code for code in (38, 203, 204)]
        assert codes == [ResponseCode.SYSTEM_ERROR, ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR]


async def test_farewell_to_unknown_groups_succeeds() -> None:
    """S87."""
    async with scene() as s:
        peer = await s.peer()
        farewell = {"clientID": "c", "consumerGroup": "unknown", "producerGroup": "unknown"}
        assert (await peer.ask(RequestCode.UNREGISTER_CLIENT, farewell)).code == OK


@pytest.mark.parametrize(("expression_type", "code"), [("TAG", 0), ("SQL92", 1)])
async def test_subscription_is_checked(expression_type: str, code: int) -> None:
    """S88, the part without SQL"""
    async with scene() as s:
        peer = await s.peer()
        asked = CheckClientRequestBody("c", "g", None, SubscriptionData("T", "a", expression_type=expression_type))
        assert (await peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body=encode(asked))).code == code


@pytest.mark.parametrize(("is_clean", "left"), [("false", 0), ("true", ResponseCode.QUERY_NOT_FOUND)])
async def test_offsets_of_a_deleted_group_survive_unless_they_are_cleaned(is_clean: str, left: int) -> None:
    """S89."""
    async with scene() as s:
        peer = await s.member("c", consumer("g", "BenchmarkTest"))
        queue = {"consumerGroup": "g", "topic": "BenchmarkTest", "queueId": "0"}
        committed = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**queue, "commitOffset": "5"})
        assert committed.code == OK
        await peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": is_clean})
        assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, queue)).code == left


async def test_members_with_different_topics_flip_the_group_each_time() -> None:
    """S90."""
    async with scene() as s:
        a = await s.member("a", consumer("g", "T"))
        b = await s.member("b", consumer("g", "U"))
        await groups_told(a)
        for peer, name, topic in ((a, "a", "T"), (b, "b", "U")) * 2:
            await peer.request(heartbeat(name, consumer("g", topic)), 5)
            shown = await peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
            assert list(decode(ConsumerConnection, shown.body).subscription_table) == [topic]
            assert (await groups_told(a), await groups_told(b)) == (["g"], ["g"])


# --- the fast port


@pytest.mark.parametrize("code", [11, 200050, 200052, 200054])
async def test_fast_port_takes_no_pulls(code: int) -> None:
    """S9."""
    async with scene() as s:
        assert (await (await s.peer(is_fast=True)).ask(code)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_fast_port_works_like_the_main_one_for_the_rest() -> None:
    """S10."""
    async with scene() as s:
        fast, main = await s.peer(is_fast=True), await s.member("main", consumer("g", "BenchmarkTest"))
        assert (await fast.request(heartbeat("fast", consumer("g", "BenchmarkTest")), 5)).code == OK
        assert await groups_told(main) == ["g"]
        assert await client_ids(main, "g") == ["main", "fast"]
        queue = {"consumerGroup": "g", "topic": "BenchmarkTest", "queueId": "0"}
        await main.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**queue, "commitOffset": "5"})
        assert (await fast.ask(RequestCode.QUERY_CONSUMER_OFFSET, queue)).ext == {"offset": "5"}
        assert (await fast.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).code == OK
        assert (await fast.ask(RequestCode.SEND_MESSAGE, _message(), b"x")).code == OK


def _message(topic: str = "BenchmarkTest") -> dict[str, str]:
    return {
        "producerGroup": "p",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
    }


# --- what an administrator asks of a client


async def test_running_info_is_relayed_from_an_online_client_and_refused_for_another() -> None:
    """S217."""
    async with scene() as s:
        client, admin = await s.member("c", consumer("g", "T")), await s.peer()
        client.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = response(OK, body=b'{"properties":{}}')
        asked = {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"}
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
        assert (answer.code, answer.body) == (OK, b'{"properties":{}}')
        assert (await client.told()).ext == asked
        offline = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {**asked, "clientId": "other"})
        assert offline.code == ResponseCode.SYSTEM_ERROR


async def test_message_to_consume_is_handed_to_the_client_which_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """S218."""
    async with scene() as s:
        client, admin = await s.member("c", consumer("g", "BenchmarkTest")), await s.peer()
        sent = await admin.ask(RequestCode.SEND_MESSAGE, _message(), b"hello")
        asked = {"consumerGroup": "g", "clientId": "c", "msgId": sent.ext["msgId"], "topic": "BenchmarkTest"}
        client.answers[RequestCode.CONSUME_MESSAGE_DIRECTLY] = response(OK, body=b'{"consumeResult":"CR_SUCCESS"}')
        consumed = await admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, asked)
        assert (consumed.code, consumed.body) == (OK, b'{"consumeResult":"CR_SUCCESS"}')
        assert b"hello" in (await client.told()).body
        client.answers.clear()
        monkeypatch.setattr(client_calls, "RELAY_TIMEOUT_S", 0.05)
        late = await admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, asked)
        assert late.code == ResponseCode.CONSUME_MSG_TIMEOUT


async def test_status_of_all_clients_is_merged() -> None:
    async with scene() as s:
        queue = MessageQueue("T", "B", 0)
        for number, name in enumerate("ab"):
            client = await s.member(name, consumer("g", "T"))
            status = ConsumerStatus({queue: number})
            client.answers[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = response(OK, body=encode(status))
        admin = await s.peer()
        answer = await admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "T", "group": "g"})
        assert decode(ConsumerStatus, answer.body).consumer_table == {"a": {queue: 0}, "b": {queue: 1}}
        unknown = await admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "T", "group": "h"})
        assert unknown.code == ResponseCode.SYSTEM_ERROR


async def test_reset_is_told_to_the_clients_where_they_do_it_themselves() -> None:
    """S97, with `useServerSideResetOffset` off"""
    async with scene(useServerSideResetOffset="false", brokerName="B") as s:
        client, admin = await s.member("c", consumer("g", "SELF_TEST_TOPIC")), await s.peer()
        queue = {"consumerGroup": "g", "topic": "SELF_TEST_TOPIC", "queueId": "0", "commitOffset": "0"}
        assert (await admin.ask(RequestCode.UPDATE_CONSUMER_OFFSET, queue)).code == OK
        asked = {"topic": "SELF_TEST_TOPIC", "group": "g", "timestamp": "-1", "isForce": "true"}
        answer = await admin.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        assert answer.code == OK, answer.remark
        told = await client.told()
        assert (told.code, told.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
        table = {MessageQueue("SELF_TEST_TOPIC", "B", 0): 0}
        assert decode(ResetOffsetBody, told.body).offset_table == table
        assert decode(ResetOffsetBody, answer.body).offset_table == table
        await client.close()
        await until_ids_are(admin, "g", [])
        offline = await admin.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_what_only_clients_are_asked_is_not_asked_of_a_broker() -> None:
    async with scene() as s:
        peer = await s.peer()
        codes = [(await peer.request(Command(code), 5)).code for code in (40, 220, 221)]
        assert codes == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED] * 3
