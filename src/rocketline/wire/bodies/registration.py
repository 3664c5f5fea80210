"""What a broker tells a name server about its topics: JSON, or in the compressed form a layout of its own.

The compressed form is one zlib stream of length-prefixed parts: the version, the topics as lines of text, the filter
servers, and since 5.0 the queue mappings. A line says neither whether the topic is ordered nor its system flag.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Generator, Iterator
from dataclasses import field, replace
from typing import Any

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.route import TopicQueueMappingInfo
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.record import record
from rocketline.wire import fastjson
from rocketline.wire.bodies.codec import decode, encode, from_value
from rocketline.wire.bodies.coding.json_tables import (
    ENTRY_CHARACTERS_MAX,
    NotStandardError,
    Tables,
    entries,
    quoted_integer_keys,
)
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import CURRENT_VERSION

PLAIN_BYTES_MAX = 16 * 1024 * 1024
"""How far a compressed body may expand: to what a frame may carry, room for some 300,000 topics.

Repeated lines shrink a thousandfold, so more would let a few hundred kilobytes keep a server busy for half a minute.
"""

_WITH_FILTER_SERVERS = 37
"""3.0.11: before it, the body was the topics alone."""
_WITH_MAPPINGS = 413
"""5.0.0."""
_WRAPPER = "topicConfigSerializeWrapper"
_STEP = 64
"""Topics that are read in one go, in half a millisecond."""
_STEP_CHARACTERS = 8 * 1024
"""Characters of long topics that are read in one go: what only Python can read takes a microsecond each."""
LINE_BYTES_MAX = 4 * 1024
"""A topic with its attributes, or a data version, of the compressed form; what they have is a few hundred."""
_PIECE_BYTES = 256 * 1024
TOLERATED_MAX = 32 * 1024
"""Characters of the fastjson, which Python itself reads. Brokers write standard JSON, but for bare integer keys."""
_LINE_FIELDS = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
_INT32 = struct.Struct(">i")
_TOPICS_A_PIECE = 100


@record
class RegisterBrokerBody:
    """A broker's topics and filter servers. Java: RegisterBrokerBody."""

    topic_config_serialize_wrapper: TopicConfigTable = field(default_factory=TopicConfigTable)
    filter_server_list: list[str] = field(default_factory=list)


def decode_register_body(data: bytes, *, compressed: bool, version: int) -> RegisterBrokerBody:
    """The body of REGISTER_BROKER as a broker of protocol `version` writes it. Raises `RemoteProtocolError`.

    No body at all is a broker without topics, whose table has never changed.
    """
    reading = read_register_body(data, compressed=compressed, version=version)
    try:
        while True:
            next(reading)
    except StopIteration as end:
        body: RegisterBrokerBody = end.value
        return body


def read_register_body(
    data: bytes, *, compressed: bool, version: int, topics_max: int = sys.maxsize
) -> Generator[None, None, RegisterBrokerBody]:
    """The same in steps of a millisecond or so, for a server that has others to serve in between.

    More than `topics_max` topics are a `RemoteProtocolError`, too.
    """
    if not data:
        return RegisterBrokerBody()
    if version < _WITH_FILTER_SERVERS or not compressed:
        return (yield from _read_json(data, topics_max, is_bare=version < _WITH_FILTER_SERVERS))
    parts = _Parts((yield from _inflate(data)))
    data_version = decode(DataVersion, parts.bytes(LINE_BYTES_MAX), tolerated_max=LINE_BYTES_MAX)
    topics: dict[str, TopicConfig] = {}
    pace = _Pace()
    for _ in _numbers(parts.count(), topics_max):
        line = parts.bytes(LINE_BYTES_MAX)
        topic = _parse_topic(line)
        topics[topic.topic_name] = topic
        if pace.is_step_over(len(line)):
            yield
    filter_servers = decode(list[str], parts.bytes(ENTRY_CHARACTERS_MAX), tolerated_max=LINE_BYTES_MAX)
    mappings: dict[str, TopicQueueMappingInfo] = {}
    for _ in _numbers(parts.count() if version >= _WITH_MAPPINGS else 0, topics_max):
        text = parts.bytes(ENTRY_CHARACTERS_MAX)
        mapping = decode(TopicQueueMappingInfo, text, tolerated_max=LINE_BYTES_MAX)
        mappings[mapping.topic] = mapping
        if pace.is_step_over(len(text)):
            yield
    table = TopicConfigTable(data_version, topic_config_table=topics, topic_queue_mapping_info_map=mappings)
    return RegisterBrokerBody(table, filter_servers)


class _Pace:
    """Says when a step is over: after so many things, or characters of them."""

    __slots__ = ("_characters", "_things")

    def __init__(self) -> None:
        self._things = self._characters = 0

    def is_step_over(self, characters: int) -> bool:
        self._things += 1
        self._characters += characters
        if self._things < _STEP and self._characters < _STEP_CHARACTERS:
            return False
        self._things = self._characters = 0
        return True


def _numbers(count: int, count_max: int) -> range:
    _check_count(count, count_max)
    return range(1, count + 1)


def _read_json(data: bytes, topics_max: int, *, is_bare: bool) -> Generator[None, None, RegisterBrokerBody]:
    """A body in JSON, which `is_bare` if it is the table alone. What `json` cannot read is read if it is short."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"registration of {len(data)} bytes is no UTF-8 at byte {error.start}") from None
    problem = "it has references"
    if '"$ref"' not in text:
        try:
            return (yield from _read_tables(text, topics_max, is_bare=is_bare))
        except NotStandardError:
            quoted = []
            for piece in quoted_integer_keys(text):
                quoted.append(piece)
                yield
        try:
            return (yield from _read_tables("".join(quoted), topics_max, is_bare=is_bare))
        except NotStandardError as error:
            problem = str(error)
    if len(text) > TOLERATED_MAX:
        raise RemoteProtocolError(
            f"registration of {len(text)} characters cannot be read: {problem}. Beyond {TOLERATED_MAX} characters it "
            "must be standard JSON"
        )
    body = RegisterBrokerBody(decode(TopicConfigTable, data)) if is_bare else decode(RegisterBrokerBody, data)
    _check_count(len(body.topic_config_serialize_wrapper.topic_config_table), topics_max)
    return body


def _read_tables(text: str, topics_max: int, *, is_bare: bool) -> Generator[None, None, RegisterBrokerBody]:
    """Topics and mappings are made one by one, the rest of the body at the end."""
    topics: dict[str, TopicConfig] = {}
    mappings: dict[str, TopicQueueMappingInfo] = {}
    rest: dict[str, Any] = {_WRAPPER: {}}
    tables: Tables = {"topicConfigTable": {}, "topicQueueMappingInfoMap": {}, "topicQueueMappingDetailMap": {}}
    pace, at = _Pace(), 0
    for number, (path, key, value, end) in enumerate(entries(text, tables if is_bare else {_WRAPPER: tables})):
        table = path[-1] if path else _WRAPPER if is_bare else ""
        if table == "topicConfigTable":
            if value is not None:
                topics[key] = from_value(TopicConfig, value)
        elif table == "topicQueueMappingInfoMap":
            if value is not None:
                mappings[key] = from_value(TopicQueueMappingInfo, value)
        elif table == _WRAPPER:
            rest[_WRAPPER][key] = value
        elif not path:
            rest[key] = value
        if pace.is_step_over(end - at):
            # Each topic may be in three tables; what is in none of them is not worth reading in such numbers.
            _check_count(max(len(topics), len(mappings), number // 4), topics_max)
            yield
        at = end
    _check_count(max(len(topics), len(mappings)), topics_max)
    body = from_value(RegisterBrokerBody, rest)
    wrapper = body.topic_config_serialize_wrapper
    return replace(
        body,
        topic_config_serialize_wrapper=replace(
            wrapper, topic_config_table=topics, topic_queue_mapping_info_map=mappings
        ),
    )


def _check_count(count: int, count_max: int) -> None:
    if count > count_max:
        raise RemoteProtocolError(f"registration of {count} topics or more: {count_max} are read")


def encode_register_body(body: RegisterBrokerBody, *, compressed: bool, version: int = CURRENT_VERSION) -> bytes:
    """The body of REGISTER_BROKER for a broker that announces `version`."""
    table = body.topic_config_serialize_wrapper
    if version < _WITH_FILTER_SERVERS:
        return encode(table)
    if not compressed:
        return encode(body)
    return b"".join(compressed_pieces(body, version=version))


def compressed_pieces(body: RegisterBrokerBody, *, version: int = CURRENT_VERSION) -> Iterator[bytes]:
    """The same in the compressed form, some topics at a time: for whoever must not stop for all of it."""
    stream = zlib.compressobj(9)
    for plain in _plain_pieces(body, version):
        yield stream.compress(plain)
    yield stream.flush()


def _plain_pieces(body: RegisterBrokerBody, version: int) -> Iterator[bytes]:
    table = body.topic_config_serialize_wrapper
    topics, mappings = [*table.topic_config_table.values()], [*table.topic_queue_mapping_info_map.values()]
    yield _sized(encode(table.data_version)) + _INT32.pack(len(topics))
    for at in range(0, len(topics), _TOPICS_A_PIECE):
        yield b"".join([_sized(_format_topic(topic)) for topic in topics[at : at + _TOPICS_A_PIECE]])
    yield _sized(fastjson.write(body.filter_server_list))
    if version >= _WITH_MAPPINGS:
        yield b"".join([_INT32.pack(len(mappings)), *(_sized(encode(mapping)) for mapping in mappings)])


def _inflate(data: bytes) -> Generator[None, None, bytes]:
    stream = zlib.decompressobj()
    pieces: list[bytes] = []
    left, rest = PLAIN_BYTES_MAX, data
    try:
        while left and not stream.eof:
            piece = stream.decompress(rest, min(left, _PIECE_BYTES))
            rest = stream.unconsumed_tail
            if not piece and not rest:
                break  # it is cut short
            pieces.append(piece)
            left -= len(piece)
            yield
    except zlib.error as error:
        raise RemoteProtocolError(f"compressed registration of {len(data)} bytes is no zlib stream: {error}") from None
    if rest:
        raise RemoteProtocolError(f"compressed registration of {len(data)} bytes holds more than {PLAIN_BYTES_MAX}")
    if not stream.eof:
        raise RemoteProtocolError(f"compressed registration of {len(data)} bytes ends in the middle of its stream")
    return b"".join(pieces)


class _Parts:
    """Reads the plaintext from its start; no length is believed that goes beyond its end."""

    __slots__ = ("_at", "_plain")

    def __init__(self, plain: bytes) -> None:
        self._plain = plain
        self._at = 0

    def count(self) -> int:
        return self._length("a count of", bytes_each=4)

    def bytes(self, size_max: int) -> bytes:
        size = self._length("a part of", bytes_each=1)
        if size > size_max:
            raise RemoteProtocolError(
                f"compressed registration: a part of {size} bytes at byte {self._at}: at most {size_max} are read"
            )
        self._at += size
        return self._plain[self._at - size : self._at]

    def _length(self, what: str, *, bytes_each: int) -> int:
        at, left = self._at, len(self._plain) - self._at - 4
        if left < 0:
            raise RemoteProtocolError(f"compressed registration ends at byte {at}, where a length should be")
        (length,) = _INT32.unpack_from(self._plain, at)
        if not 0 <= length * bytes_each <= left:
            raise RemoteProtocolError(
                f"compressed registration: {what} {length} at byte {at}, but {left} bytes are left"
            )
        self._at = at + 4
        return int(length)


def _parse_topic(line: bytes) -> TopicConfig:
    """`name readQueues writeQueues perm filterType attributes`; 4.x has no attributes."""
    words = line.decode("utf-8", "replace").split(" ", 5)
    if len(words) < 5:
        raise RemoteProtocolError(f"compressed registration: topic {line[:80]!r} has {len(words)} fields, not 5 or 6")
    value: dict[str, object] = dict(zip(_LINE_FIELDS, words, strict=False))
    if len(words) == 6:
        value["attributes"] = fastjson.parse(words[5].encode(), tolerated_max=LINE_BYTES_MAX)
    return from_value(TopicConfig, value)


def _format_topic(topic: TopicConfig) -> bytes:
    attributes = fastjson.write(topic.attributes).decode()
    words = (topic.topic_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_filter_type)
    if " " in topic.topic_name or " " in attributes:
        raise LocalProtocolError(f"topic {topic.topic_name!r}: blanks in its name or attributes cannot be compressed")
    return " ".join([*map(str, words), attributes]).encode("utf-8", "replace")


def _sized(part: bytes) -> bytes:
    return _INT32.pack(len(part)) + part
