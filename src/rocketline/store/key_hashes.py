"""The hashes under which the index keeps keys: Java's `String.hashCode` of `topic#key`, many at a time.

With numpy a batch is hashed column by column. Without, a key is cut in pieces whose hashes are remembered: the unique
ids that clients make share their beginning, then the time, then count up, so nearly every piece has been seen before.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from rocketline.model.java_hash import java_string_hash

_MASK: Final = 0xFFFFFFFF
_POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in range(257)]
_KEY_CHARACTERS_MAX: Final = len(_POWERS) - 1
"""Longer keys are hashed one by one."""
_GROUP_MIN: Final = 16
"""So many keys of one length make up for what numpy's calls cost."""


class _Pieces(dict[str, int]):
    """Text → its hash, without a sign. Forgets everything when it has become too large."""

    def __missing__(self, piece: str) -> int:
        if len(self) >= 65_536:
            self.clear()
        hashed = self[piece] = java_string_hash(piece) & _MASK
        return hashed


_heads, _middles, _tails = _Pieces(), _Pieces(), _Pieces()


@cache
def _numpy() -> Any:
    """Numpy if it is installed, imported with the first batch: a start is quicker without."""
    try:
        return importlib.import_module("numpy")
    except ImportError:  # the extra `speed` is not installed
        return None


def hash_keys(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """The index's hash of each `topic#key`: never negative, the smallest of all integers becomes 0."""
    if len(keys) >= _GROUP_MIN and _numpy() is not None:
        return by_columns(topics, keys)
    return by_pieces(topics, keys)


def by_pieces(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """Without numpy: a key is its last four characters, the eight before them, and the rest."""
    prefixes, heads, middles, tails, powers = _prefixes(topics), _heads, _middles, _tails, _POWERS
    twelve, four = powers[12], powers[4]
    hashes = []
    for topic, key in zip(topics, keys, strict=True):
        if len(key) <= _KEY_CHARACTERS_MAX and key.isascii():
            hashed = prefixes[topic] * powers[len(key)] + heads[key[:-12]] * twelve
            hashed = (hashed + middles[key[-12:-4]] * four + tails[key[-4:]]) & _MASK
        else:
            hashed = java_string_hash(f"{topic}#{key}") & _MASK
        hashes.append(hashed if hashed < 0x80000000 else (0x100000000 - hashed) & 0x7FFFFFFF)
    return hashes


def by_columns(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """With numpy: all keys of one length at a time."""
    lengths = set(map(len, keys))
    if len(lengths) == 1:
        return _of_one_length(topics, keys, lengths.pop())
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(len(key), []).append(place)
    hashes = [0] * len(keys)
    for length, group in places.items():
        found = _of_one_length([topics[place] for place in group], [keys[place] for place in group], length)
        for place, hashed in zip(group, found, strict=True):
            hashes[place] = hashed
    return hashes


def _of_one_length(topics: Sequence[str], keys: Sequence[str], length: int) -> list[int]:
    """Hashes of keys that all have `length` characters. Overflow is what Java does as well."""
    text = "".join(keys)
    if len(keys) < _GROUP_MIN or not 0 < length <= _KEY_CHARACTERS_MAX or not text.isascii():
        return by_pieces(topics, keys)
    prefixes, np = _prefixes(topics), _numpy()
    units = np.frombuffer(text.encode(), np.uint8).reshape(-1, length).astype(np.uint32)
    weights = np.array(_POWERS[:length][::-1], np.uint32)
    starts = np.array([prefixes[topic] for topic in topics], np.uint32) * np.uint32(_POWERS[length])
    hashes = (units @ weights + starts).view(np.int32)
    np.absolute(hashes, out=hashes)
    hashes[hashes < 0] = 0
    listed: list[int] = hashes.tolist()
    return listed


def _prefixes(topics: Sequence[str]) -> dict[str, int]:
    return {topic: _heads[f"{topic}#"] for topic in set(topics)}
