"""Messages for any moment, and calling them back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.broker.server import Broker
from rocketline.clock import SystemClock
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.stats import TimerMetrics
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from rocketline.wire.recall_handle import RecallHandle
from support.brokers.messages import create_topic, send, try_send
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, bodies, pull
from support.brokers.running import BrokerPeer, broker
from support.clients.members import until
from support.stepping_clock import SteppingClock


@asynccontextmanager
async def scene(
    *, clock: FakeClock | None = None, files: FileSystem | None = None, **settings: str
) -> AsyncIterator[tuple[Broker, BrokerPeer]]:
    given = {"recallMessageEnable": "true", "brokerName": "broker-a", **settings}
    async with broker(clock=clock, files=files, **given) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=2)
        yield running, peer


async def waiting_pull(peer: BrokerPeer, queue_id: int = 0, offset: int = 0) -> Command:
    """What comes first from there, whenever it comes."""
    return await peer.request(pull(offset, flags=SUBSCRIPTION | SUSPEND, queueId=str(queue_id)), 20)


async def recall(peer: BrokerPeer, handle: str, topic: str = "T") -> Command:
    return await peer.ask(RequestCode.RECALL_MESSAGE, {"topic": topic, "recallHandle": handle, "producerGroup": "p"})


async def metrics(peer: BrokerPeer) -> dict[str, int]:
    answer = await peer.ask(RequestCode.GET_TIMER_METRICS)
    return {topic: one.count for topic, one in decode(TimerMetrics, answer.body).timing_count.items()}


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_message_comes_when_its_time_has_come_and_not_before(flush: str) -> None:
    """S149, C120."""
    async with scene(flushDiskType=flush) as (_, peer):
        sent_ms = SystemClock().wall_ms()
        answer = await send(peer, b"late", queue_id=1, TIMER_DELAY_SEC="2", TAGS="A", own="value", UNIQ_KEY="key")
        assert answer.ext["queueId"] == "1"
        assert RecallHandle.decode(answer.ext["recallHandle"]).unique_id == "key"
        assert (await peer.request(pull(0, queueId="1"), 5)).code == 19
        (found,) = decode_records((await waiting_pull(peer, 1)).body)
        assert sent_ms + 2000 <= found.store_ms <= sent_ms + 3500
        assert (found.body, found.topic, found.queue_id, found.tag) == (b"late", "T", 1, "A")
        assert found.properties["own"] == "value"
        assert set(found.properties) == {
            "TIMER_DELAY_SEC", "own", "TIMER_OUT_MS", "MSG_REGION", "UNIQ_KEY", "CLUSTER", "TIMER_ENQUEUE_MS", "TAGS",
            "TRACE_ON", "TIMER_DEQUEUE_MS", "REAL_TOPIC", "REAL_QID",
        }  # fmt: skip
        assert int(found.properties["TIMER_DEQUEUE_MS"]) >= sent_ms + 2000


async def test_each_of_the_three_properties_says_when(clock: FakeClock) -> None:
    """S149: seconds count more than milliseconds, and these more than a moment."""
    async with scene(clock=clock) as (_, peer):
        now_ms = clock.wall_ms()
        await send(peer, b"moment", TIMER_DELIVER_MS=str(now_ms + 30_000))
        await send(peer, b"ms", TIMER_DELAY_MS="20000", TIMER_DELIVER_MS=str(now_ms + 5000))
        await send(peer, b"s", TIMER_DELAY_SEC="10", TIMER_DELAY_MS="90000")
        for number, body in enumerate((b"s", b"ms", b"moment")):
            clock.advance(9.9)
            assert (await peer.request(pull(number), 5)).code == 19
            clock.advance(0.1)
            assert bodies(await waiting_pull(peer, offset=number)) == [body]


@pytest.mark.parametrize("properties", [{"TIMER_DELIVER_MS": "1"}, {"TIMER_DELAY_SEC": "0"}, {"TIMER_DELAY_MS": "-5"}])
async def test_time_in_the_past_is_no_timer(properties: dict[str, str]) -> None:
    """S150."""
    async with scene() as (_, peer):
        answer = await try_send(peer, properties=properties)
        assert answer.code == 0
        assert "recallHandle" not in answer.ext
        assert bodies(await peer.request(pull(0), 5)) == [b"x"]


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_MS": "9223372036854775807"},
        {"TIMER_DELIVER_MS": "9223372036854775807"},
        {"TIMER_DELAY_SEC": "9223372036854775807"},
        {"TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELAY_SEC": "1.5"},
        {"TIMER_DELAY_SEC": "99999999999999999999"},
    ],
)
async def test_time_beyond_the_limit_or_that_is_none_is_refused(properties: dict[str, str]) -> None:
    """S151."""
    async with scene() as (running, peer):
        answer = await try_send(peer, properties=properties)
        assert answer.code == 13
        assert "WHEEL_TIMER_MSG_ILLEGAL: " in (answer.remark or "")
        assert running.storage.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 0


async def test_message_that_could_not_be_delivered_is_refused_when_it_comes(clock: FakeClock) -> None:
    """It gets properties on its way; those that it has must leave room for them."""
    async with scene(clock=clock) as (running, peer):
        answers = [
            await try_send(peer, properties={"TIMER_DELAY_SEC": "10", "own": "x" * size})
            for size in range(32_300, 32_767, 20)
        ]
        codes = [answer.code for answer in answers]
        stored = codes.count(0)
        assert codes == [0] * stored + [13] * (len(codes) - stored)
        assert 0 < stored < len(codes)
        clock.advance(12)
        await until(lambda: running.storage.timers is not None and not running.storage.timers.metrics.timing_count)
        assert running.storage.store.max_offset("T", 0) == stored


async def test_nobody_sends_to_the_timer_topic_by_hand() -> None:
    """Apache takes such a message and delivers no timer message ever after."""
    async with scene() as (_, peer):
        assert (await try_send(peer, topic=WHEEL_TIMER_TOPIC)).code == 16


async def test_without_timers_such_messages_are_refused() -> None:
    """S153."""
    async with scene(timerWheelEnable="false") as (_, peer):
        answer = await try_send(peer, properties={"TIMER_DELAY_SEC": "3"})
        assert answer.code == 1
        assert "timerWheelEnable" in (answer.remark or "")
        assert (await peer.ask(RequestCode.GET_TIMER_METRICS)).code == 1
        assert (await peer.ask(RequestCode.GET_TIMER_CHECK_POINT)).code == 1


async def test_slot_that_is_full_takes_no_more(clock: FakeClock) -> None:
    async with scene(clock=clock, timerCongestNumEachSlot="2") as (running, peer):
        moment = {"TIMER_DELIVER_MS": str(clock.wall_ms() + 60_000)}
        for count in range(1, 5):
            while (await try_send(peer, properties=moment)).code:  # between twice and once as many it is chance
                pass
            while (await metrics(peer)).get("T", 0) < count:
                pass
        answer = await try_send(peer, properties=moment)
        assert answer.code == 1
        assert "WHEEL_TIMER_FLOW_CONTROL: " in (answer.remark or "")
        await send(peer, TIMER_DELIVER_MS=str(clock.wall_ms() + 62_000))
        assert running.storage.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 5


async def test_recalled_message_never_comes(clock: FakeClock) -> None:
    """S154."""
    async with scene(clock=clock) as (_, peer):
        answer = await send(peer, b"recalled", TIMER_DELAY_SEC="10", UNIQ_KEY="0A000001162E0102030400A1B2C30000")
        await send(peer, b"not recalled", TIMER_DELAY_SEC="10")
        recalled = await recall(peer, answer.ext["recallHandle"])
        assert (recalled.code, recalled.ext["msgId"]) == (0, "0A000001162E0102030400A1B2C30000")
        assert recalled.ext["MSG_REGION"] == "DefaultRegion"
        while await metrics(peer) != {"T": 1}:
            pass
        clock.advance(11)
        assert bodies(await waiting_pull(peer)) == [b"not recalled"]
        assert await metrics(peer) == {}
        assert (await recall(peer, answer.ext["recallHandle"])).code == 604
        clock.advance(100)
        await send(peer, b"last", TIMER_DELAY_SEC="1")
        clock.advance(2)
        assert bodies(await waiting_pull(peer, offset=1)) == [b"last"]


async def test_recall_of_a_key_that_begins_with_the_topic_meets_no_other(clock: FakeClock) -> None:
    """S154: Apache 5.3 writes topic and key into the marker, so the one of `T+key` looks as if it were for `key`."""
    async with scene(clock=clock) as (_, peer):
        answer = await send(peer, b"recalled", TIMER_DELAY_SEC="10", UNIQ_KEY="T+key")
        await send(peer, b"not recalled", TIMER_DELAY_SEC="10", UNIQ_KEY="key")
        assert (await recall(peer, answer.ext["recallHandle"])).code == 0
        clock.advance(11)
        assert bodies(await waiting_pull(peer)) == [b"not recalled"]


@pytest.mark.parametrize("is_with_topic", ["true", "false"])
async def test_marker_of_either_form_calls_its_message_back(clock: FakeClock, is_with_topic: str) -> None:
    """S154."""
    async with scene(clock=clock, appendTopicForTimerDeleteKey=is_with_topic) as (_, peer):
        answer = await send(peer, b"recalled", TIMER_DELAY_SEC="10", UNIQ_KEY="key")
        await send(peer, b"not recalled", TIMER_DELAY_SEC="10")
        assert (await recall(peer, answer.ext["recallHandle"])).code == 0
        clock.advance(11)
        assert bodies(await waiting_pull(peer)) == [b"not recalled"]


async def test_recall_that_is_switched_off_is_refused() -> None:
    """S154."""
    async with scene(recallMessageEnable="false") as (_, peer):
        assert (await recall(peer, "anything")).code == 16


async def test_forged_handle_is_refused_and_stores_nothing(clock: FakeClock) -> None:
    """S154."""
    soon_ms = clock.wall_ms() + 10_000
    async with scene(clock=clock) as (running, peer):
        await create_topic(peer, "Other")
        good = RecallHandle("T", "broker-a", soon_ms, "key")
        answers = [
            await recall(peer, "no base64!"),
            await recall(peer, "AAAA"),
            await recall(peer, "\udcff"),
            await recall(peer, "A" * 30_000),
            await recall(peer, good.encode(), topic="Other"),
            await recall(peer, RecallHandle("T", "broker-b", soon_ms, "key").encode()),
            await recall(peer, RecallHandle("T", "broker-a", clock.wall_ms(), "key").encode()),
            await recall(peer, RecallHandle("T", "broker-a", clock.wall_ms() + 259_200_000, "key").encode()),
            await recall(peer, RecallHandle("T", "broker-a", 2**63 - 1, "key").encode()),
        ]
        assert [answer.code for answer in answers] == [604] * len(answers)
        assert all(answer.remark for answer in answers)
        assert (await recall(peer, good.encode(), topic="Unknown")).code == 17
        assert running.storage.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 0


async def test_recall_of_a_stranger_leaves_all_as_it_was(clock: FakeClock) -> None:
    """A handle that somebody made up names no message, or one of another topic."""
    async with scene(clock=clock) as (_, peer):
        await create_topic(peer, "Other")
        deliver_ms = clock.wall_ms() + 10_000
        await send(peer, b"kept", TIMER_DELIVER_MS=str(deliver_ms), UNIQ_KEY="key")
        for topic in ("T", "Other"):
            forged = RecallHandle(topic, "broker-a", deliver_ms - 1, "nobody" if topic == "T" else "key")
            assert (await recall(peer, forged.encode(), topic)).code == 0
        clock.advance(11)
        assert bodies(await waiting_pull(peer)) == [b"kept"]
        assert await metrics(peer) == {}


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_timers_outlast_restarts_and_no_message_comes_twice(clock: FakeClock, flush: str) -> None:
    """S155; the broker is down for eight days, after which Apache's has lost them."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files, flushDiskType=flush) as (_, peer):
        await send(peer, b"before", TIMER_DELAY_SEC="1")
        await send(peer, b"after", TIMER_DELAY_SEC="10")
        await send(peer, b"much later", TIMER_DELAY_SEC="200000")
        clock.advance(2)
        assert bodies(await waiting_pull(peer)) == [b"before"]
    clock.advance(8 * 86_400)
    async with scene(clock=clock, files=files, flushDiskType=flush) as (_, peer):
        found = bodies(await waiting_pull(peer, offset=1))
        if len(found) == 1:
            found += bodies(await waiting_pull(peer, offset=2))
        assert found == [b"after", b"much later"]
        await send(peer, b"new", TIMER_DELAY_SEC="1")
        clock.advance(2)
        assert bodies(await waiting_pull(peer, offset=3)) == [b"new"]
        assert (await peer.request(pull(4), 5)).code == 19


async def test_clock_that_is_set_back_makes_no_moment_early() -> None:
    """Store times go on, an hour ahead of the clock on the wall; a moment is meant by that one."""
    clock = SteppingClock()
    async with scene(clock=clock) as (_, peer):
        await send(peer, b"before")
        clock.step(-3600)
        moment = str(clock.wall_ms() + 30_000)
        await send(peer, b"moment", TIMER_DELIVER_MS=moment)
        answer = await send(peer, b"recalled", TIMER_DELIVER_MS=moment, UNIQ_KEY="key")
        await send(peer, b"soon", TIMER_DELAY_SEC="20")
        assert (await recall(peer, answer.ext["recallHandle"])).code == 0
        clock.advance(19)
        assert (await peer.request(pull(1), 5)).code == 19
        clock.advance(2)
        assert bodies(await waiting_pull(peer, offset=1)) == [b"soon"]
        clock.advance(8)
        assert (await peer.request(pull(2), 5)).code == 19
        clock.advance(3)
        assert bodies(await waiting_pull(peer, offset=2)) == [b"moment"]
        assert await metrics(peer) == {}


async def test_broker_that_stops_while_it_delivers_brings_no_message_twice(clock: FakeClock) -> None:
    files, count = MemoryFileSystem(clock, capacity=2**30), 1000
    async with scene(clock=clock, files=files) as (running, peer):
        assert running.storage.store._hooks.is_needed == running.storage.has_late_timers
        for number in range(count):
            await send(peer, b"%d" % number, TIMER_DELIVER_MS=str(clock.wall_ms() + 5000))
        clock.advance(7)
        await waiting_pull(peer)
    async with scene(clock=clock, files=files) as (running, peer):
        await send(peer, b"last", TIMER_DELAY_SEC="1")
        clock.advance(3)
        await waiting_pull(peer, offset=count)
        assert running.storage.store.max_offset("T", 0) == count + 1


async def test_figures_tell_what_waits(clock: FakeClock) -> None:
    """`brokerStatus`, and what replicas ask."""
    async with scene(clock=clock) as (_, peer):
        for _ in range(3):
            await send(peer, TIMER_DELAY_SEC="10")
        while await metrics(peer) != {"T": 3}:
            pass
        checkpoint = (await peer.ask(RequestCode.GET_TIMER_CHECK_POINT)).body
        assert len(checkpoint) == 56
        assert int.from_bytes(checkpoint[16:24], "big") == int.from_bytes(checkpoint[24:32], "big") == 3
        status = (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body
        assert b'"timerCongestNum":"3"' in status
        assert b'"timerOffsetBehind":"0"' in status
        clock.advance(11)
        await waiting_pull(peer)
        assert b'"timerCongestNum":"0"' in (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body


async def test_idle_broker_has_no_files_of_timers(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (running, peer):
        await send(peer)
        root = running.storage.store.root
    assert not [name for name in files.list(root) if name.startswith("timer")]
    assert not [name for name in files.list(root / "config") if name.startswith("timer")]
