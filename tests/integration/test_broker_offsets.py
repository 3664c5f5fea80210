"""Offsets are kept, asked for, reset, copied; and where queues begin and end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketline.broker.server import Broker
from rocketline.clock import Clock
from rocketline.model.topic_config import TopicConfig
from rocketline.store.filesystem import FileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from rocketline.wire import headers
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.groups import GroupSubscription
from rocketline.wire.bodies.lists import GroupList, TopicList
from rocketline.wire.bodies.offsets import ConsumerOffsetTable, CorrectionOffsets, ResetOffsetBody, ResetOffsetList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.connections import consumer, heartbeat
from support.brokers.pulls import COMMIT, SUBSCRIPTION, pull
from support.brokers.running import BrokerPeer, broker

OK, NOT_FOUND, BAD = ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND, ResponseCode.INVALID_PARAMETER
PLACE = {"consumerGroup": "g", "topic": "T", "queueId": "0"}


class Consumer(BrokerPeer):
    """A peer that works with the offsets of the group g in queue 0 of T, unless it says otherwise."""

    async def __aenter__(self) -> Consumer:
        return self

    async def commit(self, offset: int, **place: str) -> Command:
        return await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": str(offset)} | place)

    async def query(self, **place: str) -> int | str:
        """The offset, or the name of the code that says there is none."""
        answer = await self.ask(RequestCode.QUERY_CONSUMER_OFFSET, PLACE | place)
        return int(answer.ext["offset"]) if answer.code == OK else ResponseCode(answer.code).name

    async def reset(self, **fields: str) -> Command:
        asked = {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "true"}
        return await self.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked | fields)

    async def offset(self, code: int, **fields: str) -> int:
        answer = await self.ask(code, {"topic": "T", "queueId": "0"} | fields)
        assert answer.code == OK
        return int(answer.ext["offset"])

    async def send(self, queue_id: int = 0) -> None:
        header = headers.SendMessageRequestHeader(
            producer_group="p",
            topic="T",
            default_topic="TBW102",
            default_topic_queue_nums=2,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
        )
        assert (await self.ask(RequestCode.SEND_MESSAGE, headers.encode(header), b"body")).code == OK


@asynccontextmanager
async def served(
    *, clock: Clock | None = None, files: FileSystem | None = None, **settings: str
) -> AsyncIterator[tuple[Broker, Consumer]]:
    """A broker with the topic T, two queues, and the group g."""
    async with broker(clock=clock, files=files, brokerName="B", **settings) as running:
        running.storage.topics.ensure([TopicConfig("T", 2, 2)])
        running.storage.groups.find("g")
        async with Consumer(running.address) as peer:
            yield running, peer


def table(answer: Command) -> dict[int, int]:
    assert answer.code == OK, answer.remark
    return {queue.queue_id: offset for queue, offset in decode(ResetOffsetBody, answer.body).offset_table.items()}


# --- commits and queries


async def test_commit_for_an_unknown_group_is_answered_26_and_for_an_unknown_topic_17() -> None:
    """S91."""
    async with served() as (running, peer):
        unknown_group = await peer.commit(1, consumerGroup="unknown")
        unknown_topic = await peer.commit(1, topic="unknown")
        assert unknown_group.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert unknown_topic.code == ResponseCode.TOPIC_NOT_EXIST
        assert unknown_group.remark
        assert running.storage.groups.get("unknown") is None


@pytest.mark.parametrize("second", [3, 5, 1000])
async def test_committed_offset_is_found_also_if_lower_than_before_or_beyond_the_end(second: int) -> None:
    """S92."""
    async with served() as (_, peer):
        assert (await peer.commit(5)).code == OK
        assert (await peer.commit(second)).code == OK
        assert await peer.query() == second


async def test_nothing_committed_in_an_empty_queue_is_answered_22() -> None:
    """S93."""
    async with served() as (_, peer):
        assert (
            await peer.query() == await peer.query(topic="unknown") == await peer.query(queueId="99") == NOT_FOUND.name
        )


async def test_nothing_committed_in_a_young_queue_is_offset_0_unless_the_client_minds() -> None:
    """S94, S95."""
    async with served() as (_, peer):
        await peer.send()
        assert await peer.query() == 0
        assert await peer.query(setZeroIfNotFound="true") == 0
        assert await peer.query(setZeroIfNotFound="false") == NOT_FOUND.name


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("consumerGroup", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("queueId", ResponseCode.INVALID_PARAMETER),
        ("commitOffset", ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_commit_without_a_field_or_with_a_bad_one_is_refused(field: str, code: ResponseCode) -> None:
    async with served() as (_, peer):
        ext = PLACE | {"commitOffset": "1"}
        bad = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext | {field: "no number"})
        del ext[field]
        missing = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        assert (bad.code, missing.code, bool(bad.remark), bool(missing.remark)) == (code, code, True, True)
        assert await peer.query() == NOT_FOUND.name


async def test_offsets_older_than_five_seconds_survive_a_crash(clock: FakeClock) -> None:
    """S96."""
    files = FaultyFileSystem(clock)
    async with served(files=files, flushConsumerOffsetInterval="5000") as (running, peer):
        await peer.commit(7)
        running.storage.offsets.save()  # what the timer does every five seconds
        await peer.commit(8)
        crashed = files.crash(Survival.NOTHING, seed=1)
    async with served(files=crashed) as (_, peer):
        assert await peer.query() == 7


async def test_offsets_survive_a_clean_stop_at_once(clock: FakeClock) -> None:
    files = FaultyFileSystem(clock)
    async with served(files=files) as (_, peer):
        await peer.commit(7)
    async with served(files=files) as (_, peer):
        assert await peer.query() == 7


async def test_all_offsets_are_told_in_one_table() -> None:
    async with served() as (_, peer):
        await peer.commit(7)
        await peer.commit(8, queueId="1")
        answer = await peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert decode(ConsumerOffsetTable, answer.body).offset_table == {"T@g": {0: 7, 1: 8}}


# --- resets


async def test_reset_by_time_answers_every_queue_and_counts_at_once() -> None:
    """S97."""
    async with served() as (_, peer):
        for _ in range(3):
            await peer.send()
        await peer.commit(3)
        assert table(await peer.reset(timestamp="0")) == {0: 0, 1: 0}
        assert await peer.query() == 0


async def test_commits_do_not_count_while_a_reset_waits_and_do_once_a_pull_was_told() -> None:
    """S98, S99."""
    async with served() as (_, peer):
        for _ in range(3):
            await peer.send()
        await peer.commit(1)
        assert table(await peer.reset(queueId="0", offset="2")) == {0: 2}
        ignored = await peer.commit(1)
        assert (ignored.code, bool(ignored.remark)) == (OK, True)
        assert await peer.query() == 2
        told = await peer.request(pull(1, flags=SUBSCRIPTION | COMMIT, commitOffset="1"), 5)
        assert (told.code, told.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "2")
        assert (await peer.commit(3)).code == OK
        assert await peer.query() == 3
        assert (await peer.request(pull(2), 5)).code == OK


async def test_reset_of_what_does_not_exist_or_to_an_offset_outside_is_refused() -> None:
    """S100."""
    async with served() as (_, peer):
        await peer.send()
        answers = [
            await peer.reset(topic="unknown"),
            await peer.reset(group="unknown"),
            await peer.reset(queueId="0", offset="3"),
            await peer.reset(queueId="0", offset="-2"),
        ]
        assert [answer.code for answer in answers] == [
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.SYSTEM_ERROR,
        ]
        assert all(answer.remark for answer in answers)
        assert table(await peer.reset(queueId="0", offset="2")) == {0: 2}


async def test_reset_to_the_end_by_time_minus_one() -> None:
    """S101."""
    async with served() as (_, peer):
        for _ in range(3):
            await peer.send(1)
        assert table(await peer.reset(timestamp="-1")) == {0: 0, 1: 3}
        assert table(await peer.reset(timestamp="-1", queueId="1", offset="-1")) == {1: 3}


async def test_reset_is_left_to_clients_if_the_settings_say_so() -> None:
    """S97 without useServerSideResetOffset: nobody is sent forward unless forced, and somebody must be online."""
    async with served(useServerSideResetOffset="false") as (running, peer):
        for _ in range(3):
            await peer.send()
        assert (await peer.reset(timestamp="-1")).code == ResponseCode.SYSTEM_ERROR  # nothing committed yet
        for queue_id in ("0", "1"):
            await peer.commit(1, queueId=queue_id)
        assert (await peer.reset(timestamp="-1")).code == ResponseCode.CONSUMER_NOT_ONLINE
        async with BrokerPeer(running.address) as client:
            await client.request(heartbeat("c", consumer("g", "T")), 5)
            await client.told_meanwhile()
            assert table(await peer.reset(timestamp="-1", isForce="false")) == {0: 1, 1: 0}
            told = await client.told()
            assert told.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            assert (told.ext["group"], told.ext["topic"]) == ("g", "T")
            assert sorted(decode(ResetOffsetBody, told.body).offset_table.values()) == [0, 1]
            assert table(await peer.reset(timestamp="-1", isForce="true")) == {0: 3, 1: 0}
            await client.told()
            request = Command(
                RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
                {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "true"},
                language="CPP",
            )
            await peer.request(request, 5)
            items = decode(ResetOffsetList, (await client.told()).body).offset_table
            assert {(item.queue_id, item.offset) for item in items} == {(0, 3), (1, 0)}
        assert await peer.query() == 1


# --- bounds of queues


async def test_unknown_queues_begin_and_end_at_0() -> None:
    """S102."""
    async with served() as (_, peer):
        for fields in ({"topic": "unknown"}, {"queueId": "99"}, {"queueId": "-1"}):
            for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET):
                assert await peer.offset(code, **fields) == 0
        answer = await peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "unknown", "queueId": "0"})
        assert answer.ext == {"timestamp": "-1"}


async def test_time_is_found_between_the_first_and_the_last_message(clock: FakeClock) -> None:
    """S103."""
    async with served(clock=clock) as (_, peer):
        start_ms = clock.wall_ms()
        for _ in range(3):
            await peer.send()
            clock.advance(10)
        search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        times = [start_ms - 1, start_ms, start_ms + 1, start_ms + 20_000, start_ms + 20_001]
        assert [await peer.offset(search, timestamp=str(time)) for time in times] == [0, 0, 1, 2, 3]
        assert await peer.offset(search, timestamp=str(start_ms + 1), boundaryType="upper") == 0
        assert await peer.offset(RequestCode.GET_MAX_OFFSET) == 3
        answer = await peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "T", "queueId": "0"})
        assert answer.ext == {"timestamp": str(start_ms)}


# --- copies and comparisons


@pytest.mark.parametrize("topic", [{}, {"topic": "T"}], ids=["all topics", "one topic"])
async def test_cloned_group_is_where_its_source_is(topic: dict[str, str]) -> None:
    """S104."""
    async with served() as (_, peer):
        await peer.commit(7)
        asked = {"srcGroup": "g", "destGroup": "copy", "offline": "true"} | topic
        assert (await peer.ask(RequestCode.CLONE_GROUP_OFFSET, asked)).code == OK
        assert await peer.query(consumerGroup="copy") == 7


async def test_online_group_does_not_pass_on_topics_that_it_no_longer_reads() -> None:
    async with served() as (_, peer):
        await peer.commit(7)
        await peer.request(heartbeat("c", consumer("g", "other")), 5)
        asked = {"srcGroup": "g", "destGroup": "copy", "topic": "T", "offline": "false"}
        assert (await peer.ask(RequestCode.CLONE_GROUP_OFFSET, asked)).code == OK
        assert await peer.query(consumerGroup="copy") == NOT_FOUND.name


async def test_correction_tells_how_far_others_are_behind_and_forgets_nothing() -> None:
    async with served() as (running, peer):
        for group in ("slow", "slower"):
            running.storage.groups.find(group)
        await peer.commit(5)
        await peer.commit(5, queueId="1")
        await peer.commit(3, consumerGroup="slow")
        await peer.commit(1, consumerGroup="slower")

        async def correction(**fields: str) -> dict[int, int]:
            answer = await peer.ask(RequestCode.QUERY_CORRECTION_OFFSET, {"topic": "T", "compareGroup": "g"} | fields)
            assert answer.code == OK
            return decode(CorrectionOffsets, answer.body).correction_offsets

        assert await correction() == {0: 1, 1: 5}
        assert await correction(filterGroups="slower") == {0: 3, 1: 5}
        assert await correction(filterGroups="slow,slower,g") == {0: 2**63 - 1, 1: 2**63 - 1}
        assert await peer.query(consumerGroup="slower") == 1


async def test_groups_and_topics_are_found_by_subscription_and_by_offset() -> None:
    async with served() as (running, peer):
        await peer.commit(5)
        await peer.request(heartbeat("c", consumer("online", "T")), 5)
        groups = await peer.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
        assert set(decode(GroupList, groups.body).group_list) == {"online", "g"}
        topics = await peer.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"})
        assert decode(TopicList, topics.body) == TopicList(["T"], running.address)
        for group, is_found in (("online", True), ("g", False)):
            answer = await peer.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": group, "topic": "T"})
            found = decode(GroupSubscription, answer.body)
            assert (found.group, found.topic, found.subscription_data is not None) == (group, "T", is_found)


# --- what nobody can use


@pytest.mark.parametrize(
    ("queue_id", "code"), [(0, OK), (99, OK), (16_383, OK), (16_384, BAD), (-1, BAD), (2**31 - 1, BAD)]
)
async def test_offset_of_a_queue_that_no_topic_can_have_is_refused(queue_id: int, code: ResponseCode) -> None:
    async with served() as (running, peer):
        assert (await peer.commit(7, queueId=str(queue_id))).code == code
        assert len(running.storage.offsets.offsets_of("g", "T")) == (code == OK)


async def test_reset_of_a_queue_that_no_topic_can_have_is_refused() -> None:
    async with served(useServerSideResetOffset="true") as (running, peer):
        assert (await peer.reset(queueId="2147483647")).code == ResponseCode.SYSTEM_ERROR
        assert running.storage.offsets.offsets_of("g", "T") == {}


async def test_offsets_are_copied_to_no_group_that_may_not_be_made() -> None:
    asked = {"srcGroup": "g", "destGroup": "made up", "offline": "true"}
    async with served() as (running, peer):
        await peer.commit(7)
        answer = await peer.ask(RequestCode.CLONE_GROUP_OFFSET, asked)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert running.storage.offsets.topics_of("made up") == []
        assert (await peer.ask(RequestCode.CLONE_GROUP_OFFSET, asked | {"destGroup": "new"})).code == OK
        assert running.storage.groups.get("new") is not None
