"""The Bloom filter of Apache's broker: which bits stand for a group and a topic.

With `enableCalcFilterBitMap` Apache notes with each message, in a few bits, which groups may want it. Ours looks at the
message itself, and writes the bits only because a broker of Apache's that reads the file throws it away without them.
"""

from __future__ import annotations

import math

_U64 = (1 << 64) - 1


def map_size(error_percent: int, groups: int) -> tuple[int, int]:
    """How many bits a group has, and how many the map has, for such a rate of errors with so many groups.

    >>> map_size(20, 32)
    (3, 112)
    """
    rate = error_percent / 100
    hashes = math.ceil(math.log(rate) / math.log(0.5))
    bits = math.ceil(groups * (math.log(1 / rate) / math.log(2)) * (1 / math.log(2)))
    return hashes, 8 * math.ceil(bits / 8)


def bit_positions(text: str, hashes: int, bits: int) -> list[int]:
    """The bits of one text."""
    hashed = _murmur3(text.encode("utf-8", "replace"))
    low, high = hashed & 0xFFFFFFFF, hashed >> 32
    positions = []
    for number in range(1, hashes + 1):
        combined = low + number * high & 0xFFFFFFFF
        positions.append((~combined & 0xFFFFFFFF if combined >> 31 else combined) % bits)
    return positions


def _murmur3(data: bytes) -> int:
    """The first half of the 128-bit hash. Java: Hashing.murmur3_128().hashString(…).asLong(), its bits."""
    c1, c2, h1, h2 = 0x87C37B91114253D5, 0x4CF5AD432745937F, 0, 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        k1 = int.from_bytes(data[at : at + 8], "little") * c1 & _U64
        h1 ^= _rotated(k1, 31) * c2 & _U64
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _U64
        k2 = int.from_bytes(data[at + 8 : at + 16], "little") * c2 & _U64
        h2 ^= _rotated(k2, 33) * c1 & _U64
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _U64
    k1, k2 = int.from_bytes(data[whole : whole + 8], "little"), int.from_bytes(data[whole + 8 :], "little")
    h1 ^= _rotated(k1 * c1 & _U64, 31) * c2 & _U64
    h2 ^= _rotated(k2 * c2 & _U64, 33) * c1 & _U64
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & _U64
    h2 = (h2 + h1) & _U64
    return (_mixed(h1) + _mixed(h2)) & _U64


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _U64


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _U64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _U64
    return value ^ value >> 33
