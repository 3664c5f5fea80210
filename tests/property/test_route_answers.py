"""Whatever a frame looks like: the hot path gives the bytes of the slow path, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import RemoteProtocolError
from rocketline.nameserver.config import load_settings
from rocketline.nameserver.kv_config import KvConfig
from rocketline.nameserver.route_answers import RouteAnswers, RouteReplies
from rocketline.nameserver.route_table import RouteTable
from rocketline.wire import frame
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command, response
from rocketline.wire.connection import Connection
from support.name_servers.running import kept_reply

OPAQUES = st.one_of(
    st.integers(0, 99).map(str),
    st.integers(-(2**33), 2**33).map(str),
    st.integers(2**31 - 5, 2**31 + 5).map(str),
    st.sampled_from(["00", "007", "-0", "1.0", "1e1", "null", '"5"', "", "true", " 5", "5 "]),
)
NAMES = st.sampled_from(["code", "opaque", "extFields", "flag", "version", "x", '\\"opaque'])
MEMBERS = st.one_of(
    OPAQUES.map(lambda opaque: f'"opaque":{opaque}'),
    st.sampled_from(['"code":105', '"flag":0', '"version":513', '"extFields":{"topic":"T"}']),
    OPAQUES.map(lambda opaque: f'"extFields":{{"topic":"T","opaque":{opaque}}}'),
    st.text(max_size=8).map(lambda text: f'"extFields":{{"topic":{json.dumps(text)}}}'),
    st.tuples(NAMES, OPAQUES).map(lambda pair: f'"{pair[0]}":{pair[1]}'),
)
HEADERS = st.lists(MEMBERS, max_size=6).map(lambda members: "{" + ",".join(members) + "}")
BODIES = st.sampled_from([b"", b'"opaque":1,', b",", b"}"])


def frame_of(header: str, body: bytes) -> bytes:
    data = header.encode("utf-8", "replace")
    return (4 + len(data) + len(body)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + body


def replies() -> RouteReplies:
    return RouteReplies(RouteAnswers(RouteTable(), KvConfig(Path("unused")), load_settings(environ={})))


def slow_answer(request: Command) -> Command:
    """An answer that tells every part of the question but its opaque."""
    return response(0, body=repr((request.code, request.ext, request.flag, request.version, request.body)).encode())


def check(hot_path: RouteReplies, whole: bytes) -> bool:
    """Ask as the network layer does; whether the hot path answered."""
    fast = kept_reply(hot_path, whole)
    try:
        request = frame.decode(whole)
    except RemoteProtocolError:
        assert fast is None
        return False
    answer = slow_answer(request)
    slow = Connection[None]("").reply(request, slow_answer(request))
    if fast is None:
        hot_path.remember(request, answer)
    else:
        assert fast == slow
    return fast is not None


@given(st.lists(st.tuples(HEADERS, BODIES), max_size=12))
def test_fast_reply_is_the_slow_reply_for_any_sequence_of_frames(asked: list[tuple[str, bytes]]) -> None:
    hot_path = replies()
    for header, body in asked:
        check(hot_path, frame_of(header, body))


@given(HEADERS, BODIES, st.lists(OPAQUES, min_size=1, max_size=8))
def test_fast_reply_is_the_slow_reply_if_only_the_opaque_changes(header: str, body: bytes, opaques: list[str]) -> None:
    hot_path = replies()
    rest = header[1:] if header == "{}" else "," + header[1:]
    for opaque in (*opaques, *opaques):
        check(hot_path, frame_of(f'{{"opaque":{opaque}{rest}', body))


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.sampled_from(["T", "U"]), st.binary(max_size=2))))
def test_fast_reply_is_the_slow_reply_for_binary_frames(asked: list[tuple[int, str, bytes]]) -> None:
    hot_path = replies()
    for opaque, topic, body in asked:
        kind = SerializeType.ROCKETMQ
        check(hot_path, frame.encode(Command(105, {"topic": topic}, body, opaque, serialize_type=kind)))


def opaques_of(length: int) -> st.SearchStrategy[int]:
    return st.integers(10 ** (length - 1), min(10**length, 2**31) - 1)


@given(st.integers(1, 10).flatmap(lambda n: st.lists(opaques_of(n), min_size=2, max_size=2)))
def test_usual_question_is_fast_the_second_time(opaques: list[int]) -> None:
    hot_path = replies()
    headers = [f'{{"code":105,"extFields":{{"topic":"T"}},"opaque":{opaque},"version":513}}' for opaque in opaques]
    assert [check(hot_path, frame_of(header, b"")) for header in headers] == [False, True]
