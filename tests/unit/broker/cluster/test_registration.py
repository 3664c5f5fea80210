"""What a broker tells name servers of itself and its topics."""

from __future__ import annotations

import logging
import zlib
from pathlib import Path

import pytest

from rocketline.broker.cluster import registration
from rocketline.broker.cluster.registration import RegistrationCommands
from rocketline.broker.metadata.topics import TopicTable
from rocketline.logs import Throttle
from rocketline.model.route import TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import headers
from rocketline.wire.bodies import RegisterBrokerBody, decode, decode_register_body, encode_register_body
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import CURRENT_VERSION, RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import broker_settings
from support.long_steps import counted, outcome


class Told:
    """A broker's registration, and the topics behind it."""

    def __init__(self, *topics: TopicConfig, **settings: str) -> None:
        clock = FakeClock()
        files = MemoryFileSystem(clock, capacity=2**20)
        files.make_folder(Path("/config"))
        own = {"brokerName": "B", "brokerClusterName": "C", **settings}
        chosen = broker_settings(**own)
        self.topics = TopicTable.load(files, Path("/config/topics.json"), chosen, clock)
        self.topics.update(*topics)
        self.registration = RegistrationCommands(
            chosen, self.topics, "127.0.0.1:10911", "127.0.0.1:10912", Throttle(clock)
        )


def table_of(command: Command) -> TopicConfigTable:
    header = headers.decode(headers.RegisterBrokerRequestHeader, command.ext)
    body = decode_register_body(command.body, compressed=header.compressed, version=CURRENT_VERSION)
    return body.topic_config_serialize_wrapper


def test_whole_registration_tells_every_topic_and_who_we_are() -> None:
    told = Told(TopicConfig("T", 4, 4))
    (command,) = outcome(told.registration.of_all())
    header = headers.decode(headers.RegisterBrokerRequestHeader, command.ext)
    table = table_of(command)

    assert command.code == RequestCode.REGISTER_BROKER
    assert (header.cluster_name, header.broker_name, header.broker_id) == ("C", "B", 0)
    assert (header.broker_addr, header.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")
    assert header.enable_acting_master is False, "a broker that does not say so counts as one of 4.x"
    assert header.body_crc32 == zlib.crc32(command.body) & 0x7FFFFFFF
    assert table.topic_config_table == told.topics.all()
    assert table.data_version == told.topics.data_version


def test_some_topics_are_told_with_the_version_of_all() -> None:
    told = Told(TopicConfig("T", 4, 4), TopicConfig("U", 1, 1))
    (command,) = outcome(told.registration.of_topics(["U", "gone"]))

    assert table_of(command).topic_config_table.keys() == {"U"}
    assert table_of(command).data_version == told.topics.data_version


def test_topics_that_are_gone_need_no_word() -> None:
    assert outcome(Told().registration.of_topics(["gone"])) == []


@pytest.mark.parametrize(("permission", "shown"), [("6", 6), ("4", 4), ("2", 2), ("0", 0)])
def test_broker_that_may_not_read_and_write_tells_no_more_than_it_may(permission: str, shown: int) -> None:
    told = Told(TopicConfig("T", 4, 4, 6), brokerPermission=permission)

    assert table_of(outcome(told.registration.of_all())[0]).topic_config_table["T"].perm == shown
    assert table_of(outcome(told.registration.of_topics(["T"]))[0]).topic_config_table["T"].perm == shown


def test_permission_of_a_whole_broker_leaves_the_inherit_bit_of_templates() -> None:
    assert table_of(outcome(Told().registration.of_all())[0]).topic_config_table["TBW102"].perm == 7


def test_compressed_registration_says_so_and_tells_the_same() -> None:
    told = Told(TopicConfig("T", 4, 4), compressedRegister="true")
    (command,) = outcome(told.registration.of_all())

    assert headers.decode(headers.RegisterBrokerRequestHeader, command.ext).compressed
    assert table_of(command).topic_config_table["T"] == TopicConfig("T", 4, 4)


def test_split_registration_ends_with_the_true_version_and_gives_the_other_parts_their_own() -> None:
    """A name server takes a known topic's change only with a version that it has not seen."""
    told = Told(enableSplitRegistration="true", splitRegistrationSize="4")
    tables = [table_of(command) for command in outcome(told.registration.of_all())]
    versions = [table.data_version for table in tables]

    assert len(tables) > 2
    assert all(len(table.topic_config_table) <= 4 for table in tables)
    assert {name for table in tables for name in table.topic_config_table} == set(told.topics.all())
    assert versions[-1] == told.topics.data_version
    assert len(set(versions)) == len(versions)


def test_single_topic_registration_is_a_route_per_topic() -> None:
    told = Told(TopicConfig("T", 4, 2, 6, topic_sys_flag=1), enableSingleTopicRegister="true")
    (command,) = outcome(told.registration.of_topics(["T"]))
    (queues,) = decode(TopicRouteData, command.body).queue_datas

    assert command.code == RequestCode.REGISTER_TOPIC_IN_NAMESRV
    assert command.ext == {"topic": "T"}
    assert (queues.broker_name, queues.read_queue_nums, queues.write_queue_nums) == ("B", 4, 2)
    assert (queues.perm, queues.topic_sys_flag) == (6, 1)


def test_version_query_and_farewell_name_the_broker() -> None:
    told = Told()
    query, farewell = told.registration.version_query(), told.registration.farewell()
    who = {"brokerName": "B", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": "0"}

    assert (query.code, query.ext) == (RequestCode.QUERY_DATA_VERSION, who)
    assert decode(DataVersion, query.body) == told.topics.data_version
    assert (farewell.code, farewell.ext) == (RequestCode.UNREGISTER_BROKER, who)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_registration_of_many_topics_is_made_in_steps_and_kept_until_something_changes(is_compressed: bool) -> None:
    topics = [TopicConfig(f"T{number}", 4, 4) for number in range(2_000)]
    told = Told(*topics, compressedRegister=str(is_compressed).lower())
    (command,), pauses = counted(told.registration.of_all())
    assert pauses >= 2_000 // 100
    assert table_of(command).topic_config_table == told.topics.all()
    (again,), pauses = counted(told.registration.of_all())
    assert pauses == 0
    assert again.body is command.body
    assert again is not command, "each name server's has a number of its own"
    told.topics.update(TopicConfig("T0", 5, 5))
    (changed,) = outcome(told.registration.of_all())
    assert table_of(changed).topic_config_table["T0"].read_queue_nums == 5


def test_plain_registration_is_what_the_codec_writes() -> None:
    told = Told(TopicConfig("Täglich", attributes={"+message.type": "FIFO"}), TopicConfig("U", order=True))
    (command,) = outcome(told.registration.of_all())
    table = TopicConfigTable(told.topics.data_version, topic_config_table=dict(told.topics.all()))
    assert command.body == encode_register_body(RegisterBrokerBody(table), compressed=False)


def test_registration_that_no_frame_could_carry_is_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up groups, each with its retry topic, once made a broker that nobody found after its next start."""
    monkeypatch.setattr(registration, "PART_BYTES_MAX", 10_000)
    told = Told(*[TopicConfig(f"%RETRY%{number:0>200}", 1, 1) for number in range(300)])
    commands = outcome(told.registration.of_all())
    assert max(len(command.body) for command in commands) < 10_000 + 1_000
    tables = [table_of(command) for command in commands]
    assert {name for table in tables for name in table.topic_config_table} == set(told.topics.all())
    assert [table.data_version == told.topics.data_version for table in tables] == [False] * (len(tables) - 1) + [True]
    changed = outcome(told.registration.of_topics(told.topics.all().keys()))
    assert len(changed) == len(commands)


def test_registration_in_parts_is_one_line_a_second_however_often_topics_change(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(registration, "PART_BYTES_MAX", 100)
    told = Told(*[TopicConfig(f"T{number}") for number in range(30)])
    for number in range(5):
        told.topics.update(TopicConfig(f"U{number}"))
        outcome(told.registration.of_all())
    assert caplog.text.count("too many topics for one registration") == 1
