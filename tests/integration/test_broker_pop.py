"""Consumption without assigned queues: pops, acknowledgements, and what comes again."""

from __future__ import annotations

import asyncio
import random
from unittest.mock import patch

import pytest

from rocketline.broker.pop import offset_recovery
from rocketline.model.ids import QueueOffset
from rocketline.model.names import REVIVE_GROUP, WHEEL_TIMER_TOPIC
from rocketline.net.channel import Channel
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from rocketline.wire.pop_handles import PopHandle, PopMessage, PopQueue, TopicKind, parse_order_counts
from support.brokers.messages import create_topic, send
from support.brokers.pop_scenes import OFFSETS, REVIVE, again, nothing_comes, scene, send_many
from support.brokers.pops import ack, ack_many, bodies, change, handles, pop, popped
from support.brokers.running import BrokerPeer
from support.clients.members import until

# --- pops


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_popped_messages_are_for_nobody_else_of_the_group(flush: str) -> None:
    """S189, S192."""
    async with scene(flushDiskType=flush) as (running, peer):
        sent = await send_many(peer, 3)
        answer = await peer.request(pop(messages=2), 5)
        assert bodies(answer) == sent[:2]
        assert answer.remark == "FOUND"
        assert answer.ext["invisibleTime"] == "60000"
        assert answer.ext["startOffsetInfo"] == "0 0 0"
        assert answer.ext["msgOffsetInfo"] == "0 0 0,1"
        assert answer.ext["restNum"] == "1"
        assert set(answer.ext) == {
            "popTime", "invisibleTime", "reviveQid", "restNum", "startOffsetInfo", "msgOffsetInfo",
        }  # fmt: skip
        assert running.storage.offsets.query("g", "T", 0) == 2
        assert bodies(await peer.request(pop(), 5)) == sent[2:]
        assert (await peer.request(pop(), 5)).code == 210
        assert bodies(await peer.request(pop(consumerGroup="other"), 5)) == sent


async def test_pop_of_any_queue_tells_of_each(clock: FakeClock) -> None:
    """S189."""
    async with scene(clock=clock, queues=4) as (_, peer):
        for queue_id in range(4):
            await send_many(peer, 2, queue_id=queue_id)
        answer = await peer.request(pop(), 5)
        assert sorted((m.queue_id, m.queue_offset) for m, _ in popped(answer)) == [
            (q, o) for q in range(4) for o in (0, 1)
        ]
        assert sorted(answer.ext["startOffsetInfo"].split(";")) == [f"0 {queue_id} 0" for queue_id in range(4)]
        assert (await peer.request(pop(), 5)).code == 210


async def test_pop_of_one_queue_leaves_the_others() -> None:
    async with scene(queues=2) as (_, peer):
        await send(peer, b"first", queue_id=0)
        await send(peer, b"second", queue_id=1)
        assert bodies(await peer.request(pop(queueId="1"), 5)) == [b"second"]
        assert (await peer.request(pop(queueId="1"), 5)).code == 210


async def test_pop_takes_what_it_wants_and_passes_the_rest_by(clock: FakeClock) -> None:
    """S189: each message has its own offset."""
    async with scene(clock=clock) as (running, peer):
        for number, tag in enumerate("ABBA"):
            await send(peer, b"%d" % number, TAGS=tag)
        answer = await peer.request(pop(exp="A"), 5)
        assert bodies(answer) == [b"0", b"3"]
        assert (answer.ext["startOffsetInfo"], answer.ext["msgOffsetInfo"]) == ("0 0 0", "0 0 0,3")
        await send(peer, b"4", TAGS="B")
        assert (await peer.request(pop(exp="A"), 5)).code == 210
        assert running.storage.offsets.query("g", "T", 0) == 5


async def test_pop_by_an_expression_in_sql() -> None:
    async with scene() as (_, peer):
        await send(peer, b"red", color="red")
        await send(peer, b"blue", color="blue")
        assert bodies(await peer.request(pop(expType="SQL92", exp="color = 'blue'"), 5)) == [b"blue"]
        assert (await peer.request(pop(expType="SQL92", exp="color ="), 5)).code == 23


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"maxMsgNums": "33"}, 29),
        ({"topic": "nope"}, 17),
        ({"queueId": "1"}, 29),
        ({"exp": "||"}, 23),
        ({"attemptId": "a" * 256}, 29),
        ({"bornTime": "1000"}, 210),
        ({"invisibleTime": str(2**62)}, 29),
        ({"invisibleTime": "soon"}, 1),
        ({"maxMsgNums": "0"}, 210),
        ({"maxMsgNums": "-5"}, 1),
    ],
)
async def test_pop_that_is_wrong_is_refused(fields: dict[str, str], code: int) -> None:
    """S188, S195."""
    async with scene() as (_, peer):
        await send(peer)
        answer = await peer.request(Command(RequestCode.POP_MESSAGE, pop().ext | fields), 5)
        assert answer.code == code, answer.remark
        assert answer.remark
        if fields.keys() != {"invisibleTime"} or code != 1:
            assert {"popTime", "invisibleTime", "reviveQid", "restNum"} <= set(answer.ext)
        assert bodies(await peer.request(pop(), 5)) == [b"x"]


async def test_what_may_not_be_read_is_not_popped() -> None:
    """S188."""
    async with scene() as (_, peer):
        await create_topic(peer, "W", perm=2)
        assert (await peer.request(pop(topic="W"), 5)).code == 16
    async with scene(brokerPermission="2") as (_, peer):
        assert (await peer.request(pop(), 5)).code == 16
    async with scene(autoCreateSubscriptionGroup="false") as (_, peer):
        assert (await peer.request(pop(), 5)).code == 26


async def test_without_timers_nobody_pops() -> None:
    """S153."""
    async with scene(timerWheelEnable="false") as (_, peer):
        answer = await peer.request(pop(), 5)
        assert answer.code == 1
        assert "timerWheelEnable" in (answer.remark or "")


async def test_batch_queues_cannot_be_popped() -> None:
    async with scene() as (_, peer):
        ext = {"topic": "B", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        ext |= {"topicFilterType": "SINGLE_TAG", "attributes": "+queue.type=BatchCQ"}
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)).code == 0
        assert (await peer.request(pop(topic="B"), 5)).code == 29


async def test_new_group_begins_where_it_says(clock: FakeClock) -> None:
    """S197."""
    async with scene(clock=clock, accessMessageInMemoryMaxRatio="0") as (_, peer):
        sent = await send_many(peer, 3)
        assert bodies(await peer.request(pop(initMode="1"), 5)) == sent[2:]
        assert bodies(await peer.request(pop(consumerGroup="other"), 5)) == sent
    async with scene(clock=clock) as (_, peer):
        sent = await send_many(peer, 3)
        assert bodies(await peer.request(pop(initMode="1"), 5)) == sent


async def test_group_that_was_sent_elsewhere_pops_there(clock: FakeClock) -> None:
    async with scene(clock=clock) as (running, peer):
        sent = await send_many(peer, 3)
        assert bodies(await peer.request(pop(), 5)) == sent
        running.storage.offsets.assign_reset("g", "T", 0, 1)
        assert bodies(await peer.request(pop(), 5)) == sent[1:]
        assert (await peer.request(pop(), 5)).code == 210


# --- acknowledgements, and what comes again


@pytest.mark.parametrize("merge", ["false", "true"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_acknowledged_message_does_not_come_again_and_the_others_do(
    clock: FakeClock, flush: str, merge: str
) -> None:
    """S190, S191."""
    async with scene(clock=clock, flushDiskType=flush, enablePopBufferMerge=merge) as (running, peer):
        await send_many(peer, 4, TAGS="A", own="value")
        answer = await peer.request(pop(invisible_ms=10_000), 5)
        acked = handles(answer)[1:3]
        assert (await ack(peer, acked[0])).code == 0
        assert (await ack_many(peer, acked[1:])).code == 0
        clock.advance(9)
        assert (await peer.request(pop(), 5)).code == 210
        found = popped(await again(peer, clock, after_s=5))
        found += popped(await again(peer, clock, after_s=0)) if len(found) < 2 else []
        assert [message.body for message, _ in found] == [b"0", b"3"]
        for message, handle in found:
            assert (message.topic, message.queue_id, message.reconsume_times, message.tag) == ("T", 0, 1, "A")
            assert message.properties["1ST_POP_TIME"] == answer.ext["popTime"]
            assert message.properties["ORIGIN_GROUP"] == "g"
            assert message.properties["own"] == "value"
            assert (await ack(peer, handle)).code == 0
        await nothing_comes(peer, running, clock, within_s=100)
        assert running.storage.store.max_offset("%RETRY%g_T", 0) == 2


async def test_message_comes_again_and_again(clock: FakeClock) -> None:
    """S203."""
    async with scene(clock=clock) as (_, peer):
        await send(peer, b"stubborn")
        answer = await peer.request(pop(invisible_ms=1000), 5)
        for times in range(1, 19):
            answer = await again(peer, clock, after_s=6, invisible_ms=1000)
            ((message, _),) = popped(answer)
            assert (message.body, message.topic, message.reconsume_times) == (b"stubborn", "T", times)


async def test_new_invisible_time_counts_from_now(clock: FakeClock) -> None:
    """S200."""
    async with scene(clock=clock) as (running, peer):
        await send_many(peer, 2)
        first, second = handles(await peer.request(pop(invisible_ms=10_000), 5))
        clock.advance(8)
        answer = await change(peer, first, 30_000)
        assert answer.code == 0
        assert answer.ext == {
            "popTime": str(clock.wall_ms()), "invisibleTime": "30000", "reviveQid": str(first.revive_queue_id),
        }  # fmt: skip
        assert (await ack(peer, second)).code == 0
        await nothing_comes(peer, running, clock, within_s=20)
        assert (await ack(peer, first)).code == 0
        assert bodies(await again(peer, clock, after_s=15)) == [b"0"]


async def test_message_that_is_put_off_can_be_acknowledged_by_its_new_handle(clock: FakeClock) -> None:
    """S200."""
    async with scene(clock=clock) as (running, peer):
        await send(peer)
        (first,) = handles(await peer.request(pop(invisible_ms=10_000), 5))
        answer = await change(peer, first, 5000)
        renewed = first.renewed(int(answer.ext["popTime"]), 5000, int(answer.ext["reviveQid"]))
        assert (await ack(peer, renewed)).code == 0
        await nothing_comes(peer, running, clock, within_s=60)


async def test_message_that_is_put_off_at_once_takes_no_other_with_it(clock: FakeClock) -> None:
    """S200: its new checkpoint is of the millisecond of the pop, and begins at the same message."""
    async with scene(clock=clock) as (_, peer):
        await send_many(peer, 2)
        first, _ = handles(await peer.request(pop(invisible_ms=5000), 5))
        answer = await change(peer, first, 500)
        assert answer.ext["popTime"] == str(first.pop_ms + 1)
        assert bodies(await again(peer, clock, after_s=4)) == [b"0"]
        assert bodies(await again(peer, clock, after_s=5)) == [b"1"]


async def test_message_that_is_given_back_comes_soon(clock: FakeClock) -> None:
    async with scene(clock=clock) as (_, peer):
        await send(peer, b"given back")
        (handle,) = handles(await peer.request(pop(invisible_ms=600_000), 5))
        assert (await change(peer, handle, 0)).code == 0
        assert bodies(await again(peer, clock, after_s=4)) == [b"given back"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nope"}, 17),
        ({"queueId": "9"}, 13),
        ({"queueId": "-1"}, 13),
        ({"offset": "77"}, 208),
        ({"offset": "-1"}, 208),
        ({"liteTopic": "lite"}, 29),
        ({"extraInfo": "nonsense"}, 1),
        ({"extraInfo": f"0 1 2 3 4 {'9' * 30} 0 0"}, 1),
        ({"extraInfo": "0 1 2 100 0 broker-a 0 0"}, 0),
        ({"extraInfo": f"0 {2**62} {2**62} 0 0 broker-a 0 0"}, 0),
        ({"extraInfo": "0 1700000000000 10000 0 0 broker-a 0 0"}, 0),
        ({"extraInfo": "5 1600000000000 10000 0 0 other 7 9"}, 0),
        ({"extraInfo": "0 1700000000000 10000 999 0 broker-a 0 0"}, 0),
    ],
)
async def test_handle_that_is_wrong_changes_nothing(clock: FakeClock, fields: dict[str, str], code: int) -> None:
    """S198: nobody gave it, another broker gave it, or it is long over."""
    async with scene(clock=clock) as (running, peer):
        await send(peer, b"kept")
        clock.advance(1)
        (handle,) = handles(await peer.request(pop(invisible_ms=10_000), 5))
        answer = await ack(peer, handle, **fields)
        assert answer.code == code, answer.remark
        assert bodies(await again(peer, clock, after_s=14)) == [b"kept"]
        assert set(running.storage.store.queues_of(REVIVE)) <= set(range(8))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nope"}, 17),
        ({"queueId": "9"}, 13),
        ({"offset": "1"}, 208),
        ({"extraInfo": "nonsense"}, 1),
        ({"extraInfo": "0 1 2 100 0 broker-a 0 0"}, 13),
        ({"extraInfo": f"0 {2**62} {2**62} 0 0 broker-a 0 0"}, 13),
        ({"invisibleTime": "259200001"}, 1),
        ({"invisibleTime": str(2**62)}, 1),
    ],
)
async def test_message_cannot_be_put_off_by_a_handle_that_is_wrong(
    clock: FakeClock, fields: dict[str, str], code: int
) -> None:
    """S200: Apache's broker takes one that names no revive queue, and never lets the message come again."""
    async with scene(clock=clock) as (_, peer):
        await send(peer, b"kept")
        (handle,) = handles(await peer.request(pop(invisible_ms=10_000), 5))
        answer = await change(peer, handle, 1000, **fields)
        assert answer.code == code, answer.remark
        if code != 1 or "invisibleTime" in fields:
            assert answer.ext == {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}
        assert bodies(await again(peer, clock, after_s=14)) == [b"kept"]


async def test_repeated_acknowledgement_is_answered_well(clock: FakeClock) -> None:
    """S198."""
    async with scene(clock=clock) as (running, peer):
        await send(peer)
        (handle,) = handles(await peer.request(pop(invisible_ms=5000), 5))
        assert [(await ack(peer, handle)).code for _ in range(3)] == [0, 0, 0]
        await nothing_comes(peer, running, clock, within_s=30)
        assert (await ack(peer, handle)).code == 0
        await nothing_comes(peer, running, clock, within_s=30)


async def test_batch_of_acknowledgements_that_is_empty_or_wrong() -> None:
    """S199."""
    async with scene() as (_, peer):
        await send(peer)
        assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE)).code == 208
        assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=b"{}")).code == 208
        assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=b'{"acks":[]}')).code == 208
        assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=b"no json")).code == 1
        assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=b'{"acks":[{}]}')).code == 1
        many = b'{"acks":[{"c":"g","t":"T","r":"0","b":"%s"}]}' % (b"/" * 4096)
        assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=many)).code == 1
        (handle,) = handles(await peer.request(pop(), 5))
        assert (await ack_many(peer, [handle, handle])).code == 0
        assert (await ack_many(peer, [handle], topic="nope")).code == 0


async def test_batch_of_very_many_acknowledgements_is_refused() -> None:
    async with scene() as (running, peer):
        await send(peer)
        (handle,) = handles(await peer.request(pop(), 5))
        assert (await ack_many(peer, [handle] * 4096)).code == 0
        stored = running.storage.store.max_offset(WHEEL_TIMER_TOPIC, 0)
        refused = await ack_many(peer, [handle] * 4097)
        assert (refused.code, "4097" in (refused.remark or "")) == (29, True)
        assert running.storage.store.max_offset(WHEEL_TIMER_TOPIC, 0) == stored


@pytest.mark.parametrize(("v2", "topic"), [("false", "%RETRY%g_T"), ("true", "%RETRY%g+T")])
async def test_retry_topic_of_either_spelling(clock: FakeClock, v2: str, topic: str) -> None:
    async with scene(clock=clock, enableRetryTopicV2=v2) as (running, peer):
        await send(peer, b"late")
        await peer.request(pop(invisible_ms=1000), 5)
        answer = await again(peer, clock, after_s=6)
        assert bodies(answer) == [b"late"]
        assert answer.ext["startOffsetInfo"] == f"{'2' if v2 == 'true' else '1'} 0 0"
        assert running.storage.topics.get(topic) is not None
        assert (await ack(peer, handles(answer)[0])).code == 0
        await nothing_comes(peer, running, clock, within_s=100)


async def test_messages_of_the_other_spelling_are_read_as_well(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (running, peer):
        await send(peer, b"before")
        await peer.request(pop(invisible_ms=1000), 5)
        clock.advance(6)
        await until(lambda: running.storage.store.max_offset("%RETRY%g_T", 0) == 1)
    async with scene(clock=clock, files=files, enableRetryTopicV2="true") as (_, peer):
        while (answer := await peer.request(pop(), 5)).code:  # half of the pops look there
            pass
        assert bodies(answer) == [b"before"]


async def test_retry_topic_shows_if_that_is_wanted(clock: FakeClock) -> None:
    async with scene(clock=clock, popResponseReturnActualRetryTopic="true") as (_, peer):
        await send(peer, b"late")
        await peer.request(pop(invisible_ms=1000), 5)
        answer = await again(peer, clock, after_s=6)
        (found,) = decode_records(answer.body)
        assert (found.topic, "POP_CK" in found.properties) == ("%RETRY%g_T", False)


async def test_deleted_group_gets_nothing_again(clock: FakeClock) -> None:
    async with scene(clock=clock) as (running, peer):
        await send(peer)
        await peer.request(pop(invisible_ms=1000), 5)
        running.storage.groups.delete("g")
        clock.advance(60)
        await until(lambda: running.storage.offsets.query(REVIVE_GROUP, REVIVE, 0) == 0)
        assert running.storage.topics.get("%RETRY%g_T") is None


@pytest.mark.parametrize("merge", ["false", "true"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_invisible_times_outlast_a_restart(clock: FakeClock, flush: str, merge: str) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files, flushDiskType=flush, enablePopBufferMerge=merge) as (_, peer):
        await send_many(peer, 2)
        first, _ = handles(await peer.request(pop(invisible_ms=30_000), 5))
        assert (await ack(peer, first)).code == 0
    clock.advance(10)
    async with scene(clock=clock, files=files, flushDiskType=flush) as (running, peer):
        assert (await peer.request(pop(), 5)).code == 210
        answer = await again(peer, clock, after_s=25, invisible_ms=5000)
        assert bodies(answer) == [b"1"]
        assert (await ack(peer, handles(answer)[0])).code == 0
        await nothing_comes(peer, running, clock, within_s=60)
    async with scene(clock=clock, files=files, flushDiskType=flush) as (running, peer):
        await nothing_comes(peer, running, clock, within_s=60)
        assert running.storage.store.max_offset("%RETRY%g_T", 0) == 1


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_offsets_that_a_crash_lost_are_found_in_the_log(clock: FakeClock, flush: str) -> None:
    """S190, S192: they are saved every few seconds; what was popped meanwhile is nobody else's all the same."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files, flushDiskType=flush) as (running, peer):
        await send_many(peer, 6)
        await peer.request(pop(messages=1, invisible_ms=30_000), 5)
        await until(lambda: bool(files.read_file(OFFSETS)))
        before = files.read_file(OFFSETS)
        held = handles(await peer.request(pop(messages=2, invisible_ms=30_000), 5))
        held += handles(await peer.request(pop(messages=1, invisible_ms=0), 5))
        assert (await ack(peer, held[0])).code == 0
        assert running.storage.offsets.query("g", "T", 0) == 4
    assert before is not None
    files.write_file(OFFSETS, before)
    async with scene(clock=clock, files=files, flushDiskType=flush) as (running, peer):
        assert running.storage.offsets.query("g", "T", 0) == 4
        assert bodies(await peer.request(pop(), 5)) == [b"4", b"5"]
        assert bodies(await again(peer, clock, after_s=4)) == [b"3"]
        found = bodies(await again(peer, clock, after_s=31))
        found += bodies(await again(peer, clock, after_s=0)) if len(found) < 2 else []
        assert sorted(found) == [b"0", b"2"]


async def test_new_group_goes_on_after_a_crash_behind_what_it_popped_one_by_one(clock: FakeClock) -> None:
    """No offset of it was saved, not even where it began."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (_, peer):
        sent = await send_many(peer, 3)
        await peer.request(pop(), 5)
        await until(lambda: bool(files.read_file(OFFSETS)))
        before = files.read_file(OFFSETS)
        for body in sent[:2]:
            assert bodies(await peer.request(pop(messages=1, consumerGroup="new"), 5)) == [body]
    assert before is not None
    files.write_file(OFFSETS, before)
    async with scene(clock=clock, files=files) as (_, peer):
        assert bodies(await peer.request(pop(consumerGroup="new"), 5)) == sent[2:]


async def test_pops_of_one_message_are_found_in_the_log_however_long_they_are_invisible(clock: FakeClock) -> None:
    """S190: those for a second are in another topic than the others, and are read behind them."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (_, peer):
        sent = await send_many(peer, 6)
        await peer.request(pop(messages=1), 5)
        await until(lambda: bool(files.read_file(OFFSETS)))
        before = files.read_file(OFFSETS)
        for invisible_ms in (1000, 30_000, 1000, 30_000):
            await peer.request(pop(messages=1, invisible_ms=invisible_ms), 5)
    assert before is not None
    files.write_file(OFFSETS, before)
    async with scene(clock=clock, files=files) as (running, peer):
        assert running.storage.offsets.query("g", "T", 0) == 5
        assert bodies(await peer.request(pop(), 5)) == sent[5:]


async def test_message_put_off_raises_no_offset_of_a_group_that_was_sent_back(clock: FakeClock) -> None:
    """Its new checkpoint is the last that the log has, and tells nothing of the messages before it."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (running, peer):
        sent = await send_many(peer, 6)
        held = handles(await peer.request(pop(messages=5), 5))
        running.storage.offsets.assign_reset("g", "T", 0, 0)
        assert bodies(await peer.request(pop(messages=1), 5)) == sent[:1]
        running.storage.pops.note()
        running.storage.offsets.save()
        before = files.read_file(OFFSETS)
        assert (await change(peer, held[4], 120_000)).code == 0
    assert before is not None
    files.write_file(OFFSETS, before)
    async with scene(clock=clock, files=files) as (running, peer):
        assert running.storage.offsets.query("g", "T", 0) == 1
        assert bodies(await peer.request(pop(), 5)) == sent[1:]


async def test_start_after_a_crash_looks_through_no_more_than_was_popped_since(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has popped once; since then there were messages for a moment only."""
    monkeypatch.setattr(offset_recovery, "_FAR", 10)
    async with scene(clock=clock) as (running, peer):
        await send(peer)
        (handle,) = handles(await peer.request(pop(), 5))
        assert (await ack(peer, handle)).code == 0
        running.services._save_offsets()
        await until(lambda: running.storage.pops._marks[0] == 2)
        for _ in range(50):
            await send(peer, TIMER_DELAY_SEC="3600")
        running.services._save_offsets()
        await until(lambda: running.storage.pops._marks[0] >= 52)
        with patch.object(MessageStore, "message_at", autospec=True, side_effect=MessageStore.message_at) as looks:
            running.storage.pops.recover()
        assert looks.call_count < 10


async def test_offsets_are_not_raised_over_what_was_in_memory(clock: FakeClock) -> None:
    """What the log knows of pops has gaps then, which are popped anew."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files, enablePopBufferMerge="true") as (running, peer):
        sent = await send_many(peer, 4)
        await peer.request(pop(messages=2), 5)
        await until(lambda: bool(files.read_file(OFFSETS)))
        before = files.read_file(OFFSETS)
        assert bodies(await peer.request(pop(messages=1, invisible_ms=4000), 5)) == sent[2:3]
        running.services.merge._buffered.clear()
    assert before is not None
    files.write_file(OFFSETS, before)
    async with scene(clock=clock, files=files) as (_, peer):
        assert bodies(await peer.request(pop(), 5)) == sent


# --- the merge in memory


async def test_what_is_acknowledged_while_its_checkpoint_is_young_is_never_stored(clock: FakeClock) -> None:
    """S190."""
    async with scene(clock=clock, enablePopBufferMerge="true") as (running, peer):
        sent = await send_many(peer, 4)
        first = handles(await peer.request(pop(messages=2), 5))
        second = handles(await peer.request(pop(messages=2), 5))
        assert (await peer.request(pop(), 5)).code == 210
        assert running.storage.offsets.query("g", "T", 0) == 0
        assert (await ack_many(peer, second)).code == 0
        assert running.storage.offsets.query("g", "T", 0) == 0
        for handle in first:
            assert (await ack(peer, handle)).code == 0
        assert running.storage.offsets.query("g", "T", 0) == len(sent)
        await nothing_comes(peer, running, clock, within_s=100)
        for topic in (WHEEL_TIMER_TOPIC, REVIVE):
            assert running.storage.store.max_offset(topic, 0) == 0


@pytest.mark.parametrize(("batch", "tags"), [("false", ["ck", "ack", "ack"]), ("true", ["ck", "bAck"])])
async def test_checkpoint_that_has_stayed_long_enough_is_stored_with_its_acknowledgements(
    clock: FakeClock, batch: str, tags: list[str]
) -> None:
    """S190, S191, S192."""
    async with scene(clock=clock, enablePopBufferMerge="true", enablePopBatchAck=batch) as (running, peer):
        await send_many(peer, 3)
        held = handles(await peer.request(pop(), 5))
        for handle in held[:2]:
            assert (await ack(peer, handle)).code == 0
        clock.advance(10)
        await until(lambda: running.storage.offsets.query("g", "T", 0) == 3)
        stored = decode_records(b"".join(running.storage.store.read(WHEEL_TIMER_TOPIC, 0, 0, 32, None).records))
        assert [message.tag for message in stored] == tags
        assert bodies(await again(peer, clock, after_s=55)) == [b"2"]


async def test_checkpoint_without_room_or_time_is_stored_at_once(clock: FakeClock) -> None:
    async with scene(clock=clock, enablePopBufferMerge="true", popCkMaxBufferSize="1") as (running, peer):
        await send_many(peer, 3)
        merge, store = running.services.merge, running.storage.store
        await peer.request(pop(messages=1, invisible_ms=4000), 5)
        assert (len(merge), store.max_offset(WHEEL_TIMER_TOPIC, 0)) == (0, 1)
        await peer.request(pop(messages=1), 5)
        assert (len(merge), store.max_offset(WHEEL_TIMER_TOPIC, 0)) == (1, 1)
        await peer.request(pop(messages=1), 5)
        assert (len(merge), store.max_offset(WHEEL_TIMER_TOPIC, 0)) == (1, 2)


async def test_message_in_memory_can_be_put_off(clock: FakeClock) -> None:
    """S200."""
    async with scene(clock=clock, enablePopBufferMerge="true") as (running, peer):
        await send(peer, b"later")
        (first,) = handles(await peer.request(pop(), 5))
        answer = await change(peer, first, 5000)
        renewed = first.renewed(int(answer.ext["popTime"]), 5000, int(answer.ext["reviveQid"]))
        assert len(running.services.merge) == 0
        assert running.storage.offsets.query("g", "T", 0) == 1
        assert bodies(await again(peer, clock, after_s=9)) == [b"later"]
        assert (await ack(peer, renewed)).code == 0


async def test_what_a_kill_takes_from_memory_is_popped_anew(clock: FakeClock) -> None:
    """Nothing is lost; that it comes at once is what Apache's broker promises as well."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files, enablePopBufferMerge="true") as (running, peer):
        sent = await send_many(peer, 2)
        first, _ = handles(await peer.request(pop(), 5))
        assert (await ack(peer, first)).code == 0
        running.services.merge._buffered.clear()
    async with scene(clock=clock, files=files, enablePopBufferMerge="true") as (_, peer):
        assert bodies(await peer.request(pop(), 5)) == sent


# --- in order


async def test_queue_is_closed_until_its_messages_are_acknowledged(clock: FakeClock) -> None:
    """S201, S192."""
    async with scene(clock=clock) as (running, peer):
        sent = await send_many(peer, 6)
        orderly = pop(messages=4, invisible_ms=30_000, order="true", attemptId="first")
        answer = await peer.request(orderly, 5)
        assert bodies(answer) == sent[:4]
        assert (answer.ext["reviveQid"], answer.ext["orderCountInfo"]) == ("999", "0 0 0")
        assert running.storage.offsets.query("g", "T", 0) == 0
        held = handles(answer)
        assert (await ack(peer, held[0])).code == 0
        assert running.storage.offsets.query("g", "T", 0) == 1
        assert (await peer.request(pop(order="true", attemptId="second"), 5)).code == 210
        assert (await peer.request(pop(order="true"), 5)).code == 210
        for handle in held[2:]:
            assert (await ack(peer, handle)).code == 0
        assert running.storage.offsets.query("g", "T", 0) == 1
        assert (await ack_many(peer, held[1:2])).code == 0
        assert running.storage.offsets.query("g", "T", 0) == 4
        assert bodies(await peer.request(pop(order="true", attemptId="third"), 5)) == sent[4:]


async def test_same_attempt_gets_its_messages_again(clock: FakeClock) -> None:
    """S201: nothing counts as popped twice."""
    async with scene(clock=clock) as (_, peer):
        sent = await send_many(peer, 2)
        orderly = pop(order="true", attemptId="first")
        assert bodies(await peer.request(orderly, 5)) == sent
        answer = await peer.request(orderly, 5)
        assert (bodies(answer), answer.ext["orderCountInfo"]) == (sent, "0 0 0")


async def test_message_that_is_visible_again_tells_how_often_it_was_popped(clock: FakeClock) -> None:
    """S202."""
    async with scene(clock=clock) as (_, peer):
        sent = await send_many(peer, 2)
        for times in range(4):
            answer = await peer.request(pop(messages=1 + times % 2, invisible_ms=10_000, order="true"), 5)
            assert bodies(answer)[0] == sent[0]
            counts = parse_order_counts(answer.ext["orderCountInfo"])
            assert counts.get(PopMessage(TopicKind.NORMAL, 0, QueueOffset(0)), 0) == times
            assert counts[PopQueue(TopicKind.NORMAL, 0)] == (times if times in (0, 2) else 0)
            clock.advance(10)


async def test_message_that_is_put_off_keeps_its_queue_closed(clock: FakeClock) -> None:
    """S200, S201: in order, only the time changes."""
    async with scene(clock=clock) as (_, peer):
        await send_many(peer, 2)
        first, second = handles(await peer.request(pop(invisible_ms=10_000, order="true"), 5))
        clock.advance(5)
        answer = await change(peer, first, 20_000)
        assert answer.ext == {"popTime": str(first.pop_ms), "invisibleTime": "25000", "reviveQid": "999"}
        assert (await ack(peer, second)).code == 0
        clock.advance(19)
        assert (await peer.request(pop(order="true"), 5)).code == 210
        clock.advance(1)
        assert bodies(await peer.request(pop(order="true"), 5)) == [b"0", b"1"]


async def test_acknowledgement_that_does_not_fit_the_last_orderly_pop(clock: FakeClock) -> None:
    """S198: one of an older pop changes nothing, one of no pop at all is refused."""
    async with scene(clock=clock) as (running, peer):
        await send_many(peer, 4)
        (old,) = handles(await peer.request(pop(messages=1, invisible_ms=1000, order="true"), 5))
        clock.advance(1)
        (fresh,) = handles(await peer.request(pop(messages=1, order="true"), 5))
        assert (await ack(peer, old)).code == 0
        assert (await peer.request(pop(order="true"), 5)).code == 210
        assert (await ack(peer, fresh, offset="2")).code == 13
        assert (await ack(peer, fresh)).code == 0
        assert (await ack(peer, fresh)).code == 0
        assert running.storage.offsets.query("g", "T", 0) == 1
        assert running.storage.store.max_offset(REVIVE, 0) == 0


@pytest.mark.parametrize("way", ["ack", "many", "change"])
async def test_handle_in_order_of_no_pop_that_is_known_passes_nothing_by(clock: FakeClock, way: str) -> None:
    """Apache's broker lets the group go on behind the message."""
    async with scene(clock=clock) as (running, peer):
        sent = await send_many(peer, 5)
        now_ms = clock.wall_ms()
        forged = PopHandle.parse(f"0 {now_ms} 60000 999 0 broker-a 0 3")
        if way == "ack":
            answer = await ack(peer, forged)
        else:
            answer = await ack_many(peer, [forged]) if way == "many" else await change(peer, forged, 1000)
        assert answer.code == 0
        assert running.storage.offsets.query("g", "T", 0) == -1
        assert bodies(await peer.request(pop(), 5)) == sent


async def test_order_that_a_kill_forgot_loses_nothing(clock: FakeClock) -> None:
    """What was popped in the last seconds in order is not known any more, and is popped anew."""
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (running, peer):
        sent = await send_many(peer, 4)
        held = handles(await peer.request(pop(messages=3, order="true"), 5))
        running.storage.orders.forget("T", "g", 0)
    async with scene(clock=clock, files=files) as (_, peer):
        assert (await ack(peer, held[2])).code == 0
        assert bodies(await peer.request(pop(order="true"), 5)) == sent


async def test_orderly_pop_that_waits_is_answered_when_its_queue_opens(clock: FakeClock) -> None:
    """S201: by an acknowledgement, or because the invisible time is over."""
    async with scene(clock=clock) as (running, peer), asyncio.TaskGroup() as tasks:
        await send_many(peer, 3)
        (first,) = handles(await peer.request(pop(messages=1, invisible_ms=10_000, order="true"), 5))
        waiting = tasks.create_task(peer.request(pop(60_000, messages=1, invisible_ms=10_000, order="true"), 20))
        await until(lambda: len(running.services.held_pops) == 1)
        assert (await ack(peer, first)).code == 0
        assert bodies(await waiting) == [b"1"]
        waiting = tasks.create_task(peer.request(pop(60_000, order="true"), 20))
        await until(lambda: len(running.services.held_pops) == 1)
        clock.advance(10)
        assert bodies(await waiting) == [b"1", b"2"]


async def test_notification_in_order_tells_of_open_queues_only(clock: FakeClock) -> None:
    """S205."""
    async with scene(clock=clock) as (_, peer):
        await send_many(peer, 2)
        asked = {"consumerGroup": "g", "topic": "T", "queueId": "-1", "bornTime": "0", "pollTime": "0", "order": "true"}
        assert (await peer.ask(RequestCode.NOTIFICATION, asked)).ext["hasMsg"] == "true"
        await peer.request(pop(messages=1, invisible_ms=10_000, order="true"), 5)
        assert (await peer.ask(RequestCode.NOTIFICATION, asked)).ext["hasMsg"] == "false"
        clock.advance(10)
        assert (await peer.ask(RequestCode.NOTIFICATION, asked)).ext["hasMsg"] == "true"


async def test_order_outlasts_a_restart(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(clock=clock, files=files) as (_, peer):
        await send_many(peer, 3)
        held = handles(await peer.request(pop(messages=2, invisible_ms=30_000, order="true"), 5))
        assert (await ack(peer, held[0])).code == 0
    async with scene(clock=clock, files=files) as (running, peer):
        assert (await peer.request(pop(order="true"), 5)).code == 210
        assert (await ack(peer, held[1])).code == 0
        assert bodies(await peer.request(pop(order="true"), 5)) == [b"2"]
        running.storage.offsets.assign_reset("g", "T", 0, 0)
        assert bodies(await peer.request(pop(order="true"), 5)) == [b"0", b"1", b"2"]


# --- waiting


async def test_pop_that_finds_nothing_waits_for_its_time(clock: FakeClock) -> None:
    """S193, S194."""
    async with scene(clock=clock) as (running, peer), asyncio.TaskGroup() as tasks:
        assert (await peer.request(pop(), 5)).code == 210
        waiting = tasks.create_task(peer.request(pop(5000), 20))
        await until(lambda: len(running.services.held_pops) == 1)
        clock.advance(4.9)
        await asyncio.sleep(0.15)
        assert not waiting.done()
        clock.advance(0.1)
        answer = await waiting
        assert (answer.code, answer.remark) == (210, "NO_MESSAGE_IN_QUEUE")
        assert (answer.ext["startOffsetInfo"], answer.ext["msgOffsetInfo"]) == ("", "")


@pytest.mark.parametrize("queue_id", ["-1", "0"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_waiting_pop_gets_the_message_that_comes(queue_id: str, flush: str) -> None:
    """S193."""
    async with scene(flushDiskType=flush) as (running, peer), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(peer.request(pop(15_000, queueId=queue_id), 20))
        await until(lambda: len(running.services.held_pops) == 1)
        await send(peer, b"here")
        assert bodies(await waiting) == [b"here"]


async def test_one_message_wakes_one_pop_that_wants_it() -> None:
    async with scene() as (running, peer), asyncio.TaskGroup() as tasks:
        red = tasks.create_task(peer.request(pop(15_000, exp="red"), 20))
        blue = tasks.create_task(peer.request(pop(15_000, exp="blue", consumerGroup="other"), 20))
        await until(lambda: len(running.services.held_pops) == 2)
        await send(peer, b"sea", TAGS="blue")
        assert bodies(await blue) == [b"sea"]
        await send(peer, b"rose", TAGS="red")
        assert bodies(await red) == [b"rose"]


async def test_as_many_wait_as_may(clock: FakeClock) -> None:
    """S196, S206."""
    async with scene(clock=clock, popPollingSize="3") as (_, peer), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(peer.request(pop(15_000), 20)) for _ in range(6)]
        await until(lambda: sum(task.done() for task in waiting) == 2)
        assert {task.result().code for task in waiting if task.done()} == {209}
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "-1"}
        assert (await peer.ask(RequestCode.POLLING_INFO, ext)).ext == {"pollingNum": "4"}
        assert (await peer.ask(RequestCode.POLLING_INFO, ext | {"queueId": "0"})).ext == {"pollingNum": "0"}
        clock.advance(15)
        assert sorted([answer.code for answer in await asyncio.gather(*waiting)]) == [209, 209, 210, 210, 210, 210]


async def test_connection_that_is_gone_takes_no_message() -> None:
    async with scene() as (running, peer), asyncio.TaskGroup() as tasks:
        async with BrokerPeer(running.address) as gone:
            waiting = tasks.create_task(gone.request(pop(15_000), 20))
            await until(lambda: len(running.services.held_pops) == 1)
            waiting.cancel()
        await send(peer, b"mine")
        assert bodies(await peer.request(pop(5000), 20)) == [b"mine"]
        await until(lambda: not len(running.services.held_pops))


@pytest.mark.parametrize("code", [RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION])
async def test_message_that_comes_while_many_queues_are_looked_at_is_not_missed(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, code: RequestCode
) -> None:
    """S193, S205: the send comes with the same read as the pop, which has looked at that queue already."""
    monkeypatch.setattr(random, "random", lambda: 0.0)
    async with scene(clock=clock, queues=300) as (_, peer), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(peer.request(Command(code, pop(15_000).ext), 10))
        tasks.create_task(send(peer, b"between", queue_id=3))
        answer = await waiting
        assert (answer.ext.get("hasMsg", "true"), answer.code) == ("true", 0)


async def test_pop_whose_connection_takes_no_bytes_leaves_the_message_to_another(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        scene(clock=clock) as (running, peer),
        BrokerPeer(running.address) as full,
        asyncio.TaskGroup() as tasks,
    ):
        deaf = tasks.create_task(full.request(pop(5000), 20))
        await until(lambda: len(running.services.held_pops) == 1)
        (held,) = running.services.held_pops._held
        monkeypatch.setattr(Channel, "is_congested", property(lambda channel: channel is held.channel))
        waiting = tasks.create_task(peer.request(pop(15_000), 20))
        await until(lambda: len(running.services.held_pops) == 2)
        await send(peer, b"for who can take it")
        assert (await deaf).code == 210
        assert bodies(await waiting) == [b"for who can take it"]
        assert (await full.request(pop(5000), 20)).code == 210


# --- peeks and notifications


async def test_peek_shows_what_the_next_pop_gets() -> None:
    """S204."""
    async with scene() as (running, peer):
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "maxMsgNums": "2"}
        assert (await peer.ask(RequestCode.PEEK_MESSAGE, ext)).code == 19
        sent = await send_many(peer, 3)
        answer = await peer.ask(RequestCode.PEEK_MESSAGE, ext)
        assert (answer.code, answer.remark) == (0, "FOUND")
        assert [message.body for message in decode_records(answer.body)] == sent[:2]
        assert answer.ext == {"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": "3"}
        assert running.storage.offsets.query("g", "T", 0) == -1
        assert bodies(await peer.request(pop(), 5)) == sent
        assert (await peer.ask(RequestCode.PEEK_MESSAGE, ext)).code == 19
        assert (await peer.ask(RequestCode.PEEK_MESSAGE, ext | {"maxMsgNums": "33", "consumerGroup": "new"})).code == 0
        assert (await peer.ask(RequestCode.PEEK_MESSAGE, ext | {"topic": "nope"})).code == 17


async def test_notification_says_whether_there_is_something(clock: FakeClock) -> None:
    """S205."""
    async with scene(clock=clock) as (running, peer), asyncio.TaskGroup() as tasks:
        asked = {"consumerGroup": "g", "topic": "T", "queueId": "-1", "bornTime": "0"}
        nothing, something = ({"hasMsg": each, "pollingFull": "false"} for each in ("false", "true"))
        assert (await peer.ask(RequestCode.NOTIFICATION, asked | {"pollTime": "0"})).ext == nothing
        waiting = tasks.create_task(peer.ask(RequestCode.NOTIFICATION, asked | {"pollTime": "5000"}))
        await until(lambda: len(running.services.held_notifications) == 1)
        clock.advance(5)
        assert (await waiting).ext == nothing
        waiting = tasks.create_task(peer.ask(RequestCode.NOTIFICATION, asked | {"pollTime": "5000"}))
        await until(lambda: len(running.services.held_notifications) == 1)
        await send(peer)
        answer = await waiting
        assert (answer.code, answer.ext) == (0, something)
        assert (await peer.ask(RequestCode.NOTIFICATION, asked | {"pollTime": "5000"})).ext == something
        assert (await peer.ask(RequestCode.NOTIFICATION, asked | {"pollTime": "0", "topic": "nope"})).code == 17


async def test_notification_by_tag_looks_at_the_tags() -> None:
    """S205."""
    async with scene() as (_, peer):
        asked = {"consumerGroup": "g", "topic": "T", "queueId": "0", "bornTime": "0", "pollTime": "0", "expType": "TAG"}
        await send(peer, TAGS="blue")
        assert (await peer.ask(RequestCode.NOTIFICATION, asked | {"exp": "red"})).ext["hasMsg"] == "false"
        assert (await peer.ask(RequestCode.NOTIFICATION, asked | {"exp": "blue"})).ext["hasMsg"] == "true"
        assert (await peer.ask(RequestCode.NOTIFICATION, asked | {"exp": "||"})).code == 23


async def test_fast_port_takes_acknowledgements_and_no_pops() -> None:
    """S9."""
    async with scene() as (running, peer):
        await send(peer)
        (handle,) = handles(await peer.request(pop(), 5))
        async with BrokerPeer(f"127.0.0.1:{running.port - 2}") as fast:
            assert (await ack(fast, handle)).code == 0
            for code in (RequestCode.POP_MESSAGE, RequestCode.PEEK_MESSAGE, RequestCode.NOTIFICATION):
                assert (await fast.ask(code, pop().ext)).code == 3
