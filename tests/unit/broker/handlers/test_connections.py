"""Who is connected, as clients and administrators are told."""

from __future__ import annotations

import json
import unittest.mock

import pytest

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.handlers import connections
from rocketline.broker.handlers.connections import ConnectionHandlers
from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.subscription import ConsumeFromWhere, MessageModel, SubscriptionData
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.connections import ClientConnection, ConsumerConnection, ProducerConnection, ProducerTable
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.connections import PULL, channel, client_on, consumer
from support.long_steps import AtOnce


class Scene:
    def __init__(self, clock: FakeClock) -> None:
        self.consumers, self.producers, self.work = ConsumerRegistry(), ProducerRegistry(), AtOnce(clock)
        self._by_code = ConnectionHandlers(self.consumers, self.producers, self.work).by_code()
        self.admin, _ = channel(clock)
        self.a, _ = channel(clock)
        self.b, _ = channel(clock)

    def ask(self, code: int, **ext: str) -> Command:
        answer = self._by_code[code](self.admin, Command(code, ext))
        assert isinstance(answer, Command)
        return answer


async def test_client_ids_of_a_group_are_listed_one_for_each_connection(clock: FakeClock) -> None:
    scene = Scene(clock)
    scene.consumers.register(consumer("g", "T"), client_on(scene.a, clock, "same"))
    scene.consumers.register(consumer("g", "T"), client_on(scene.b, clock, "same"))
    answer = scene.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    assert decode(ConsumerList, answer.body).consumer_id_list == ["same", "same"]


async def test_groups_that_are_not_online_are_refused_with_the_codes_of_apache(clock: FakeClock) -> None:
    """S85, S86."""
    scene = Scene(clock)
    codes = [
        scene.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g").code,
        scene.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g").code,
        scene.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="g").code,
    ]
    assert codes == [ResponseCode.SYSTEM_ERROR, ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR]


async def test_consumer_group_is_shown_with_all_that_is_known(clock: FakeClock) -> None:
    scene = Scene(clock)
    scene.consumers.register(consumer("g", "T", consume_type=PULL), client_on(scene.a, clock, "c1", version=401))
    answer = scene.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
    assert decode(ConsumerConnection, answer.body) == ConsumerConnection(
        [ClientConnection("c1", "127.0.0.1:50000", "JAVA", 401)],
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        PULL,
        MessageModel.CLUSTERING,
        {"T": SubscriptionData("T")},
    )


async def test_producer_group_is_shown(clock: FakeClock) -> None:
    scene = Scene(clock)
    scene.producers.register("p", client_on(scene.a, clock, "c1"))
    answer = scene.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")
    assert [c.client_id for c in decode(ProducerConnection, answer.body).connection_set] == ["c1"]


async def test_all_producers_are_shown_as_apache_writes_them(clock: FakeClock) -> None:
    scene = Scene(clock)
    assert scene.ask(RequestCode.GET_ALL_PRODUCER_INFO).body == b'{"data":{}}'
    scene.producers.register("p", client_on(scene.a, clock, "c1", version=401))
    assert json.loads(scene.ask(RequestCode.GET_ALL_PRODUCER_INFO).body) == {
        "data": {
            "p": [
                {
                    "clientId": "c1",
                    "language": "JAVA",
                    "lastUpdateTimestamp": clock.wall_ms(),
                    "remoteIP": "/127.0.0.1:50000",
                    "version": 401,
                }
            ]
        }
    }


async def test_client_id_of_any_text_can_be_shown(clock: FakeClock) -> None:
    scene = Scene(clock)
    scene.consumers.register(consumer("g", "T"), client_on(scene.a, clock, "\ud800"))
    answer = scene.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    assert len(decode(ConsumerList, answer.body).consumer_id_list) == 1


@pytest.mark.parametrize("code", [38, 203, 204])
async def test_question_without_a_group_names_what_is_missing(clock: FakeClock, code: int) -> None:
    with pytest.raises(RemoteProtocolError, match="Group is missing"):
        Scene(clock).ask(code)


async def test_all_producers_are_listed_in_steps(clock: FakeClock) -> None:
    scene = Scene(clock)
    for number in range(500):
        scene.producers.register(f"p{number}", client_on(scene.a, clock, "c"))
    answer = scene.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    assert len(decode(ProducerTable, answer.body).data) == 500
    assert scene.work.pauses >= 500 // 32


async def test_producers_that_no_frame_can_carry_are_refused_before_they_are_all_looked_at(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "FRAME_BYTES_MAX", 5_000)
    scene = Scene(clock)
    for number in range(500):
        scene.producers.register(f"p{number}", client_on(scene.a, clock, "c"))
    members = unittest.mock.Mock(side_effect=scene.producers.members)
    monkeypatch.setattr(scene.producers, "members", members)
    with pytest.raises(LocalProtocolError, match="too many for a frame"):
        scene.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    assert members.call_count < 60


async def test_members_of_a_large_group_are_listed_in_steps(clock: FakeClock) -> None:
    scene = Scene(clock)
    members = [channel(clock)[0] for _ in range(1_100)]
    for number, member in enumerate(members):
        scene.consumers.register(consumer("g", "T"), client_on(member, clock, f"a client with the number {number}"))
        scene.producers.register("p", client_on(member, clock, f"a client with the number {number}"))
    for code, ext in (
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}),
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"}),
        (RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"}),
    ):
        answer = scene.ask(code, **ext)
        assert answer.body.count(b"a client with the number") == 1_100
        assert scene.work.pauses >= 1
