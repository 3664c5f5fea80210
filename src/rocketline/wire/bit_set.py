"""A set of small numbers as Base64 text: bit i of the bytes, lowest first, is set if i is in it. Java: BitSet."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from rocketline.errors import LocalProtocolError, RemoteProtocolError

BITS_MAX = 65536
"""No number is this great or greater: a batch of acknowledgements reaches over the few messages of one pop."""


def encode_bit_set(numbers: Iterable[int]) -> str:
    """The text for `numbers`. Raises `LocalProtocolError` if one is negative or too great.

    >>> encode_bit_set([0, 3, 9]), decode_bit_set("CQI=")
    ('CQI=', [0, 3, 9])
    """
    bits = 0
    for number in numbers:
        if not 0 <= number < BITS_MAX:
            raise LocalProtocolError(f"{number} in a bit set: numbers from 0 to {BITS_MAX - 1} are allowed")
        bits |= 1 << number
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


def decode_bit_set(text: str) -> list[int]:
    """The numbers in `text`, ascending. Raises `RemoteProtocolError` if it is no Base64, or too long."""
    if len(text) > BITS_MAX // 6 + 4:
        raise RemoteProtocolError(f"bit set of {len(text)} characters: it has at most {BITS_MAX} bits")
    try:
        bits = int.from_bytes(base64.b64decode(text, validate=True), "little")
    except (binascii.Error, ValueError) as error:
        raise RemoteProtocolError(f"bit set {text[:80]!r} is no Base64: {error}") from None
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
