"""Must hold 8 of the broker: bad requests get a code and a remark that says what is wrong, and harm nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketline.model.message import Message
from rocketline.store.filesystem import DiskFileSystem
from rocketline.wire.batch import encode_batch
from rocketline.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketline.wire.command import Command
from rocketline.wire.headers import CreateTopicRequestHeader, encode
from support.brokers.bad_requests import SERVED, bad_requests
from support.brokers.pulls import pull
from support.brokers.running import BrokerPeer, broker
from support.brokers.sends import send_v2

pytestmark = pytest.mark.timeout(60)


async def assert_serves(peer: BrokerPeer) -> None:
    """A message goes in and comes out again."""
    sent = await peer.request(send_v2(b"canary", {"b": "Canary"}), 20)
    assert sent.code == 0, sent.remark
    pulled = await peer.request(pull(int(sent.ext["queueOffset"]), topic="Canary"), 20)
    assert (pulled.code, b"canary" in pulled.body) == (0, True), pulled.remark


# --- every request that a broker serves, with every field as it should not be


async def test_codes_of_this_test_are_those_that_a_broker_serves() -> None:
    """S1: any other is answered 3."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        served = [
            code for code in RequestCode if (await peer.ask(code)).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        ]
        assert tuple(sorted(served)) == SERVED


@pytest.mark.parametrize("code", SERVED)
async def test_bad_request_is_answered_with_a_reason_and_harms_nobody(
    code: int, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """S5, and whatever else may be wrong with a request."""
    config = tmp_path / "broker.conf"
    async with (
        broker(brokerConfigPath=str(config)) as running,
        BrokerPeer(running.address) as peer,
        BrokerPeer(running.address) as binary,
    ):
        binary.serialize_type = SerializeType.ROCKETMQ
        await assert_serves(peer)
        for number, request in enumerate(bad_requests(code)):
            is_binary = number % 5 == 4 and code < 2**15  # a binary header has no room for the codes of POP
            answer = await (binary if is_binary else peer).request(request, 20)
            shown = f"{request} → {answer.code} {answer.remark}"
            assert answer.code in KNOWN_CODES, shown
            assert answer.code == 0 or answer.remark, shown
            assert not any(name in (answer.remark or "") for name in INTERNALS), shown
            if number % 50 == 49:
                await assert_serves(peer)
            await peer.send_oneway(request, 20)
        await assert_serves(peer)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


KNOWN_CODES = frozenset(ResponseCode)
INTERNALS = (
    "KeyError",
    "TypeError",
    "ValueError",
    "AttributeError",
    "IndexError",
    "UnicodeE",
    "struct.error",
    "OSError",
)


# --- names that are paths


@pytest.mark.parametrize("name", ["../commitlog", "..", ".", "../../outside", "{outside}", "\0", "x" * 5000, "\ud800"])
async def test_deleting_a_topic_with_the_name_of_a_folder_deletes_nothing(tmp_path: Path, name: str) -> None:
    """Like Apache: a topic that is not there is as good as deleted."""
    outside, root = tmp_path / "outside", tmp_path / "store"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    async with (
        broker(files=DiskFileSystem(), storePathRootDir=str(root)) as running,
        BrokerPeer(running.address) as peer,
    ):
        await assert_serves(peer)
        before = _files(tmp_path)
        answer = await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name.format(outside=outside)})
        assert answer.code == 0, answer.remark
        assert _files(tmp_path) >= before
        await assert_serves(peer)


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


# --- messages that would poison their queue


@pytest.mark.parametrize(
    ("fields", "properties"),
    [
        ({"f": "4"}, "UNIQ_KEY\x01k\x02"),
        ({"f": "12"}, "UNIQ_KEY\x01k\x02"),
        ({"f": "128"}, "UNIQ_KEY\x01k\x02"),
        ({"f": "-1"}, "UNIQ_KEY\x01k\x02"),
        ({}, "UNIQ_KEY\x01k\x02INNER_NUM\x013\x02"),
        ({"f": "4", "m": "true"}, ""),
    ],
)
async def test_message_marked_as_half_a_transaction_or_an_inner_batch_is_refused(
    fields: dict[str, str], properties: str
) -> None:
    """A record of that kind has no place in its queue after a crash, and those after it lie beyond a gap."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        assert (await peer.request(send_v2(b"before"), 20)).code == 0
        body = encode_batch([Message("T", b"member")]) if "m" in fields else b"x"
        answer = await peer.request(send_v2(body, fields, properties=properties), 20)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL, answer.remark
        assert (await peer.request(send_v2(b"after"), 20)).ext["queueOffset"] == "1"


@pytest.mark.parametrize("fields", [{}, {"m": "true"}])
async def test_message_whose_properties_recovery_would_take_for_torn_is_refused(fields: dict[str, str]) -> None:
    """With 512 zeros in a row among them, the log would end before it after the next crash."""
    zeros = "\0" * 512
    async with broker() as running, BrokerPeer(running.address) as peer:
        body = encode_batch([Message.of("T", b"member", {"X": zeros})]) if fields else b"x"
        properties = "" if fields else f"UNIQ_KEY\x01k\x02X\x01{zeros}\x02"
        answers = await asyncio.gather(
            peer.request(send_v2(b"before"), 20),
            peer.request(send_v2(body, fields, properties=properties), 20),
            peer.request(send_v2(b"after"), 20),
        )
        assert [answer.code for answer in answers] == [0, ResponseCode.MESSAGE_ILLEGAL, 0]
        assert "512 zero bytes" in (answers[1].remark or "")
        assert answers[2].ext["queueOffset"] == "1"


@pytest.mark.parametrize("level", ["abc", "", "-", "²", "2147483648", "-2147483649", "9" * 5000, "1.5", " 1"])
async def test_delay_level_that_is_no_int_is_refused(level: str) -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await peer.request(send_v2(properties=f"UNIQ_KEY\x01k\x02DELAY\x01{level}\x02"), 20)
        if not level:  # a property without a value is none
            assert answer.code == 0
            return
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "delay level" in (answer.remark or "")


# --- requests that would keep everybody else waiting


@pytest.mark.parametrize("code", [18, 34, 41, 42, 46, 200, 225, 400, 401])
@pytest.mark.parametrize("body", [b"{a:" + b"[1]," * 100_000 + b"}", b" " * (1024 * 1024 + 1)], ids=["odd", "long"])
async def test_body_that_takes_long_to_read_is_not_read(code: int, body: bytes) -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await peer.ask(code, body=body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert any(bound in (answer.remark or "") for bound in ("1048576", "65536"))
        await assert_serves(peer)


async def test_topic_that_is_listed_often_is_looked_at_once() -> None:
    """GET_CONSUME_STATS with 10,000 times the same topic of 16,384 queues took hours."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        assert (await peer.request(_topic("Wide", 16_384), 20)).code == 0
        asked = {"consumerGroup": "g", "topicList": "Wide;" * 10_000}
        answer = await peer.ask(RequestCode.GET_CONSUME_STATS, asked)
        assert (answer.code, answer.body.count(b"brokerOffset")) == (0, 16_384)


async def test_question_about_more_queues_than_an_answer_holds_is_refused_before_they_are_looked_at() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        names = [f"Wide{number}" for number in range(7)]
        for name in names:
            assert (await peer.request(_topic(name, 16_384), 20)).code == 0
        asked = {"consumerGroup": "g", "topicList": ";".join(names)}
        answer = await peer.ask(RequestCode.GET_CONSUME_STATS, asked)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "114688 queues are more than one answer tells of" in (answer.remark or "")


def _topic(name: str, queues: int) -> Command:
    header = CreateTopicRequestHeader(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC, encode(header))


# --- settings that would break the broker


@pytest.mark.parametrize("line", ["regionId=a\\u0001b\\u0002c", "brokerClusterName=x\\ny", "brokerName=a\\u2028b"])
async def test_name_that_would_break_every_message_is_refused(line: str) -> None:
    """Region and cluster become properties of each message."""
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line.encode())
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert line.partition("=")[0] in (answer.remark or "")
        await assert_serves(peer)


async def test_settings_too_long_to_be_read_in_a_moment_are_refused() -> None:
    async with broker() as running, BrokerPeer(running.address) as peer:
        answer = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"a=b\n" * 20_000)
        assert (answer.code, "80000 bytes" in (answer.remark or "")) == (ResponseCode.INVALID_PARAMETER, True)
