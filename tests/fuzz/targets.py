"""Every decoder that meets bytes from outside, what to feed it at first, and what must hold of its answers.

What a whole broker makes of such bytes is in `broker_targets`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fuzz.broker_targets import broker_targets
from rocketline.client.trace.timeline import MessageTrace
from rocketline.errors import ConfigError, LocalProtocolError, RemoteProtocolError
from rocketline.model.ids import HostAddress, OffsetMessageId
from rocketline.model.sys_flags import CompressionType
from rocketline.net import proxy_protocol
from rocketline.settings.properties import parse_properties as parse_java_properties
from rocketline.wire import bodies, fastjson, frame, header_binary, header_json, message_codec, pop_handles
from rocketline.wire.batch import decode_batch
from rocketline.wire.bodies import decode_register_body, encode_register_body
from rocketline.wire.bodies.codec import from_value
from rocketline.wire.codes import CURRENT_VERSION, V4_9_4, RequestCode, SerializeType
from rocketline.wire.compression import compress, decompress
from rocketline.wire.headers import REQUEST_HEADERS, RESPONSE_HEADERS, decode, encode
from rocketline.wire.properties import decode_properties
from rocketline.wire.recall_handle import RecallHandle
from rocketline.wire.unique_id import UniqueIdParts
from support.golden import golden_frames, read_lines

Decode = Callable[[bytes], object]
EXPANDED_BYTES_MAX = 1 << 20
_TRACES = (
    b"Pub\x015\x01R\x01g\x01T\x01ID\x01t\x01k\x01b:1\x017\x013\x010\x01O\x01true\x01h\x02",
    b"SubBefore\x016\x01R\x01g\x01C\x01ID\x011\x01k\x01h\x02SubAfter\x01C\x01ID\x012\x01true\x01k\x010\x018\x01g\x02",
    b"EndTransaction\x018\x01R\x01g\x01T\x01ID\x01t\x01k\x01b:1\x012\x01X\x01UNKNOW\x01true\x02Recall\x019\x01R\x01g\x01T\x01ID\x01true\x02",
)


class Target(NamedTuple):
    """A decoder. It may refuse with a `ProtocolError` (settings: `ConfigError`); anything else it raises is a bug."""

    name: str
    decode: Decode
    seeds: tuple[bytes, ...]


def all_targets() -> list[Target]:
    frames = [golden.data for golden in golden_frames()]
    decoders = [*_frame_targets(frames), *_body_targets(frames), *_message_targets(frames), *_text_targets()]
    return decoders + [Target(name, take, seeds) for name, take, seeds in broker_targets()]


# --- frames and headers


def _frame_targets(frames: list[bytes]) -> Iterable[Target]:
    headers = {kind: [_header(data) for data in frames if data[4] == kind] for kind in SerializeType}
    yield Target("frame", _frame, tuple(frames))
    yield Target("stream of frames", _stream, tuple(b"".join(frames[at : at + 3]) for at in range(0, 60, 3)))
    yield Target("typed header", _typed_header, tuple(frames))
    yield Target("JSON header", _json_header, tuple(headers[SerializeType.JSON]))
    yield Target("binary header", lambda data: header_binary.decode(data, b""), tuple(headers[SerializeType.ROCKETMQ]))
    yield Target("PROXY preamble", proxy_protocol.parse, _PREAMBLES)


_PREAMBLES = (
    b"PROXY TCP4 192.0.2.1 127.0.0.1 56324 9876\r\n",
    b"PROXY TCP6 2001:db8::1 ::1 56324 9876\r\n",
    b"PROXY UNKNOWN\r\n",
    proxy_protocol.V2_START + b"\x21\x11\x00\x10\xc0\0\x02\x01\x7f\0\0\x01\xdc\x04\x26\x94\x04\x00\x01x",
    proxy_protocol.V2_START + b"\x21\x21\x00\x24" + bytes(36),
    proxy_protocol.V2_START + b"\x20\x00\x00\x00",
)


def _header(data: bytes) -> bytes:
    return data[8 : 8 + int.from_bytes(data[5:8], "big")]


def _body(data: bytes) -> bytes:
    return data[8 + len(_header(data)) :]


def _frame(data: bytes) -> object:
    command = frame.decode(data)
    again = frame.decode(frame.encode(command))
    # Half of a surrogate pair, which only JSON can carry, is not written again.
    names = {name.encode("utf-8", "replace").decode() for name in command.ext}
    assert (again.code, again.opaque, set(again.ext)) == (command.code, command.opaque, names)
    return command


def _stream(data: bytes) -> object:
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    whole = _events([data])
    assert _events(pieces) == whole
    return whole


def _events(pieces: list[bytes]) -> list[bytes | str]:
    reader, events = frame.FrameReader(), list[bytes | str]()
    with contextlib.suppress(RemoteProtocolError):
        for piece in pieces:
            reader.feed(piece)
            while (taken := reader.take()) is not None:
                events.append(taken)
        return events
    return [*events, "error"]


def _json_header(data: bytes) -> object:
    """Both decoders must agree; what the chosen one raises is raised."""
    assert _outcome(header_json.decode, data) == _outcome(header_json.decode_plain, data)
    return header_json.decode(data, b"")


def _outcome(decoder: Callable[[bytes, bytes], object], data: bytes) -> object:
    try:
        return decoder(data, b"")
    except RemoteProtocolError as error:
        return str(error)


def _typed_header(data: bytes) -> object:
    command = frame.decode(data)
    cls = (RESPONSE_HEADERS if command.is_response else REQUEST_HEADERS).get(command.code)
    if cls is None:
        return None
    header = decode(cls, command.ext)
    assert decode(cls, encode(header)) == header
    return header


# --- bodies


def _body_targets(frames: list[bytes]) -> Iterable[Target]:
    texts = tuple(body for data in frames if (body := _body(data))[:1] in (b"{", b"["))
    registrations = [_body(data) for data in frames if frame.decode(data).code == RequestCode.REGISTER_BROKER]
    plain = [decode_register_body(body, compressed=False, version=CURRENT_VERSION) for body in registrations if body]
    packed = [encode_register_body(body, compressed=True) for body in plain]
    yield Target("dialect", _dialect, texts)
    yield from _body_class_targets(texts)
    yield Target("registration, compressed", _registration, tuple(packed))
    yield Target("registration, expanded", lambda data: _registration(zlib.compress(data, 1)), _expanded(packed))


def _expanded(packed: list[bytes]) -> tuple[bytes, ...]:
    return tuple(zlib.decompress(data) for data in packed)


def _dialect(data: bytes) -> object:
    value = fastjson.parse(data)
    assert fastjson.write(fastjson.parse(fastjson.write(value))) == fastjson.write(value)
    return value


def _body_class_targets(texts: tuple[bytes, ...]) -> Iterable[Target]:
    """One for each module of `rocketline.wire.bodies`: every input is read as every class that the module defines."""
    for info in pkgutil.iter_modules(bodies.__path__):
        module = importlib.import_module(f"{bodies.__name__}.{info.name}")
        classes = [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]
        if found := [cls for cls in classes if dataclasses.is_dataclass(cls)]:
            yield Target(f"bodies: {info.name}", functools.partial(_as_each, found), texts)


def _as_each(classes: list[type], data: bytes) -> object:
    value = fastjson.parse(data)
    for cls in classes:
        with contextlib.suppress(RemoteProtocolError, LocalProtocolError):
            _check_settles(cls, bodies.encode(from_value(cls, value)))
    return value


def _check_settles(cls: type, written: bytes) -> None:
    """What we write, we read; from then on it stays the same. (An unknown enum is first dropped, then a default.)"""
    try:
        again = bodies.encode(bodies.decode(cls, written))
        assert bodies.encode(bodies.decode(cls, again)) == again, cls.__name__
    except RemoteProtocolError as error:
        raise AssertionError(f"we refuse what we wrote: {error}") from None


def _registration(data: bytes) -> object:
    return decode_register_body(data, compressed=True, version=CURRENT_VERSION if len(data) % 2 else V4_9_4)


# --- messages


def _message_targets(frames: list[bytes]) -> Iterable[Target]:
    log = [bytes.fromhex(line["hex"]) for line in read_lines("store-5.5.0.jsonl") if line["file"] == "commitlog"]
    records = tuple(data for data in log if data[4:8] in (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"))
    batches = tuple(_body(data) for data in frames if frame.decode(data).code == RequestCode.SEND_BATCH_MESSAGE)
    yield Target("stored messages", _records, records)
    yield Target("batch", lambda data: decode_batch(data, "T"), batches)
    yield Target("trace records", lambda data: MessageTrace.read("ID", [("host", data)]), _TRACES)
    yield Target("properties", decode_properties, (b"TAGS\x01a\x02KEYS\x01k\x02", b"a\x01b", b"\x02\x02\x01"))
    for kind in CompressionType:
        seeds = tuple(compress(text, kind) for text in (b"", b"hello " * 100, bytes(range(256))))
        yield Target(f"{kind.name} body", _expansion(kind), seeds)


def _records(data: bytes) -> object:
    message_codec.scan_records(data)
    stored = message_codec.decode_records(data)
    message_codec.decode_messages(data, expanded_bytes_max=EXPANDED_BYTES_MAX)
    return stored


def _expansion(kind: CompressionType) -> Decode:
    def expand(data: bytes) -> object:
        body = decompress(data, kind, EXPANDED_BYTES_MAX)
        assert len(body) <= EXPANDED_BYTES_MAX
        return body

    return expand


# --- small texts


def _text_targets() -> Iterable[Target]:
    yield Target("Java properties file", parse_java_properties, (b"# c\nlistenPort=9876\nk : v\\\n w\nu=\\u00e9\n",))
    yield _text_target("POP handle", pop_handles.PopHandle.parse, "100 1700000000000 60000 3 0 broker-a 1 101")
    yield _text_target("POP start offsets", pop_handles.parse_start_offsets, "0 1 100;0 2 50")
    yield _text_target("POP message offsets", pop_handles.parse_message_offsets, "0 1 100,101;0 2 50")
    yield _text_target("POP order counts", pop_handles.parse_order_counts, "0 1 3;0 qo1%100 2")
    yield _text_target("recall handle", RecallHandle.decode, RecallHandle("T", "b", 1700000000001, "0A" * 16).encode())
    yield _text_target("offset message id", OffsetMessageId.parse, "7F00000100002A9F0000000000001000")
    yield _text_target("unique id", UniqueIdParts.parse, "7F0000010001000000010000000A0000")
    yield _text_target("address", HostAddress.parse, "127.0.0.1:10911", "[::1]:10911")


def _text_target(name: str, parse: Callable[[str], object], *seeds: str) -> Target:
    """For decoders that take text: header fields, which may hold anything that JSON can say."""
    return Target(name, lambda data: parse(data.decode("utf-8", "surrogateescape")), tuple(s.encode() for s in seeds))


REFUSALS = (RemoteProtocolError, LocalProtocolError, ConfigError)
