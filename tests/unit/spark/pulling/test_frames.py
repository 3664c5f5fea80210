"""Prepared pulls are the frames that a client would have written; answers are read as a client would have read them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.consumer.pull_request import PullNode, PullQuery, PullRequests
from rocketline.client.consumer.subscriptions import MessageSelector, by_sql, parse_subscription
from rocketline.client.runtime.routes import ClientRoutes
from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.spark.pulling.frames import AnswerReader, FrameCutter, PreparedPull, PullAnswer, SignedPull
from rocketline.wire import frame
from rocketline.wire.acl import Credentials, is_signed_with, sign
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command

QUEUE = MessageQueue("ns%orders", "broker-a", 3)


def pull(selector: MessageSelector | str | None, offset: int, count: int) -> Command:
    """As a client says it, with what every request carries."""
    subscription = parse_subscription(QUEUE.topic, selector, sub_version=5)
    query = PullQuery(QUEUE, offset, subscription, count, with_subscription=True)
    command = PullRequests(ClientRoutes(), "readers").command(query, PullNode("127.0.0.1:10911", is_slave=False))
    command.ext["ReqT"] = "0"
    return command


@pytest.mark.parametrize(
    "selector", [None, "A || B", '100%d || "queueOffset":"0"', by_sql('a = \'\\"maxMsgNums":"1"\'')]
)
def test_a_prepared_frame_is_the_one_that_a_client_would_have_made(selector: MessageSelector | str | None) -> None:
    prepared = PreparedPull(pull(selector, 0, 1))
    for offset, count, opaque in ((0, 1, 0), (7, 32, 1), (2**40, 1000, 2**31 - 1)):
        expected = replace(pull(selector, offset, count), opaque=opaque)
        assert prepared.frame(offset, count, opaque) == frame.encode(expected)


def test_signed_frames_are_signed_one_by_one() -> None:
    def make(offset: int, count: int) -> Command:
        command = pull(None, offset, count)
        sign(command, Credentials("me", "secret"))
        return command

    signed = SignedPull(make)
    for offset in (5, 6):
        command = frame.decode(signed.frame(offset, 10, 9))
        assert (command.ext["queueOffset"], command.opaque) == (str(offset), 9)
        assert is_signed_with(command, "secret")


# --- answers

APACHE = (
    b'{"code":0,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"%d","groupSysFlag":"0","maxOffset":"%d",'
    b'"minOffset":"%d","topicSysFlag":"0"},"flag":1,"language":"JAVA","opaque":%d,"remark":"FOUND",'
    b'"serializeTypeCurrentRPC":"JSON","version":513}'
)


def json_frame(header: bytes, body: bytes = b"") -> memoryview:
    prefix = (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big")
    return memoryview(prefix + header + body)


def command_frame(code: int, kind: SerializeType = SerializeType.JSON, body: bytes = b"", **ext: str) -> memoryview:
    offsets = {"suggestWhichBrokerId": "0", "nextBeginOffset": "7", "minOffset": "1", "maxOffset": "9"}
    command = Command(code, {**offsets, **ext}, body, opaque=4, flag=1, remark="R", serialize_type=kind)
    return memoryview(frame.encode(command))


def test_answers_that_differ_in_digits_are_read_alike() -> None:
    reader = AnswerReader()
    for number in (1, 22, 10**17, 3):
        header = APACHE % (number + 2, number + 1, number, number % 2**31)
        expected = PullAnswer(number % 2**31, 0, number + 2, number, number + 1, 0, None, b"body")
        assert reader.read(json_frame(header, b"body")) == expected


def test_a_field_that_is_no_number_is_an_error_also_where_numbers_were_before() -> None:
    reader = AnswerReader()
    assert reader.read(json_frame(APACHE % (3, 2, 1, 5))) is not None
    broken = (APACHE % (3, 2, 1, 5)).replace(b'"minOffset":"1"', b'"minOffset":"x"')
    with pytest.raises(RemoteProtocolError, match="minOffset"):
        reader.read(json_frame(broken))


def test_negative_offsets_are_read() -> None:
    header = APACHE.replace(b'"minOffset":"%d"', b'"minOffset":"-%d"')
    reader = AnswerReader()
    for _ in range(2):
        assert reader.read(json_frame(header % (3, 2, 1, 5))) == PullAnswer(5, 0, 3, -1, 2)


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("code", [0, 19, 20, 21])
def test_answers_in_both_encodings_and_of_every_kind_are_read(kind: SerializeType, code: int) -> None:
    reader = AnswerReader()
    for delta in (0, 100):
        ext = {"offsetDelta": str(delta)} if delta else {}
        expected = PullAnswer(4, code, 7, 1, 9, delta, "R" if code else None, b"" if code else b"b")
        for _ in range(2):
            assert reader.read(command_frame(code, kind, bytes(expected.body), **ext)) == expected


def test_a_refusal_has_a_code_and_a_remark() -> None:
    reader = AnswerReader()
    refusal = memoryview(frame.encode(Command(16, {}, opaque=4, flag=1, remark="no permission 5")))
    assert reader.read(command_frame(0)) is not None
    for _ in range(2):
        assert reader.read(refusal) == PullAnswer(4, 16, remark="no permission 5")


def test_a_request_is_no_answer() -> None:
    reader = AnswerReader()
    assert reader.read(command_frame(0)) is not None
    asked = memoryview(frame.encode(Command(40, {"consumerGroup": "g"}, opaque=4)))
    assert reader.read(asked) is None
    same = replace(frame.decode(bytes(command_frame(0))), flag=0)
    assert reader.read(memoryview(frame.encode(same))) is None


def test_an_answer_without_its_offsets_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="is missing"):
        AnswerReader().read(memoryview(frame.encode(Command(0, {}, opaque=4, flag=1))))


def test_a_field_that_is_there_twice_counts_as_a_client_counts_it() -> None:
    header = APACHE.replace(b'"minOffset":"%d"', b'"minOffset":"%d","nextBeginOffset":"8"')
    reader = AnswerReader()
    for number in (1, 2):
        answer = reader.read(json_frame(header % (number, 2, 1, 5)))
        assert answer is not None
        assert answer.next_offset == 8


# --- frames


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 30), max_size=40))
def test_frames_are_cut_out_of_a_stream_however_it_arrives(bodies: list[bytes], cuts: list[int]) -> None:
    frames = [frame.encode(Command(0, body=body)) for body in bodies]
    stream, cutter, found = b"".join(frames), FrameCutter(), []
    for size in [*cuts, len(stream)]:
        found += [bytes(whole) for whole in cutter.cut(stream[:size])]
        stream = stream[size:]
    assert found == frames


@pytest.mark.parametrize("prefix", ["7fffffff00000000", "0000000000000000", "00000008000000ff", "0000000802000000"])
def test_a_length_that_no_frame_has_is_an_error(prefix: str) -> None:
    with pytest.raises(RemoteProtocolError):
        FrameCutter().cut(bytes.fromhex(prefix))
