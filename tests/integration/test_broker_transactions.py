"""Half messages, their ends, and questions about them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.broker.server import Broker
from rocketline.clock import Clock
from rocketline.model.ids import LogOffset, OffsetMessageId, QueueOffset
from rocketline.model.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
    WHEEL_TIMER_TOPIC,
)
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_record, decode_records, encode_record
from support.brokers.connections import consumer, heartbeat
from support.brokers.messages import create_topic, try_send
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, bodies, pull
from support.brokers.running import BrokerPeer, broker
from support.brokers.tables import message
from support.brokers.transactions import COMMIT, ROLLBACK, UNKNOWN, answer_fields, end, end_fields, half, join, try_half
from support.clients.members import until

QUICK = {"transactionTimeOut": "0", "transactionCheckInterval": "50", "transactionOpBatchInterval": "20"}
NEVER = {"transactionCheckInterval": "3600000"}
OWN = {"TAGS": "A", "own": "value"}
BODY_AT = 88
"""Of a record, with IPv4 addresses."""


@asynccontextmanager
async def scene(
    settings: dict[str, str], *, clock: Clock | None = None, files: FileSystem | None = None
) -> AsyncIterator[tuple[Broker, BrokerPeer]]:
    async with broker(clock=clock, files=files, **settings) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=2)
        yield running, peer


async def delivered(peer: BrokerPeer, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    answer = await peer.request(pull(0, topic=topic, queueId=str(queue_id), maxMsgNums="1000"), 20)
    return [found.body for found in decode_records(answer.body)]


async def test_half_message_is_seen_once_it_is_committed() -> None:
    """S166, S167: with its properties, its born time and its queue."""
    async with scene(NEVER) as (_, peer):
        answer = await try_half(peer, b"a", OWN, queue_id=1, born_ms=1_700_000_000_001, flag=5)
        assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (0, "1", "0")
        assert answer.ext["transactionId"] == "K61"
        assert await delivered(peer, queue_id=1) == []
        fields = await half(peer, b"b")
        assert fields["tranStateTableOffset"] == "1"
        assert (await end(peer, fields)).code == 0
        assert await delivered(peer) == [b"b"]
        assert await delivered(peer, queue_id=1) == []
        (found,) = decode_records((await peer.request(pull(0), 20)).body)
        assert (found.topic, found.sys_flag) == ("T", 8)
        assert str(found.prepared_log_offset) == fields["commitLogOffset"]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_committed_message_is_what_was_sent(flush: str) -> None:
    """S167."""
    async with scene(NEVER | {"flushDiskType": flush}) as (_, peer):
        sent = await try_half(peer, b"a", OWN, queue_id=1, born_ms=1_700_000_000_001, flag=5)
        assert (await end(peer, end_fields(sent))).code == 0
        (found,) = decode_records((await peer.request(pull(0, queueId="1"), 20)).body)
        assert (found.body, found.tag, found.flag, found.born_ms) == (b"a", "A", 5, 1_700_000_000_001)
        assert found.properties["own"] == "value"
        assert found.properties["UNIQ_KEY"] == "K61"


async def test_committed_message_for_a_later_moment_comes_then(clock: FakeClock) -> None:
    """A delay counts from the commit."""
    async with scene(NEVER, clock=clock) as (_, peer):
        sent = await try_half(peer, b"a", OWN | {"TIMER_DELAY_SEC": "10"})
        clock.advance(60)
        assert (await end(peer, end_fields(sent))).code == 0
        clock.advance(9)
        assert await delivered(peer) == []
        clock.advance(2)
        (found,) = decode_records((await peer.request(pull(0, flags=SUBSCRIPTION | SUSPEND), 20)).body)
        assert (found.body, found.tag, found.topic) == (b"a", "A", "T")


@pytest.mark.parametrize("moment", [{"TIMER_DELAY_SEC": "soon"}, {"TIMER_DELAY_SEC": "259201"}])
async def test_half_message_for_no_moment_is_refused_before_the_work_is_done(moment: dict[str, str]) -> None:
    """It could never be committed."""
    async with scene(NEVER) as (running, peer):
        answer = await try_half(peer, b"a", OWN | moment)
        assert answer.code == 13
        assert "WHEEL_TIMER_MSG_ILLEGAL" in (answer.remark or "")
        assert running.storage.store.max_offset(HALF_TOPIC, 0) == 0


async def test_rolled_back_message_never_comes_and_nobody_is_asked() -> None:
    """S168."""
    async with scene(QUICK) as (running, peer):
        await join(peer)
        store = running.storage.store
        running_checks = running.services.checks
        fields = await half(peer, b"a")
        assert (await end(peer, fields, ROLLBACK)).code == 0
        await until(lambda: store.max_offset(OP_HALF_TOPIC, 0) == 1)
        await running_checks.check()
        assert [one for one in await peer.told_meanwhile() if one.ext["msgId"] == "K61"] == []
        assert await delivered(peer) == []


async def test_unknown_gets_no_answer_and_other_values_one() -> None:
    """S169."""
    async with scene(NEVER) as (_, peer):
        fields = await half(peer)
        request = Command(RequestCode.END_TRANSACTION, {**fields, "commitOrRollback": UNKNOWN})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await peer.request(request, 20)
        for value in ("1", "4", "-8", "16"):
            answer = await end(peer, fields, value)
            assert answer.code == 1
            assert "8 commits" in (answer.remark or "")
        assert await delivered(peer) == []


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    ("wrong", "remark"),
    [
        ({"producerGroup": "stranger"}, "another producer group than stranger"),
        ({"tranStateTableOffset": "7"}, "not at the queue offset 7"),
        ({"commitLogOffset": "3"}, "no half message at the log offset 3"),
        ({"commitLogOffset": "-1"}, "no half message"),
        ({"commitLogOffset": "9000000000000000000"}, "no half message"),
    ],
)
async def test_stranger_ends_nothing(state: str, wrong: dict[str, str], remark: str) -> None:
    """S170."""
    async with scene(NEVER) as (running, peer):
        fields = await half(peer)
        answer = await end(peer, fields | wrong, state)
        assert answer.code == 1
        assert remark in (answer.remark or "")
        assert not running.services.ops
        assert await delivered(peer) == []
        assert (await end(peer, fields)).code == 0
        assert await delivered(peer) == [b"x"]


async def test_message_that_is_no_half_message_is_not_committed() -> None:
    """S170: also one whose properties claim it."""
    async with scene(NEVER) as (_, peer):
        properties = {"PGROUP": "p", "REAL_TOPIC": "T", "REAL_QID": "1", "UNIQ_KEY": "k"}
        sent = await try_send(peer, b"plain", properties)
        answer = await end(peer, end_fields(sent))
        assert (answer.code, await delivered(peer, queue_id=1)) == (1, [])


@pytest.mark.parametrize("code", [RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE])
@pytest.mark.parametrize("queue_offset", [0, 1, -1, 2**62])
async def test_what_only_looks_like_a_half_message_moves_nothing(code: int, queue_offset: int) -> None:
    """S170: a body that holds a record, with the very place that it has in the log, was committed to whatever topic it
    said: with the one of op messages all open transactions were forgotten."""
    async with scene(NEVER) as (running, peer):
        await half(peer)
        place = running.storage.store.max_log_offset + BODY_AT
        forged = message(HALF_TOPIC, b"0,", PGROUP="p", REAL_TOPIC=OP_HALF_TOPIC, REAL_QID="0", TAGS="d")
        forged.log_offset, forged.queue_offset = LogOffset(place), QueueOffset(queue_offset)
        assert (await try_send(peer, encode_record(forged))).code == 0
        store = running.storage.store
        assert store.message_at(place) is not None, "it looks like one"
        id_ = OffsetMessageId(store.store_host, LogOffset(place))
        fields = {"producerGroup": "p", "tranStateTableOffset": str(queue_offset), "commitLogOffset": str(place)}
        answer = await peer.ask(code, {**fields, "msgId": str(id_), "commitOrRollback": COMMIT})
        assert answer.code == 1
        assert "no half message" in (answer.remark or "")
        assert (store.max_offset(OP_HALF_TOPIC, 0), store.max_offset(HALF_TOPIC, 0)) == (0, 1)


async def test_end_is_repeated_without_being_noticed() -> None:
    """S177."""
    async with scene(NEVER) as (_, peer):
        fields = await half(peer)
        assert [(await end(peer, fields, state)).code for state in (COMMIT, COMMIT, ROLLBACK, COMMIT)] == [0] * 4
        assert await delivered(peer) == [b"x"] * 3


async def test_broker_that_takes_no_transactions() -> None:
    """S175. What a consumer of old sends back, to be delayed, is none."""
    async with scene({"rejectTransactionMessage": "true"}) as (_, peer):
        answer = await try_half(peer)
        assert answer.code == 16
        assert "rejectTransactionMessage" in (answer.remark or "")
        assert (await try_half(peer, b"x", {"DELAY": "1"}, reconsume_times=1, sys_flag=0)).code == 0
        assert await delivered(peer, HALF_TOPIC) == []


async def test_committed_message_that_was_tried_too_often_is_a_dead_letter() -> None:
    """Old clients send it to the retry topic with all its properties. As a dead letter it has no delay, and so it was
    taken for half a transaction, and seen by nobody."""
    async with scene(NEVER) as (_, peer):
        await peer.request(heartbeat("c", consumer("g", "T")), 5)
        properties = {"DELAY": "3", "REAL_TOPIC": "T"}
        for times in (16, 17):
            body = b"%d" % times
            answer = await try_half(peer, body, properties, topic="%RETRY%g", reconsume_times=times, sys_flag=8)
            assert answer.code == 0, answer.remark
        assert await delivered(peer, "%DLQ%g") == [b"17"]
        assert await delivered(peer, HALF_TOPIC) == []


async def test_delay_begins_with_the_commit(clock: FakeClock) -> None:
    async with scene(NEVER, clock=clock) as (_, peer):
        fields = await half(peer, DELAY="1")
        clock.advance(60)
        await asyncio.sleep(0.3)
        assert await delivered(peer) == []
        assert len(await delivered(peer, HALF_TOPIC)) == 1
        assert (await end(peer, fields)).code == 0
        assert await delivered(peer) == []
        clock.advance(1)
        assert bodies(await peer.request(pull(0, flags=SUBSCRIPTION | SUSPEND), 20)) == [b"x"]


@pytest.mark.parametrize(
    ("settings", "properties", "code", "remark"),
    [
        ({}, {"TIMER_DELIVER_MS": "99999999999999"}, 13, "timerMaxDelaySec"),
        ({}, {"TIMER_DELAY_SEC": "soon"}, 13, "no number"),
        ({"timerWheelEnable": "false"}, {"TIMER_DELAY_SEC": "5"}, 1, "timerWheelEnable"),
    ],
)
async def test_half_message_that_could_never_be_delivered_is_refused(
    settings: dict[str, str], properties: dict[str, str], code: int, remark: str
) -> None:
    """It was taken, and each commit of it refused until it was given up: done work without its message."""
    async with scene(NEVER | settings) as (_, peer):
        answer = await try_half(peer, b"x", properties)
        assert (answer.code, await delivered(peer, HALF_TOPIC)) == (code, [])
        assert remark in (answer.remark or "")


async def test_moment_counts_once_it_is_committed(clock: FakeClock) -> None:
    async with scene(NEVER, clock=clock) as (running, peer):
        due_ms = clock.wall_ms() + 30_000
        first = await half(peer, b"in time", TIMER_DELIVER_MS=str(due_ms))
        second = await half(peer, b"late", queue_id=1, TIMER_DELIVER_MS=str(due_ms))
        assert (await end(peer, first)).code == 0
        assert running.storage.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 1
        clock.advance(31)
        assert (await end(peer, second)).code == 0
        assert await delivered(peer, queue_id=1) == [b"late"]


async def test_producer_is_asked_and_its_answer_counts() -> None:
    """S171: with the places of the copy, and the message as it will be."""
    async with scene(QUICK) as (_, peer):
        await join(peer)
        sent = await half(peer, b"a", queue_id=1, TAGS="A")
        question = await peer.told()
        assert (question.code, question.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
        assert question.ext["topic"] == HALF_TOPIC
        assert question.ext["msgId"] == question.ext["transactionId"] == "K61"
        assert question.ext["commitLogOffset"] != sent["commitLogOffset"]
        assert question.ext["bname"]
        message = decode_record(question.body)
        assert (message.topic, message.queue_id, message.body, message.tag) == ("T", 1, b"a", "A")
        assert str(message.log_offset) == question.ext["commitLogOffset"]
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert (await end(peer, answer_fields(question), COMMIT)).code == 0
        assert (await delivered(peer, queue_id=1))[0] == b"a"


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
async def test_producer_that_is_late_ends_the_copies_too(state: str) -> None:
    """It knows nothing of the question that was asked meanwhile, and nobody is asked again."""
    clock = FakeClock()
    async with scene(NEVER, clock=clock) as (running, peer):
        await join(peer)
        fields = await try_half(peer, b"a", born_ms=clock.wall_ms())
        for _ in range(3):
            clock.advance(7)
            await running.services.checks.check()
        assert len(await peer.told_meanwhile()) == 3
        assert (await end(peer, end_fields(fields), state)).code == 0
        running.services.ops.write()
        clock.advance(7)
        await join(peer)
        await running.services.checks.check()
        assert not await peer.told_meanwhile()
        assert len(await delivered(peer)) == (state == COMMIT)


async def test_another_member_of_the_group_is_asked() -> None:
    """S174: when the one that sent it is gone."""
    async with scene(QUICK) as (running, peer), BrokerPeer(running.address) as other:
        async with BrokerPeer(running.address) as first:
            await join(first, client_id="first")
            await half(first, b"a")
        await join(peer, group="another")
        await join(other, client_id="other")
        while (question := await other.told()).ext["msgId"] != "K61":
            pass
        assert not [one for one in await peer.told_meanwhile() if one.code == 39]
        assert (await end(other, answer_fields(question))).code == 0


async def test_nobody_answers() -> None:
    """S172: after so many questions it is kept elsewhere, and taken up again when an administrator says so."""
    async with scene(QUICK | {"transactionCheckMax": "3"}) as (running, peer):
        await join(peer)
        await half(peer, b"a")
        questions = [await peer.told() for _ in range(3)]
        assert [decode_record(one.body).properties["TRANSACTION_CHECK_TIMES"] for one in questions] == ["1", "2", "3"]
        await until(lambda: running.storage.store.max_offset(TRANS_CHECK_MAX_TIME_TOPIC, 0) == 1)
        assert running.storage.transaction_figures.counts() == {"T": 0}
        assert not await peer.told_meanwhile()
        (given_up,) = decode_records((await peer.request(pull(0, topic=TRANS_CHECK_MAX_TIME_TOPIC), 20)).body)
        resume = {"topic": TRANS_CHECK_MAX_TIME_TOPIC, "msgId": given_up.offset_message_id}
        assert (await peer.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume)).code == 0
        question = await peer.told()
        assert decode_record(question.body).properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert (await end(peer, answer_fields(question))).code == 0
        assert (await delivered(peer))[:1] == [b"a"]


async def test_only_what_was_a_half_message_is_taken_up_again() -> None:
    async with scene(NEVER) as (_, peer):
        sent = await try_send(peer, b"plain")
        for message_id in (sent.ext["msgId"], "nonsense", "", "0" * 32):
            answer = await peer.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
            assert answer.code == 1
            assert answer.remark
        assert await delivered(peer, HALF_TOPIC) == []


async def test_producer_that_wants_not_to_be_asked() -> None:
    """S173: neither before its time is over, nor does it end the transaction afterwards but by an answer."""
    clock = FakeClock()
    async with scene(NEVER, clock=clock) as (running, peer):
        await join(peer)
        born_ms = clock.wall_ms()
        sent = await try_half(peer, b"a", {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}, born_ms=born_ms)
        clock.advance(60)
        await running.services.checks.check()
        assert not await peer.told_meanwhile()
        clock.advance(0.001)
        answer = await end(peer, end_fields(sent))
        assert (answer.code, await delivered(peer)) == (604, [])
        assert "CHECK_IMMUNITY_TIME_IN_SECONDS" in (answer.remark or "")
        await join(peer)
        await running.services.checks.check()
        question = await peer.told()
        assert (await end(peer, answer_fields(question))).code == 0
        assert await delivered(peer) == [b"a"]


async def test_properties_that_leave_no_room_for_a_copy_are_refused() -> None:
    async with scene(NEVER) as (_, peer):
        answer = await try_half(peer, b"x", {"own": "x" * 32_450})
        assert answer.code == 13
        assert "bytes of properties" in (answer.remark or "")


async def test_restart_goes_on_where_it_was() -> None:
    """What ended stays ended, and what is open is asked for."""
    clock = FakeClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(NEVER, clock=clock, files=files) as (running, peer):
        done, gone, _ = [await half(peer, body) for body in (b"a", b"b", b"c")]
        await end(peer, done)
        await end(peer, gone, ROLLBACK)
        clock.advance(7)
        await running.services.checks.check()
        ended = await half(peer, b"d")
        await end(peer, ended)
    async with scene(NEVER, clock=clock, files=files) as (running, peer):
        assert running.storage.transaction_figures.counts() == {"T": 1}
        await join(peer)
        clock.advance(7)
        await running.services.checks.check()
        questions = await peer.told_meanwhile()
        assert [one.ext["msgId"] for one in questions] == ["K63"]
        assert decode_record(questions[0].body).properties["TRANSACTION_CHECK_TIMES"] == "2"
        assert await delivered(peer) == [b"a", b"d"]


async def test_how_far_checks_are_is_told_by_nobody_else() -> None:
    """One commit of a stranger, beyond the end of the queue, and nobody was asked about any transaction any more."""
    clock = FakeClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(NEVER, clock=clock, files=files) as (running, peer):
        await join(peer)
        ext = {"consumerGroup": TRANSACTION_GROUP, "topic": HALF_TOPIC, "queueId": "0", "commitOffset": "1000"}
        for body in (b"a", b"b"):
            await half(peer, body)
            assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0
            clock.advance(7)
            await join(peer)
            await running.services.checks.check()
        assert [one.ext["msgId"] for one in await peer.told_meanwhile()] == ["K61", "K61", "K62"]
        # It is committed once the copies are safe in the log.
        await until(lambda: running.storage.offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0) == 3)
        assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0
        await running.services.checks.check()
        assert running.storage.offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0) == 3


async def test_progress_of_checks_that_is_ahead_of_the_log_hides_no_half_message() -> None:
    """Apache's broker saves it ahead: after a power cut new half messages get places that it says were looked at."""
    clock = FakeClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    async with scene(NEVER, clock=clock, files=files) as (running, peer):
        await end(peer, await half(peer, b"before"))
        path = running.storage.store.root / "config" / "consumerOffset.json"
    table = {f"{topic}@{TRANSACTION_GROUP}": {"0": 5} for topic in (HALF_TOPIC, OP_HALF_TOPIC)}
    files.write_file(path, json.dumps({"offsetTable": table}).encode())
    async with scene(NEVER, clock=clock, files=files) as (running, peer):
        await join(peer)
        for body in (b"a", b"b", b"c", b"d", b"e", b"f"):
            await half(peer, body)
        await end(peer, await half(peer, b"ended"), ROLLBACK)
        running.services.ops.write()
        clock.advance(7)
        await join(peer)
        await running.services.checks.check()
        asked = [decode_record(one.body).body for one in await peer.told_meanwhile()]
        assert asked == [b"a", b"b", b"c", b"d", b"e", b"f"]


async def test_commit_that_waits_for_the_disk_when_the_broker_stops_is_noted() -> None:
    """With SYNC_FLUSH each stop had producers asked about what was committed last, and the message came twice."""
    clock = FakeClock()
    files = MemoryFileSystem(clock, capacity=2**30)
    settings = NEVER | {"flushDiskType": "SYNC_FLUSH"}
    async with scene(settings, clock=clock, files=files) as (running, peer):
        for fields in [await half(peer, body) for body in (b"a", b"b", b"c", b"d")]:
            commit = Command(RequestCode.END_TRANSACTION, {**fields, "commitOrRollback": COMMIT})
            await peer.send_oneway(commit, 20)
    async with scene(settings, clock=clock, files=files) as (running, peer):
        await join(peer)
        clock.advance(7)
        await running.services.checks.check()
        asked = {decode_record(question.body).body for question in await peer.told_meanwhile()}
        assert not asked & set(await delivered(peer))


async def test_broker_without_transactions_keeps_nothing_of_them() -> None:
    files = MemoryFileSystem(FakeClock(), capacity=2**30)
    async with scene(QUICK, files=files) as (running, peer):
        await try_send(peer, b"plain")
        await asyncio.sleep(0.2)
        assert running.storage.store.queue(HALF_TOPIC, 0) is None
    assert not [path for path in files.list(running.storage.store.root / "config") if "ransaction" in path]
