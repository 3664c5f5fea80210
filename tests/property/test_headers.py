"""Typed headers take any text, and the two JSON decoders are one in meaning."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import RemoteProtocolError
from rocketline.wire import frame, header_json
from rocketline.wire.command import Command
from rocketline.wire.headers import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    BoundaryType,
    Header,
    SendMessageRequestHeaderV2,
    decode,
    encode,
    send_header_v1,
    send_header_v2,
)
from support.golden import golden_frames

HEADER_CLASSES = sorted({*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}, key=lambda cls: cls.__name__)
ANY_TEXT = st.text(st.characters(), max_size=20)  # lone surrogates too: JSON can carry them
VALUES: dict[str, st.SearchStrategy[object]] = {
    "text": ANY_TEXT,
    "a whole number of 32 bits": st.integers(-(2**31), 2**31 - 1),
    "a whole number of 64 bits": st.integers(-(2**63), 2**63 - 1),
    "a boolean": st.booleans(),
    "a boundary type": st.sampled_from(BoundaryType),
}


@st.composite
def any_header(draw: st.DrawFn, classes: list[type[Header]] = HEADER_CLASSES) -> Header:
    cls = draw(st.sampled_from(classes))
    values = {}
    for reading, writing in zip(cls.reading, cls.writing, strict=True):
        value = VALUES[reading.expected]
        values[writing.attribute] = draw(st.none() | value if reading.default is None else value)
    return cls(**values)


@given(any_header())
def test_round_trip_when_header_is_any_gives_it_back(header: Header) -> None:
    ext = encode(header)
    assert decode(type(header), ext) == header
    assert decode(type(header), ext | {"unknown": "x"}) == header


@given(any_header([SendMessageRequestHeaderV2]))
def test_send_header_when_written_in_full_means_the_same(header: SendMessageRequestHeaderV2) -> None:
    assert send_header_v2(send_header_v1(header)) == header


@given(st.sampled_from(HEADER_CLASSES), st.data())
def test_decode_when_fields_hold_any_text_reads_it_or_names_the_field(cls: type[Header], data: st.DataObject) -> None:
    names = [reading.name for reading in cls.reading]
    texts = ANY_TEXT | st.integers().map(str) | st.sampled_from(["true", "", "-1", "1e3", "9" * 5000])
    ext = data.draw(st.dictionaries(st.sampled_from(names or ["x"]), texts))
    try:
        header = decode(cls, ext)
    except RemoteProtocolError as error:
        named = [name for name in names if f"{cls.__name__}: the field {name} is " in str(error)]
        assert len(named) == 1  # both ways are right; which one, the text decides
    else:
        assert decode(cls, encode(header)) == header


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(2**31 - 2, 2**31 + 2), st.floats(), ANY_TEXT,
    st.sampled_from(["105", " 5", "1_0", "1.0", "JAVA", "GO", "", 1.0, -1.7, 1e18, 1e400, 2**63, 10**30]),
)  # fmt: skip
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ANY_TEXT, inner, max_size=2))
KEYS = ["code", "flag", "opaque", "version", "language", "remark", "extFields", "serializeTypeCurrentRPC", "other"]
usual = st.one_of(st.integers(0, 400), st.sampled_from(["JAVA", "GO"]), st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2))


@st.composite
def json_headers(draw: st.DrawFn) -> bytes:
    """Header text as nobody should write it: keys repeated, values of every type, escapes or raw characters."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(KEYS), usual | values), max_size=6))
    ascii_only = draw(st.booleans())
    texts = [f"{json.dumps(key)}:{json.dumps(value, ensure_ascii=ascii_only)}" for key, value in pairs]
    blank = draw(st.sampled_from(["", " ", "\n\t"]))
    end = draw(st.sampled_from(["}", "}", "}", "} ", "}x", "", ",}"]))
    return (f"{blank}{{{blank}" + f",{blank}".join(texts) + end).encode("utf-8", "surrogatepass")


def outcome(decoder: object, header: bytes) -> Command | str:
    assert callable(decoder)
    try:
        command: Command = decoder(header, b"body")
    except RemoteProtocolError as error:
        return str(error)
    return command


@given(json_headers())
def test_json_decoders_when_header_is_strange_agree(header: bytes) -> None:
    assert outcome(header_json.decode, header) == outcome(header_json.decode_plain, header)


@given(st.sampled_from([golden.data for golden in golden_frames() if golden.data[4] == 0]), st.data())
def test_json_decoders_when_a_recorded_header_is_changed_agree(whole: bytes, data: st.DataObject) -> None:
    header = bytearray(whole[8 : 8 + int.from_bytes(whole[5:8], "big")])
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(header) - 1))
        header[place] = data.draw(st.sampled_from(b'"{}[],:\\u0e-.9 \x01\x80tn'))
    assert outcome(header_json.decode, bytes(header)) == outcome(header_json.decode_plain, bytes(header))


def test_json_decoders_when_header_was_recorded_agree() -> None:
    for golden in golden_frames():
        header_end = 8 + int.from_bytes(golden.data[5:8], "big")
        header, body = golden.data[8:header_end], golden.data[header_end:]
        if golden.data[4] == 0:
            assert header_json.decode_plain(header, body) == frame.decode(golden.data), golden.what
