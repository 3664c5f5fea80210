"""Binary headers: every length is checked before it is believed."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire import header_binary, header_json
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command
from rocketline.wire.header_bounds import FIELDS_MAX, UNCOUNTED_BYTES_MAX
from support.effort import calls_of


def header(*, remark: bytes = b"", pairs: bytes = b"", remark_bytes: int | None = None, pairs_bytes: int | None = None,
           code: int = 14, language: int = 3) -> bytes:  # fmt: skip
    """A header whose announced lengths may be lies."""
    announced = len(remark) if remark_bytes is None else remark_bytes
    fixed = struct.pack(">hBhiii", code, language, 479, 3, 0, announced)
    return fixed + remark + struct.pack(">i", len(pairs) if pairs_bytes is None else pairs_bytes) + pairs


def pair(name: bytes, value: bytes, *, name_bytes: int | None = None, value_bytes: int | None = None) -> bytes:
    head = struct.pack(">h", len(name) if name_bytes is None else name_bytes)
    return head + name + struct.pack(">i", len(value) if value_bytes is None else value_bytes) + value


def test_decode_when_all_is_well_reads_every_part() -> None:
    data = header(remark=b"Not found", pairs=pair(b"topic", "grün".encode()))
    expected = Command(14, {"topic": "grün"}, b"body", 3, 0, "Not found", 479, "PYTHON", SerializeType.ROCKETMQ)
    assert header_binary.decode(data, b"body") == expected


def test_decode_when_remark_and_fields_are_empty_gives_none_of_them() -> None:
    command = header_binary.decode(header(pairs=pair(b"a", b"") + pair(b"", b"x")), b"")
    assert (command.remark, command.ext) == (None, {})


def test_decode_when_a_name_is_repeated_takes_the_last() -> None:
    pairs = pair(b"a", b"1") + pair(b"a", b"2") + pair(b"b", b"1") + pair(b"b", b"")
    assert header_binary.decode(header(pairs=pairs), b"").ext == {"a": "2"}


@pytest.mark.parametrize("language", [14, 127, 128, 255])
def test_decode_when_language_is_unknown_gives_none(language: int) -> None:
    assert header_binary.decode(header(language=language), b"").language is None


def test_decode_when_bytes_follow_the_fields_passes_them_over() -> None:
    assert header_binary.decode(header() + b"zz", b"").code == 14


def test_decode_when_pop_code_was_cut_to_16_bits_gives_what_is_left() -> None:
    """POP_MESSAGE (200050) arrives as 3442, a code that nobody knows."""
    assert header_binary.decode(header(code=200050 & 0xFFFF), b"").code == 3442


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "binary header of 0 bytes is cut short"),
        (header()[:20], "binary header of 20 bytes is cut short"),
        (header(remark_bytes=-1), "remark of -1 bytes at byte 17, 4 left"),
        (header(remark_bytes=5), "remark of 5 bytes at byte 17, 4 left"),
        (header(remark_bytes=2**31 - 1), "remark of 2147483647 bytes at byte 17, 4 left"),
        (header(remark=b"hi", remark_bytes=3), "is cut short"),
        (header(pairs_bytes=-1), "-1 bytes of fields announced, 0 left"),
        (header(pairs_bytes=2**31 - 1), "2147483647 bytes of fields announced, 0 left"),
        (header(pairs=pair(b"a", b"b", name_bytes=-1)), "field name of -1 bytes"),
        (header(pairs=pair(b"a", b"b", name_bytes=32767)), "field name of 32767 bytes"),
        (header(pairs=pair(b"a", b"b", value_bytes=-1)), "field value of -1 bytes"),
        (header(pairs=pair(b"a", b"b", value_bytes=2**31 - 1)), "field value of 2147483647 bytes at byte 28, 1 left"),
        (header(pairs=pair(b"a", b"b"), pairs_bytes=7), "field value of 1 bytes at byte 28, 0 left"),
        (header(pairs=b"\0"), "is cut short"),
        (header(remark=b"\xff"), "remark at byte 17 is not UTF-8"),
        (header(pairs=pair(b"\xff", b"b")), "field name at byte 23 is not UTF-8"),
        (header(pairs=pair(b"a", b"\xff")), "field value at byte 28 is not UTF-8"),
    ],
)
def test_decode_when_a_length_or_text_is_wrong_names_it(data: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError) as error:
        header_binary.decode(data, b"")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    "command", [Command(200050), Command(-32769), Command(1, version=32768), Command(1, opaque=2**31)]
)
def test_encode_when_a_number_does_not_fit_refuses(command: Command) -> None:
    with pytest.raises(LocalProtocolError, match="does not fit a binary header"):
        header_binary.encode(command)


def test_encode_when_a_field_name_is_too_long_refuses() -> None:
    with pytest.raises(LocalProtocolError, match="field name of 32768 bytes"):
        header_binary.encode(Command(1, {"n" * 32768: "v"}))


def test_encode_when_text_has_half_a_surrogate_pair_writes_a_question_mark() -> None:
    command = Command(1, {"a": "x\udc00"}, remark="\ud800", serialize_type=SerializeType.ROCKETMQ)
    decoded = header_binary.decode(header_binary.encode(command), b"")
    assert (decoded.remark, decoded.ext) == ("?", {"a": "x?"})


@pytest.mark.parametrize("codec", [header_binary, header_json])
def test_header_may_have_thousands_of_fields_and_no_more(codec: ModuleType) -> None:
    def command(fields: int) -> Command:
        return Command(1, {f"k{n}": "v" for n in range(fields)})

    assert len(codec.decode(codec.encode(command(FIELDS_MAX)), b"").ext) == FIELDS_MAX
    with pytest.raises(RemoteProtocolError, match="4097 fields and more: at most 4096"):
        codec.decode(codec.encode(command(FIELDS_MAX + 1)), b"")


def test_long_binary_header_is_read_as_far_as_its_fields_count() -> None:
    header = header_binary.encode(Command(1, {f"{n:05}": "v" for n in range(80_000)}))

    def read() -> None:
        with pytest.raises(RemoteProtocolError):
            header_binary.decode(header, b"")

    assert calls_of(read) < 20 * FIELDS_MAX


def test_short_json_header_cannot_have_too_many_fields() -> None:
    """Hot paths read no longer ones, and do not count."""
    fields = ",".join(f'"{n:x}":1' for n in range(FIELDS_MAX + 1))
    assert len(fields) > UNCOUNTED_BYTES_MAX
