"""New inputs from old ones: the small damages that networks, bugs and attackers do to bytes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

INPUT_BYTES_MAX = 4096
_LENGTHS = (0, 1, 7, 8, 91, 127, 128, 255, 256, 32767, 32768, 65535, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
_WORDS = (
    b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\u", b"\\ud800", b"null", b"true", b"NaN", b"-0", b"1e999",
    b'{"$ref":"$"}', b'{"$ref":".."}', b"{{", b"{0:", b"\x00", b"\x01", b"\x02", b"\xff", b"\xed\xa0\x80", b" ", b";",
    b"9" * 20, b"9" * 5000, b"[" * 2000, b'{"a":' * 2000, b"\r\n", b"/*", b"'", "é😀".encode(), b".",
)  # fmt: skip


def mutate(random: Random, data: bytes, other: bytes) -> bytes:
    """One to four damages to `data`; `other` lends a piece. Never longer than `INPUT_BYTES_MAX`."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        data = random.choice(_DAMAGES)(random, data, other)[:INPUT_BYTES_MAX]
    return data


def _place(random: Random, data: bytes) -> int:
    return random.randrange(len(data) + 1)


def _span(random: Random, data: bytes) -> tuple[int, int]:
    start = _place(random, data)
    return start, min(len(data), start + random.choice((1, 2, 4, 8, 32, 256)))


def _flip_bit(random: Random, data: bytes, _: bytes) -> bytes:
    flipped = bytearray(data or b"\0")
    flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _change_byte(random: Random, data: bytes, _: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]


def _write_length(random: Random, data: bytes, _: bytes) -> bytes:
    """A number where a length may stand, in two or four bytes."""
    at, width = _place(random, data), random.choice((2, 4))
    length: int = random.choice((*_LENGTHS, len(data), len(data) - at)) + random.choice((-1, 0, 0, 1))
    return data[:at] + (length & (1 << 8 * width) - 1).to_bytes(width, "big") + data[at + width :]


def _insert_word(random: Random, data: bytes, _: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + random.choice(_WORDS) + data[at:]


def _remove(random: Random, data: bytes, _: bytes) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[end:]


def _repeat(random: Random, data: bytes, _: bytes) -> bytes:
    start, end = _span(random, data)
    return data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]


def _cut(random: Random, data: bytes, _: bytes) -> bytes:
    return data[: _place(random, data)]


def _splice(random: Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(random, data)] + other[_place(random, other) :]


def _borrow(random: Random, data: bytes, other: bytes) -> bytes:
    start, end = _span(random, other)
    at = _place(random, data)
    return data[:at] + other[start:end] + data[at:]


_DAMAGES: tuple[Callable[[Random, bytes, bytes], bytes], ...] = (
    _flip_bit, _change_byte, _write_length, _write_length, _insert_word, _remove, _repeat, _cut, _splice, _borrow,
)  # fmt: skip
