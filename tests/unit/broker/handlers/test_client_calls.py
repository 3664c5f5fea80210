"""What is asked of clients through the broker: refused here, or passed on with what the broker adds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.broker.clients.client_calls import ClientCalls
from rocketline.broker.handlers.client_calls import ClientCallHandlers
from rocketline.errors import RemoteProtocolError
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import LATER, Outcome
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import CURRENT_VERSION, RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.connections import channel, client_on, consumer
from support.brokers.tables import Tables, tables
from support.net.doubles import MemoryTransport, turn

STATUS, RUNNING_INFO = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, RequestCode.GET_CONSUMER_RUNNING_INFO
CONSUME = RequestCode.CONSUME_MESSAGE_DIRECTLY
HERE = HostAddress.parse("127.0.0.1:10911")


class Scene:
    def __init__(self, clock: FakeClock, own: Tables, calls: ClientCalls) -> None:
        self.clock, self.tables = clock, own
        self._by_code = ClientCallHandlers(
            calls, own.consumers, own.topics, own.groups, own.store, own.settings
        ).by_code()
        self.admin, _ = channel(clock)

    def join(self, client_id: str = "c", *, version: int = CURRENT_VERSION) -> MemoryTransport:
        member, line = channel(self.clock)
        self.tables.consumers.register(consumer("g", "T"), client_on(member, self.clock, client_id, version=version))
        return line

    def ask(self, code: int, body: bytes = b"", /, **ext: str) -> Outcome:
        return self._by_code[code](self.admin, Command(code, ext, body))

    def refusal(self, code: int, **ext: str) -> str:
        answer = self.ask(code, **ext)
        assert isinstance(answer, Command)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        return answer.remark or ""


@asynccontextmanager
async def serving(clock: FakeClock) -> AsyncIterator[Scene]:
    with tables(clock) as own:
        async with ClientCalls(calls_max=9, log=own.log) as calls:
            yield Scene(clock, own, calls)


async def passed_on(line: MemoryTransport) -> Command:
    while not line.written:
        await turn()
    (call,) = line.commands()
    return call


async def test_running_info_with_a_body_that_no_client_sends_is_not_passed_on(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        line = scene.join()
        answer = scene.ask(RUNNING_INFO, bytes(64 * 1024 + 1), consumerGroup="g", clientId="c")
        assert isinstance(answer, Command)
    assert (answer.code, line.written) == (ResponseCode.SYSTEM_ERROR, [])


async def test_running_info_is_asked_with_the_very_fields(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        line = scene.join()
        ext = {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true", "more": "fields"}
        assert scene.ask(RUNNING_INFO, b"body", **ext) is LATER
        call = await passed_on(line)
    assert (call.code, call.ext, call.body) == (RUNNING_INFO, ext, b"body")


async def test_client_that_is_not_online_cannot_be_asked(clock: FakeClock) -> None:
    """S217."""
    async with serving(clock) as scene:
        scene.join("c")
        message_id = str(OffsetMessageId(HERE, scene.tables.append().log_offset))
        for group, client_id in (("g", "other"), ("h", "c")):
            ext = {"consumerGroup": group, "clientId": client_id}
            assert "not online" in scene.refusal(RUNNING_INFO, **ext)
            assert "not online" in scene.refusal(CONSUME, **ext, msgId=message_id)
        assert "not online" in scene.refusal(CONSUME, consumerGroup="g", msgId=message_id)


async def test_client_that_is_too_old_cannot_be_asked(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        scene.join("c", version=27)
        assert "too old" in scene.refusal(RUNNING_INFO, consumerGroup="g", clientId="c")
        assert "too old" in scene.refusal(STATUS, topic="T", group="g")


async def test_message_to_consume_is_attached_with_what_the_broker_knows(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        line = scene.join()
        scene.tables.topics.update(TopicConfig("T", topic_sys_flag=1))
        scene.tables.groups.update(SubscriptionGroupConfig("g", group_sys_flag=5))
        stored = scene.tables.append(b"hello")
        message_id = str(OffsetMessageId(HERE, stored.log_offset))
        asked = {"consumerGroup": "g", "clientId": "c", "msgId": message_id, "topic": "T"}
        assert scene.ask(CONSUME, b"not the message", **asked) is LATER
        call = await passed_on(line)
        assert call.body == scene.tables.store.record_at(stored.log_offset)
    broker_name = scene.tables.settings.value.broker_name
    assert call.code == CONSUME
    assert call.ext == {**asked, "brokerName": broker_name, "topicSysFlag": "1", "groupSysFlag": "5"}


async def test_message_is_looked_up_without_making_topic_or_group(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        line = scene.join()
        message_id = str(OffsetMessageId(HERE, scene.tables.append().log_offset))
        scene.ask(CONSUME, consumerGroup="g", clientId="c", msgId=message_id, topic="Unknown")
        call = await passed_on(line)
        assert (scene.tables.groups.get("g"), scene.tables.topics.get("Unknown")) == (None, None)
    assert {"topicSysFlag", "groupSysFlag"}.isdisjoint(call.ext)


async def test_message_that_is_not_there_or_not_named_is_refused(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        scene.join()
        stored = scene.tables.append()
        asked = {"consumerGroup": "g", "clientId": "c"}
        assert "msgId" in scene.refusal(CONSUME, **asked)
        with pytest.raises(RemoteProtocolError, match="hexadecimal"):
            scene.ask(CONSUME, **asked, msgId="no id")
        for log_offset in (stored.log_offset + 1, 2**40, -1):
            assert "no message" in scene.refusal(
                CONSUME, **asked, msgId=str(OffsetMessageId(HERE, LogOffset(log_offset)))
            )


async def test_status_is_asked_of_one_client_or_of_all(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        lines = {name: scene.join(name) for name in "abc"}
        assert scene.ask(STATUS, topic="T", group="g", clientAddr="b") is LATER
        await passed_on(lines["b"])
        assert [bool(line.written) for line in lines.values()] == [False, True, False]
        assert scene.ask(STATUS, topic="T", group="g", clientAddr=" ") is LATER
        await asyncio.gather(passed_on(lines["a"]), passed_on(lines["c"]))


async def test_status_of_a_group_that_is_not_online_is_refused(clock: FakeClock) -> None:
    async with serving(clock) as scene:
        assert "online" in scene.refusal(STATUS, topic="T", group="g")
