"""Topics with `queue.type=BatchCQ`: a batch stays one record, and every client gets its messages one by one."""

from __future__ import annotations

import asyncio

import pytest

from rocketline.errors import CorruptStoreError
from rocketline.model.message import Message
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.batch import encode_batch
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_messages, decode_record, decode_records
from rocketline.wire.properties import format_properties
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, pull
from support.brokers.running import BrokerPeer, broker
from support.brokers.sends import send_v2
from support.golden import read_lines

TOPIC = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
BATCHED = {"topicFilterType": "SINGLE_TAG", "attributes": "+queue.type=BatchCQ"}
SIMPLE = {"topicFilterType": "SINGLE_TAG", "attributes": "+queue.type=SimpleCQ"}


def members(count: int) -> list[Message]:
    return [
        Message.of("T", b"b%d" % number, {"UNIQ_KEY": f"UB{number}", "TAGS": f"T{number}"}) for number in range(count)
    ]


async def create(peer: BrokerPeer, kind: dict[str, str] = BATCHED) -> None:
    answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | kind)
    assert answer.code == 0, answer.remark


async def send_batch(peer: BrokerPeer, count: int, **properties: str) -> Command:
    request = send_v2(encode_batch(members(count)), {"m": "true"}, properties=format_properties(properties))
    request.code = RequestCode.SEND_BATCH_MESSAGE
    return await peer.request(request, 20)


async def test_batch_is_stored_as_apache_does() -> None:
    [line] = [line for line in read_lines("store-5.5.0.jsonl") if "inner batch" in line["what"]]
    theirs = decode_record(bytes.fromhex(line["hex"]))
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        answer = await send_batch(peer, 3, UNIQ_KEY="BATCHUK")
        assert (answer.code, answer.ext["queueOffset"], answer.ext["batchUniqId"]) == (0, "0", "BATCHUK")
        [ours] = decode_records((await peer.request(pull(), 20)).body)
        assert (ours.body, ours.properties, ours.sys_flag) == (theirs.body, theirs.properties, theirs.sys_flag)
        single = await peer.request(send_v2(), 20)
        assert (single.ext["queueOffset"], "batchUniqId" in single.ext) == ("3", False)


async def test_pull_brings_the_whole_record_that_holds_its_offset() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        for _ in range(3):
            await send_batch(peer, 40, UNIQ_KEY="U")
        answer = await peer.request(pull(50), 20)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (0, "80")
        assert [found.queue_offset for found in decode_messages(answer.body)] == list(range(40, 80))
        end = await peer.request(pull(120), 20)
        assert (end.code, end.ext["minOffset"], end.ext["maxOffset"]) == (ResponseCode.PULL_NOT_FOUND, "0", "120")


async def test_consumer_that_filters_by_tags_gets_single_messages_only() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        await send_batch(peer, 2, UNIQ_KEY="U")
        await peer.request(send_v2(b"tagged"), 20)
        answer = await peer.request(pull(0, subscription="A"), 20)
        assert [found.body for found in decode_records(answer.body)] == [b"tagged"]


async def test_batch_wakes_a_pull_that_waits() -> None:
    async with (
        broker() as running,
        BrokerPeer(running.address) as peer,
        BrokerPeer(running.address) as producer,
        asyncio.TaskGroup() as tasks,
    ):
        await create(peer)
        waiting = tasks.create_task(peer.request(pull(0, flags=SUSPEND | SUBSCRIPTION), 20))
        await peer.told_meanwhile()
        await send_batch(producer, 2, UNIQ_KEY="U")
        assert len(decode_messages((await waiting).body)) == 2


async def test_batch_without_a_key_is_stored_message_by_message() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        answer = await send_batch(peer, 3)
        assert (answer.code, len(answer.ext["msgId"].split(","))) == (0, 3)
        found = decode_records((await peer.request(pull(), 20)).body)
        assert [(one.queue_offset, one.body) for one in found] == [(0, b"b0"), (1, b"b1"), (2, b"b2")]


@pytest.mark.parametrize("body", [b"\0\0", b"\0\0\0\x16" + bytes(17), encode_batch(members(1)) + b"x"])
async def test_batch_that_cannot_be_taken_apart_is_refused(body: bytes) -> None:
    """Apache, too, answers 1: it cannot count them."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        answer = await peer.request(send_v2(body, {"m": "true"}), 20)
        assert (answer.code, (answer.remark or "")[:5]) == (ResponseCode.SYSTEM_ERROR, "batch")


async def test_batch_of_more_than_a_unit_can_count_is_refused() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        entry = encode_batch([Message("T", b"")])
        accepted = await peer.request(send_v2(entry * 32_767, {"m": "true"}), 20)
        refused = await peer.request(send_v2(entry * 32_768, {"m": "true"}), 20)
        assert (accepted.code, refused.code) == (0, ResponseCode.MESSAGE_ILLEGAL)
        assert "at most 32767" in (refused.remark or "")
        assert (await send_batch(peer, 1, UNIQ_KEY="U")).ext["queueOffset"] == "32767"


@pytest.mark.parametrize(
    ("sys_flag", "number", "expected"),
    [("192", "3", 0), ("192", "2", 13), ("192", "x", 13), ("128", "3", 13), ("0", "3", 13)],
)
async def test_message_that_says_it_is_a_batch_must_be_one(sys_flag: str, number: str, expected: int) -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        properties = format_properties({"UNIQ_KEY": "U", "INNER_NUM": number})
        answer = await peer.request(send_v2(encode_batch(members(3)), {"f": sys_flag}, properties=properties), 20)
        assert answer.code == expected, answer.remark
        assert (await send_batch(peer, 1, UNIQ_KEY="U")).ext["queueOffset"] == ("0" if expected else "3")


@pytest.mark.parametrize("delay", [{"TIMER_DELAY_SEC": "5"}, {"DELAY": "1"}], ids=["timer", "level"])
async def test_batch_in_one_record_is_not_delayed(clock: FakeClock, delay: dict[str, str]) -> None:
    """S143: it took as many places as it has messages where the delayed ones wait. After that, timer messages came no
    more, whoever had sent them."""
    async with broker(clock=clock) as running, BrokerPeer(running.address) as peer:
        await create(peer)
        properties = format_properties({"UNIQ_KEY": "U", "INNER_NUM": "3", **delay})
        answer = await peer.request(send_v2(encode_batch(members(3)), {"f": "192"}, properties=properties), 20)
        assert (answer.code, answer.remark) == (
            ResponseCode.MESSAGE_ILLEGAL, "MESSAGE_ILLEGAL: a batch within one record cannot be delayed"
        )  # fmt: skip
        await peer.request(send_v2(b"single", properties=format_properties(delay)), 20)
        clock.advance(7)
        came = await peer.request(pull(0, flags=SUSPEND | SUBSCRIPTION), 20)
        assert [found.body for found in decode_records(came.body)] == [b"single"]


async def test_kind_of_a_topic_is_fixed_and_a_new_topic_may_have_the_other(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with broker(files=files) as running, BrokerPeer(running.address) as peer:
        await create(peer)
        await send_batch(peer, 3, UNIQ_KEY="U")
        refused = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | SIMPLE)
        assert (refused.code, "queue.type is fixed" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        await create(peer, SIMPLE)
        assert (await peer.request(send_v2(b"new"), 20)).ext["queueOffset"] == "0"
    async with broker(files=files) as running, BrokerPeer(running.address) as peer:
        assert [found.body for found in decode_records((await peer.request(pull(), 20)).body)] == [b"new"]


async def test_broker_does_not_start_on_queues_of_the_other_kind(clock: FakeClock) -> None:
    files: FileSystem = MemoryFileSystem(clock, capacity=2**30)
    async with broker(files=files) as running, BrokerPeer(running.address) as peer:
        await create(peer)
    files.make_folder(running.storage.store.root / "consumequeue" / "T" / "0")
    with pytest.raises(CorruptStoreError, match=r"consumequeue/T: the topic T has its queues in batchconsumequeue"):
        async with broker(files=files):
            pass


async def test_statistics_count_the_messages_of_a_batch() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        await create(peer)
        await send_batch(peer, 5, UNIQ_KEY="U")
        assert running.storage.stats.throughput.put_messages == 5
