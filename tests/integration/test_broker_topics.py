"""Topics come about by sending and by command, are changed, shown, and deleted."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketline.broker.metadata import topics
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import headers
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.lists import GroupList, TopicList
from rocketline.wire.bodies.stats import TopicStatsTable
from rocketline.wire.bodies.topics import TopicConfigList, TopicConfigTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.pulls import pull
from support.brokers.running import BrokerPeer, broker
from support.name_servers.running import Peer, name_server

OK, BAD = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER


class Administrator(BrokerPeer):
    """A peer that knows the commands for topics."""

    async def __aenter__(self) -> Administrator:
        return self

    async def send(self, topic: str = "T", *, queues: int = 4, template: str = "TBW102", queue_id: int = 0) -> Command:
        header = headers.SendMessageRequestHeader(
            producer_group="p",
            topic=topic,
            default_topic=template,
            default_topic_queue_nums=queues,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
        )
        return await self.ask(RequestCode.SEND_MESSAGE, headers.encode(header), b"body")

    async def update(self, topic: str = "T", *, attributes: str | None = None, **fields: str) -> Command:
        """UPDATE_AND_CREATE_TOPIC with four queues; `fields` are the wire's names."""
        header = headers.CreateTopicRequestHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            attributes=attributes,
        )
        return await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, headers.encode(header) | fields)

    async def update_list(self, *configs: TopicConfig) -> Command:
        return await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=encode(TopicConfigList(list(configs))))

    async def config(self, topic: str) -> TopicConfig | int:
        """The topic's configuration, or the code that says why there is none."""
        answer = await self.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
        return decode(TopicConfig, answer.body) if answer.code == OK else answer.code

    async def delete(self, topic: str) -> int:
        return (await self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})).code

    async def table(self, **ext: str) -> TopicConfigTable:
        answer = await self.ask(RequestCode.GET_ALL_TOPIC_CONFIG, ext)
        assert answer.code == OK
        return decode(TopicConfigTable, answer.body)

    async def data_version(self) -> DataVersion:
        return (await self.table()).data_version


@asynccontextmanager
async def administered(files: FileSystem | None = None, **settings: str) -> AsyncIterator[Administrator]:
    async with (
        broker(files=files, clock=None, brokerName="B", brokerClusterName="C", **settings) as running,
        Administrator(running.address) as peer,
    ):
        yield peer


# --- by sending


async def test_sending_makes_the_topic_with_the_senders_number_of_queues() -> None:
    """S61."""
    async with administered() as peer:
        assert (await peer.send(queues=4)).code == OK
        assert await peer.config("T") == TopicConfig("T", 4, 4, 6)


async def test_sending_makes_no_more_queues_than_the_template_has() -> None:
    """S62."""
    async with administered() as peer:
        assert (await peer.send(queues=16)).code == OK
        assert await peer.config("T") == TopicConfig("T", 8, 8, 6)


async def test_sending_to_an_unknown_topic_without_auto_creation_is_answered_17() -> None:
    """S63."""
    async with administered(autoCreateTopicEnable="false") as peer:
        assert (await peer.send()).code == ResponseCode.TOPIC_NOT_EXIST
        assert await peer.config("T") == ResponseCode.TOPIC_NOT_EXIST


async def test_made_topic_is_there_after_a_restart(clock: FakeClock) -> None:
    files = MemoryFileSystem(clock, capacity=2**30)
    async with administered(files) as peer:
        await peer.send()
        await peer.update("U", attributes="+message.type=FIFO")
        version = await peer.data_version()
    async with administered(files) as peer:
        assert await peer.config("T") == TopicConfig("T", 4, 4)
        assert await peer.config("U") == TopicConfig("U", 4, 4, attributes={"message.type": "FIFO"})
        assert await peer.data_version() == version


async def test_name_server_knows_a_made_topic_before_the_next_full_registration(tmp_path: Path) -> None:
    """S64, S73: and a topic that may only be read shows no write bit there, while the broker takes messages."""
    async with (
        name_server(tmp_path) as server,
        Peer(server.address) as asking,
        administered(namesrvAddr=server.address) as peer,
    ):
        assert (await peer.send()).code == OK
        while (await asking.ask_route("T")).code != OK:
            pass
        assert await asking.perm("T") == 6
        await peer.update(perm="4")
        while await asking.perm("T") != 4:
            pass
        assert (await peer.send()).code == OK


# --- by command


@pytest.mark.parametrize(
    "topic", ["TBW102", "B", "C", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "a b", "a/b", "..", "", " ", "x" * 128, "ü"]
)
async def test_name_of_the_system_or_one_that_is_not_allowed_is_refused_with_29(topic: str) -> None:
    """S65."""
    async with administered() as peer:
        before = await peer.table()
        answers = [await peer.update(topic), await peer.update_list(TopicConfig("good"), TopicConfig(topic))]
        assert [answer.code for answer in answers] == [BAD, BAD]
        assert all(answer.remark for answer in answers)
        assert await peer.table() == before


async def test_longest_names_are_taken() -> None:
    async with administered() as peer:
        assert (await peer.update("x" * 127)).code == OK
        assert (await peer.update("%RETRY%" + "x" * 248)).code == OK
        assert (await peer.update("%RETRY%" + "x" * 249)).code == BAD


async def test_system_topics_can_be_changed_if_the_settings_allow_it() -> None:
    async with administered(validateSystemTopicWhenUpdateTopic="false") as peer:
        assert (await peer.update("SELF_TEST_TOPIC")).code == OK
        assert await peer.config("SELF_TEST_TOPIC") == TopicConfig("SELF_TEST_TOPIC", 4, 4)


async def test_same_configuration_again_makes_no_new_version_and_another_permission_does() -> None:
    """S66."""
    async with administered() as peer:
        await peer.update()
        version = await peer.data_version()
        assert (await peer.update()).code == OK
        assert await peer.data_version() == version
        assert (await peer.update(perm="4")).code == OK
        assert (await peer.data_version()).counter == version.counter + 1


async def test_one_unchanged_topic_of_a_list_ends_it_with_success_and_without_effect() -> None:
    """S67."""
    async with administered() as peer:
        await peer.update()
        assert (await peer.update_list(TopicConfig("new"), TopicConfig("T", 4, 4))).code == OK
        assert await peer.config("new") == ResponseCode.TOPIC_NOT_EXIST
        assert (await peer.update_list(TopicConfig("new"), TopicConfig("T", 5, 5))).code == OK
        assert (await peer.config("new"), await peer.config("T")) == (TopicConfig("new"), TopicConfig("T", 5, 5))


@pytest.mark.parametrize(
    "attributes",
    ["+nonsense=1", "+message.type=nonsense", "-message.type", "+queue.type=BatchCQ", "message.type=FIFO", "+a"],
)
async def test_attribute_that_is_unknown_fixed_or_not_well_formed_is_refused_with_1(attributes: str) -> None:
    """S68."""
    async with administered() as peer:
        await peer.update(attributes="+queue.type=SimpleCQ")
        answer = await peer.update(attributes=attributes)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "attribute" in (answer.remark or "")
        assert await peer.config("T") == TopicConfig("T", 4, 4, attributes={"queue.type": "SimpleCQ"})


async def test_mixed_message_type_needs_its_switch() -> None:
    async with administered() as peer:
        assert (await peer.update(attributes="+message.type=MIXED")).code == BAD
        mixed = TopicConfig("T", attributes={"+message.type": "MIXED"})
        assert (await peer.update_list(mixed)).code == BAD
    async with administered(enableMixedMessageType="true") as peer:
        assert (await peer.update(attributes="+message.type=MIXED")).code == OK


@pytest.mark.parametrize("queues", ["-1", "65537", "2147483647"])
@pytest.mark.parametrize("field", ["readQueueNums", "writeQueueNums"])
async def test_number_of_queues_that_cannot_be_is_refused_with_29(field: str, queues: str) -> None:
    async with administered() as peer:
        assert (await peer.update(**{field: queues})).code == BAD
        assert await peer.config("T") == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("fields", [{"perm": "x"}, {"topicFilterType": "NONE"}, {"readQueueNums": "2147483648"}])
async def test_field_of_the_wrong_kind_is_refused_with_1(fields: dict[str, str]) -> None:
    async with administered() as peer:
        answer = await peer.update(**fields)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark


@pytest.mark.parametrize("body", [b"", b"nonsense", b'{"topicConfigList":[{}]}', b'{"topicConfigList":5}'])
async def test_list_that_cannot_be_read_is_refused_and_harms_nobody(body: bytes) -> None:
    async with administered() as peer:
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code != OK
        assert (await peer.update()).code == OK


# --- looked at


async def test_configuration_of_an_unknown_topic_is_answered_17() -> None:
    """S71."""
    async with administered() as peer:
        assert await peer.config("unknown") == ResponseCode.TOPIC_NOT_EXIST


async def test_statistics_have_an_entry_for_every_queue_and_unknown_topics_are_answered_17() -> None:
    """S72."""
    async with administered() as peer:
        await peer.update()
        await peer.send(queue_id=1)
        answer = await peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
        table = decode(TopicStatsTable, answer.body).offset_table
        assert {queue.queue_id: (offsets.min_offset, offsets.max_offset) for queue, offsets in table.items()} == {
            0: (0, 0),
            1: (0, 1),
            2: (0, 0),
            3: (0, 0),
        }
        unknown = await peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "unknown"})
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


async def test_topic_that_may_not_be_read_is_not_pulled_from() -> None:
    """S74."""
    async with administered() as peer:
        await peer.update(perm="2")
        assert (await peer.request(pull(), 5)).code == ResponseCode.NO_PERMISSION


async def test_whole_table_has_the_systems_topics_and_its_version() -> None:
    """S221."""
    async with administered() as peer:
        await peer.update()
        table = await peer.table()
    expected = {"SELF_TEST_TOPIC", "BenchmarkTest", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "T"}
    assert expected <= table.topic_config_table.keys()
    assert table.data_version.counter == 1


async def test_pages_are_the_table_in_the_order_of_names_and_begin_anew_with_another_version() -> None:
    async with administered(splitMetadataSize="6") as peer:
        await peer.update()
        whole = await peer.table()
        seen, names = encode(whole.data_version).decode(), list[str]()
        while len(names) < len(whole.topic_config_table):
            page = await peer.table(topicSeq=str(len(names)), dataVersion=seen, maxTopicNum="999")
            assert 0 < len(page.topic_config_table) <= 6
            names += page.topic_config_table
        assert names == sorted(whole.topic_config_table)
        await peer.update("U")
        first = await peer.table(topicSeq="6", dataVersion=seen, maxTopicNum="1")
        assert list(first.topic_config_table) == names[:1]


async def test_number_of_all_topics_comes_with_every_page() -> None:
    async with administered() as peer:
        whole = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        page = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {"maxTopicNum": "1"})
        assert whole.ext == page.ext == {"totalTopicNum": "15"}


async def test_list_of_system_topics_has_the_brokers_own_names() -> None:
    async with administered() as peer:
        answer = await peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    assert {"TBW102", "B", "C", "C_REPLY_TOPIC", "rmq_sys_wheel_timer"} <= set(
        decode(TopicList, answer.body).topic_list
    )


# --- deleted


async def test_deletion_of_an_unknown_topic_succeeds_and_of_a_system_topic_is_refused_with_29() -> None:
    """S69."""
    async with administered() as peer:
        assert await peer.delete("unknown") == OK
        assert await peer.delete("") == BAD
        assert [await peer.delete(name) for name in ("TBW102", "B", "rmq_sys_wheel_timer")] == [BAD, BAD, BAD]


async def test_deleted_topic_takes_its_offsets_and_messages_with_it() -> None:
    """S70."""
    async with administered() as peer:
        await peer.send()
        place = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
        await peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
        assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": "1"})).code == OK
        assert await peer.delete("T") == OK
        assert (await peer.request(pull(), 5)).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, place)).code == ResponseCode.QUERY_NOT_FOUND
        by_whom = await peer.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
        assert decode(GroupList, by_whom.body).group_list == []
        await peer.send()
        answer = await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        assert answer.ext == {"offset": "1"}


class StuckQueues(MemoryFileSystem):
    """Folders of topics that cannot be moved, so many times."""

    refusals = 0

    def rename(self, old: Path, new: Path) -> None:
        if self.refusals and old.parent.name == "consumequeue":
            self.refusals -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().rename(old, new)


@pytest.mark.parametrize("is_deleted_again", [False, True])
async def test_topic_whose_queues_could_not_be_deleted_has_no_old_messages_when_it_is_made_again(
    is_deleted_again: bool,
) -> None:
    files = StuckQueues(FakeClock(), capacity=2**30)
    async with administered(files=files) as peer:
        for queue_id in (0, 1):
            await peer.send(queue_id=queue_id)
        while not files.exists(Path("/store/consumequeue/T/1")):  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.01)
        files.refusals = 1
        assert await peer.delete("T") == ResponseCode.SYSTEM_ERROR
        if is_deleted_again:
            assert await peer.delete("T") == OK
        await peer.send()
        ends = [await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": str(number)}) for number in (0, 1)]
        assert [answer.ext["offset"] for answer in ends] == ["1", "0"]


async def test_deleted_topic_takes_the_topics_with_it_in_which_popped_messages_wait() -> None:
    async with administered() as peer:
        await peer.send()
        await peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
        place = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
        await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place)
        for name in ("%RETRY%g_T", "%RETRY%g", "%RETRY%h_T"):
            await peer.update(name)
        await peer.delete("T")
        left = (await peer.table()).topic_config_table.keys()
        assert {"%RETRY%g", "%RETRY%h_T"} <= left
        assert not {"T", "%RETRY%g_T"} & left


async def test_topics_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    async with administered() as peer:
        assert (await peer.update("first")).code == OK
        monkeypatch.setattr(topics, "TOPICS_MAX", 1)
        assert (await peer.update("second")).code == BAD
        assert (await peer.update("first", readQueueNums="2")).code == OK
        assert (await peer.send("third")).code == ResponseCode.TOPIC_NOT_EXIST
