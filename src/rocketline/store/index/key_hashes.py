"""The hashes under which the index keeps keys: Java's `String.hashCode` of `topic#key`, many at a time.

With numpy all characters of a batch are weighed at once. Without, a key is cut in pieces whose hashes are remembered:
the unique ids that clients make share their beginning, then the time, then count up, so nearly every piece has been
seen before.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from rocketline.model.java_hash import java_string_hash

np: Any = None
"""Numpy once it is loaded: see `load_numpy`."""

_MASK: Final = 0xFFFFFFFF
_POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in range(257)]
_KEY_CHARACTERS_MAX: Final = len(_POWERS) - 1
"""Longer keys are hashed one by one."""
MANY: Final = 32
"""So many keys make up for what numpy's calls cost."""
_BLANK: Final = ord(" ")
_ABSENT: Final = "-"
"""Stands in for a key that is not there; what it hashes to is of no use."""


def load_numpy() -> None:
    """Use numpy from now on, if it is installed (extra `speed`).

    Importing it takes as long as all the rest of a start. So it is left to a thread, and until then goes without.
    """
    global np  # one for the whole process, as imports are
    with contextlib.suppress(ImportError):
        np = importlib.import_module("numpy")


class _Pieces(dict[str, int]):
    """Text → its hash, without a sign. Forgets everything when it has become too large."""

    def __missing__(self, piece: str) -> int:
        if len(self) >= 65_536:
            self.clear()
        hashed = self[piece] = java_string_hash(piece) & _MASK
        return hashed


_heads, _middles, _tails = _Pieces(), _Pieces(), _Pieces()


def hash_keys(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """The index's hash of each `topic#key`: never negative, the smallest of all integers becomes 0."""
    if len(keys) >= MANY and np is not None:
        hashes: list[int] = by_weights(topics, keys).tolist()
        return hashes
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


def by_weights(topics: Sequence[str], keys: Sequence[str]) -> Any:
    """With numpy: an array of the same."""
    weighed = _weigh(keys)
    if weighed is None:
        return np.array(by_pieces(topics, keys), np.int32)
    return _joined(_numbers(_prefixes(topics), topics), *weighed)


def by_columns(topics: Sequence[str], columns: Sequence[Sequence[str | None]]) -> tuple[Any, Any] | None:
    """With numpy: a row of hashes for each topic, one of each column's key, and which of them there are.

    None if a key is unusual. A column with few different keys costs next to nothing.
    """
    weighed, present = [], []
    for column in columns:
        different = set(column)
        found = _weigh_few(column, different) if len(different) * 8 < len(column) else _weigh(_filled(column))
        if found is None:
            return None
        weighed.append(found)
        present.append(True if all(different) else np.fromiter(map(bool, column), np.bool_, len(column)))
    return join_columns(topics, weighed, present)


def join_columns(topics: Sequence[str], columns: Sequence[tuple[Any, Any] | None], present: Any) -> tuple[Any, Any]:
    """The same of keys that are weighed; None is a column without any. `present` tells what each column has."""
    prefixes = _numbers(_prefixes(topics), topics)
    hashes = np.zeros((len(topics), len(columns)), np.int32)
    is_there = np.zeros(hashes.shape, np.bool_)
    for number, (column, has) in enumerate(zip(columns, present, strict=True)):
        if column is not None:
            hashes[:, number], is_there[:, number] = _joined(prefixes, *column), has
    return hashes, is_there


def weigh_spans(characters: Any, begins: Any, lengths: Any, *, may_have_blanks: bool) -> tuple[Any, Any] | None:
    """The hash of each key by itself, and its length. Keys lie in an array of ASCII characters; None if unusual."""
    shortest, longest = int(lengths.min()), int(lengths.max())
    if not shortest or longest > _KEY_CHARACTERS_MAX:
        return None
    ends = lengths.cumsum()
    is_even = shortest == longest
    places = (
        begins[:, None] + np.arange(longest)
        if is_even
        else np.repeat(begins - ends + lengths, lengths) + np.arange(int(ends[-1]))
    )
    found = characters[places]
    if not may_have_blanks and (found == _BLANK).any():
        return None
    powers, sizes = _powers_array(), lengths.astype(np.uint32)
    if is_even:
        return found @ powers[longest - 1 :: -1], sizes
    exponents = np.repeat(ends - 1, lengths) - np.arange(len(found))
    return np.add.reduceat(found * powers[exponents], ends - lengths, dtype=np.uint32), sizes


def behind(text: str, sums: Any, lengths: Any) -> tuple[Any, Any]:
    """Weighed keys with a text before each of them."""
    return sums + np.uint32(_heads[text]) * _powers_array()[lengths], lengths + np.uint32(len(text))


def _filled(column: Sequence[str | None]) -> list[str]:
    return [key or _ABSENT for key in column]


def _weigh_few(column: Sequence[str | None], different: set[str | None]) -> tuple[Any, Any] | None:
    keys = list(different)
    weighed = _weigh(_filled(keys))
    if weighed is None:
        return None
    sums, lengths = (dict(zip(keys, numbers.tolist(), strict=True)) for numbers in weighed)
    return _numbers(sums, column), _numbers(lengths, column)


def _weigh(keys: Sequence[str]) -> tuple[Any, Any] | None:
    """The hash of each key by itself, and its length. Overflow is what Java does as well."""
    text = "".join(keys)
    lengths = np.fromiter(map(len, keys), np.uint32, len(keys))
    shortest, longest = int(lengths.min()), int(lengths.max())
    if not text.isascii() or not shortest or longest > _KEY_CHARACTERS_MAX:
        return None
    powers = _powers_array()
    characters = np.frombuffer(text.encode(), np.uint8)
    if shortest == longest:
        return characters.reshape(-1, longest) @ powers[longest - 1 :: -1], lengths
    ends = lengths.cumsum(dtype=np.int64)
    exponents = np.repeat(ends - 1, lengths) - np.arange(len(text))
    return np.add.reduceat(characters * powers[exponents], ends - lengths, dtype=np.uint32), lengths


def _joined(prefixes: Any, sums: Any, lengths: Any) -> Any:
    """The index's hashes of keys with the topics before them."""
    hashes = (sums + prefixes * _powers_array()[lengths]).view(np.int32)
    np.absolute(hashes, out=hashes)
    hashes[hashes < 0] = 0
    return hashes


def _numbers(numbers: Mapping[Any, int], names: Sequence[Any]) -> Any:
    return np.fromiter(map(numbers.__getitem__, names), np.uint32, len(names))


@cache
def _powers_array() -> Any:
    return np.array(_POWERS, np.uint32)


def _prefixes(topics: Sequence[str]) -> dict[str, int]:
    return {topic: _heads[f"{topic}#"] for topic in set(topics)}
