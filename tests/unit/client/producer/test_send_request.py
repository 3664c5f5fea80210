from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.producer.options import ProducerOptions
from rocketline.client.producer.send_request import SendRequests
from rocketline.errors import InvalidMessageError, InvalidNameError, LocalProtocolError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame, headers
from rocketline.wire.command import ONEWAY_FLAG
from rocketline.wire.headers import SendMessageRequestHeaderV2
from rocketline.wire.properties import parse_properties
from rocketline.wire.unique_id import UniqueIdGenerator

QUEUE = MessageQueue("T", "broker-a", 2)
BORN_MS = 1_700_000_000_000


def requests(namespace: str = "", options: ProducerOptions | None = None) -> SendRequests:
    ids = UniqueIdGenerator(bytes([10, 0, 0, 1]), 1, 2, FakeClock())
    return SendRequests("P", options or ProducerOptions(), namespace, ids)


texts = st.text(st.characters(exclude_characters="\x01\x02"), min_size=1, max_size=20).filter(str.strip)


@given(
    topic=st.sampled_from(["T", "%RETRY%G", "t|%-_9"]),
    body=st.binary(min_size=1, max_size=50),
    tags=st.none() | texts,
    properties=st.dictionaries(texts.map("p".__add__), texts, max_size=3),
    flag=st.integers(-(2**31), 2**31 - 1),
    broker=texts,
    opaque=st.integers(0, 2**31 - 1),
    is_batch=st.booleans(),
)
def test_frame_is_the_command_encoded(
    topic: str,
    body: bytes,
    tags: str | None,
    properties: dict[str, str],
    flag: int,
    broker: str,
    opaque: int,
    is_batch: bool,
) -> None:
    """The short way and the long way say the same, whatever the message."""
    making = requests()
    message = Message(topic, body, tags=tags, properties=properties, flag=flag)
    if topic == "%RETRY%G":
        message.properties.update({"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16"})
    batched = is_batch and topic != "%RETRY%G"
    request = making.prepare_batch([message, message]) if batched else making.prepare(message)
    command = making.command(request, QUEUE, broker, BORN_MS)
    whole = making.frame(request, QUEUE, broker, BORN_MS, opaque, ONEWAY_FLAG)
    expected = frame.decode(frame.encode(replace(command, opaque=opaque, flag=ONEWAY_FLAG)))
    assert frame.decode(whole) == expected


def test_header_says_all_about_the_message() -> None:
    options = ProducerOptions(create_topic_key="PATTERN", default_topic_queue_nums=7, unit_mode=True)
    making = requests(options=options)
    request = making.prepare(Message("T", b"x", tags="a", flag=5))
    made = headers.decode(SendMessageRequestHeaderV2, making.command(request, QUEUE, "real", BORN_MS).ext)
    assert made == SendMessageRequestHeaderV2(
        producer_group="P",
        topic="T",
        default_topic="PATTERN",
        default_topic_queue_nums=7,
        queue_id=2,
        sys_flag=0,
        born_timestamp=BORN_MS,
        flag=5,
        properties=request.properties,
        reconsume_times=0,
        unit_mode=True,
        batch=False,
        target_broker="real",
    )
    assert parse_properties(request.properties) == {"TAGS": "a", "UNIQ_KEY": request.message_id}


def test_counts_of_a_retry_move_to_the_header() -> None:
    making = requests()
    message = Message.of("%RETRY%G", b"x", {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "kept": "yes"})
    request = making.prepare(message)
    ext = making.command(request, QUEUE, "b", BORN_MS).ext
    assert (ext["j"], ext["l"]) == ("3", "16")
    assert parse_properties(ext["i"]) == {"kept": "yes", "UNIQ_KEY": request.message_id}
    other = making.prepare(Message.of("T", b"x", {"RECONSUME_TIME": "3"}))
    assert making.command(other, QUEUE, "b", BORN_MS).ext["j"] == "0"


def test_id_that_a_message_brings_is_kept() -> None:
    request = requests().prepare(Message.of("T", b"x", {"UNIQ_KEY": "MINE"}))
    assert request.message_id == "MINE"
    assert request.properties.count("UNIQ_KEY") == 1


def test_same_message_sent_again_has_another_id() -> None:
    making, message = requests(), Message("T", b"x")
    assert making.prepare(message).message_id != making.prepare(message).message_id


def test_replies_are_in_no_namespace() -> None:
    """C117: a cluster has one topic for them, whoever sends them; another would be made, or refused."""
    making = requests("N")
    reply = Message("north_REPLY_TOPIC", b"4", properties={"color": "red"})
    reply.properties["MSG_TYPE"] = "reply"
    request = making.prepare(reply)
    assert request.topic == "north_REPLY_TOPIC"
    assert making.command(request, QUEUE, "broker-a", BORN_MS).ext["b"] == "north_REPLY_TOPIC"
    sent = frame.decode(making.frame(request, QUEUE, "broker-a", BORN_MS, 1))
    assert (sent.code, sent.ext["b"]) == (325, "north_REPLY_TOPIC")
    assert making.prepare(Message("north_REPLY_TOPIC", b"4")).topic == "N%north_REPLY_TOPIC"


def test_namespace_is_in_topic_group_and_properties() -> None:
    making = requests("N")
    for request in (making.prepare(Message("T", b"x")), making.prepare_batch([Message("T", b"x")])):
        assert request.topic == "N%T"
        assert parse_properties(request.properties)["INSTANCE_ID"] == "N"
    assert making.prepare(Message("%RETRY%G", b"x")).topic == "%RETRY%N%G"


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b""),
        Message("T", b"x", flag=2**31),
        Message.of("T", b"x", {"INNER_MULTI_DISPATCH": "a/b"}),
        Message.of("T", b"x", {"a\x01": "b"}),
        Message("T", b"x", properties={"a": "b" * 40_000}),
        Message("T", b"x", properties={"a": "ü" * 20_000}),
    ],
    ids=["empty", "flag", "dispatch", "mark", "long", "long in bytes"],
)
def test_message_that_no_broker_takes_is_refused(message: Message) -> None:
    with pytest.raises(InvalidMessageError):
        requests().prepare(message)


@pytest.mark.parametrize("topic", ["", "a b", "ü", "t" * 128, "OFFSET_MOVED_EVENT", "rmq_sys_wheel_timer"])
def test_topic_that_no_broker_takes_is_refused(topic: str) -> None:
    """C83, C84."""
    with pytest.raises(InvalidNameError):
        requests().prepare(Message(topic, b"x"))


def test_frame_that_no_peer_takes_is_refused() -> None:
    making = requests(options=ProducerOptions(message_bytes_max=15 * 2**20, compress_over_bytes=2**40))
    request = making.prepare(Message("T", bytes(15 * 2**20)))
    request.body *= 2
    with pytest.raises(LocalProtocolError, match="at most"):
        making.frame(request, QUEUE, "b", BORN_MS, 1)


def test_batch_shares_its_wish_to_wait() -> None:
    messages = [Message("T", b"x", waits_for_store=False)] * 2
    assert parse_properties(requests().prepare_batch(messages).properties)["WAIT"] == "false"


@pytest.mark.parametrize("wrong", ["orders", ["a", "b"], [Message("T", b"x"), b"y"]])
def test_what_is_no_message_is_refused(wrong: list[Message]) -> None:
    with pytest.raises(TypeError, match="a Message is sent, or a sequence of them, not"):
        requests().prepare_batch(wrong)
