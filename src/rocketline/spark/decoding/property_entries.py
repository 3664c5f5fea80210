"""The properties of many messages, taken apart at once: `name 0x01 value 0x02`, again and again.

numpy finds the two marks in the properties of all rows together; names and values are then slices. What
`wire.properties` says of one message holds here for all: entries without a name or a value do not count, the last mark
may be missing, a value may hold the first mark. Rows with a name twice, or with bytes that are no UTF-8, are `odd`:
whoever decodes messages one by one decodes these.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketline.spark.decoding.byte_slices import cut
from rocketline.spark.decoding.record_spans import Flags, Ints, gathered

_NAME_END: Final = 1
_VALUE_END: Final = 2
_WORD_BYTES: Final = 8
_WORDS: Final = {4: "<u4", 8: "<u8"}
"""Names of these lengths are compared as one number."""
_ROW_SHIFT: Final = np.uint64(40)
_HASH_SHIFT: Final = np.uint64(24)
_HEAD_FACTOR, _TAIL_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class PropertyEntries:
    """The entries of all rows, one after the other.

    >>> entries = PropertyEntries(pa.array([b"TAGS\\x01a\\x02K\\x01b=\\x01\\x02", b"", b"KEYS\\x01c"], pa.binary()))
    >>> entries.maps().to_pylist()
    [[('TAGS', 'a'), ('K', 'b=\\x01')], [], [('KEYS', 'c')]]
    >>> entries.values_of("KEYS").to_pylist()
    [None, None, 'c']
    """

    def __init__(self, texts: pa.Array) -> None:
        """`texts`: the properties of each row, as binary."""
        self._rows = len(texts)
        self._take(texts)
        has_text = np.diff(self._bounds) > 0
        unfinished = self._octets[self._bounds[1:][has_text] - 1] != _VALUE_END
        if unfinished.any():  # as Java 4.9.1 to 5.1 wrote them
            has_text[has_text] = unfinished
            endings = pa.array([b"", bytes([_VALUE_END])], pa.binary()).take(pa.array(has_text.astype(np.int8)))
            self._take(pc.binary_join_element_wise(texts, endings, b""))
        starts, marks, ends, counts = self._find()
        row_of: Ints = np.repeat(np.arange(self._rows), counts)
        is_entry = (marks > starts) & (ends > marks + 1)
        if not is_entry.all():
            starts, marks, ends, row_of = starts[is_entry], marks[is_entry], ends[is_entry], row_of[is_entry]
        self._starts, self._marks, self._ends, self._row_of = starts, marks, ends, row_of

    def _take(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + self._rows + 1]
        first = int(bounds[0])
        self._texts = texts
        self._bounds: Ints = bounds.astype(np.int64) - first
        self._buffer = pa.py_buffer(b"") if data is None else data.slice(first, int(self._bounds[-1]))
        self._octets = np.frombuffer(self._buffer, np.uint8)

    def _find(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Of each entry where its name begins, its mark, and its end; of each row how many it has.

        An entry without a mark has one where it begins. Every row that is not empty ends with the end of an entry.
        """
        octets = self._octets
        places = np.flatnonzero(octets - np.uint8(_NAME_END) < _VALUE_END)
        kinds = octets[places]
        is_plain = len(kinds) % 2 == 0 and bool((kinds[::2] == _NAME_END).all() and (kinds[1::2] == _VALUE_END).all())
        ends: Ints = places[1::2] if is_plain else places[kinds == _VALUE_END]
        starts: Ints = np.empty_like(ends)
        if len(ends):
            starts[0] = 0
            np.add(ends[:-1], 1, out=starts[1:])
        counts = np.diff(np.searchsorted(ends, self._bounds))
        if is_plain:
            return starts, places[::2], ends, counts
        marks = np.append(places[kinds == _NAME_END], len(octets))  # the last one stands for none
        marks = marks[np.searchsorted(marks[:-1], starts)]
        return starts, np.where(marks < ends, marks, starts), ends, counts

    def odd_rows(self, *, has_maps: bool) -> Flags:
        """The rows that must be decoded one by one; with `has_maps` because `maps` would show a name twice."""
        odd = np.zeros(self._rows, np.bool_)
        try:
            self._texts.cast(pa.string())
        except pa.ArrowInvalid:
            odd |= np.array([not _is_utf8(text) for text in self._texts.to_pylist()])
        if has_maps:
            odd[self._rows_with_a_name_twice()] = True
        return odd

    def _rows_with_a_name_twice(self) -> Ints:
        hashes, count = self._name_hashes, self._alike
        if count is not None and len(np.unique(hashes[:count])) == count:
            return np.empty(0, np.int64)
        numbers = np.sort(self._row_of.astype(np.uint64) << _ROW_SHIFT | hashes >> _HASH_SHIFT)
        twice: Ints = (numbers[1:][numbers[1:] == numbers[:-1]] >> _ROW_SHIFT).astype(np.int64)
        return twice

    @cached_property
    def _name_hashes(self) -> npt.NDArray[np.uint64]:
        """Equal for equal names, different for different ones of up to 16 bytes, and for nearly all others."""
        size = self._marks - self._starts
        padded = np.concatenate([np.zeros(_WORD_BYTES, np.uint8), self._octets])
        tails = gathered(padded, self._marks, _WORD_BYTES).view("<u8")  # the bytes just before the mark
        before = (_WORD_BYTES * np.maximum(_WORD_BYTES - size, 0)).astype(np.uint64)  # bits that are not of the name
        hashes: npt.NDArray[np.uint64] = (tails >> before) * _TAIL_FACTOR + size.astype(np.uint64)
        is_long = np.flatnonzero(size > _WORD_BYTES)
        hashes[is_long] ^= gathered(self._octets, self._starts[is_long], _WORD_BYTES).view("<u8") * _HEAD_FACTOR
        return hashes

    @cached_property
    def _alike(self) -> int | None:
        """How many entries each row has, if all rows have the same names in the same order, as messages of one
        producer do; else None."""
        count, rest = divmod(len(self._starts), max(self._rows, 1))
        if rest or not count:
            return None
        hashes, row_of = self._name_hashes.reshape(-1, count), self._row_of[::count]
        is_alike = bool((hashes == hashes[0]).all()) and bool((np.diff(row_of) == 1).all())
        return count if is_alike and self._row_of[-1] == self._rows - 1 and self._row_of[count - 1] == 0 else None

    def values_of(self, name: str) -> pa.Array:
        """The value that each row has of this property; the last one if it has several, null if it has none."""
        found = self._entries_of(name.encode())
        values, rows = (self._marks[found] + 1, self._ends[found]), self._row_of[found]
        if len(rows) == self._rows and bool((np.diff(rows) > 0).all()):
            return cut(self._buffer, *values, pa.string())
        places = np.full(self._rows, -1)
        places[rows] = np.arange(len(rows))
        return cut(self._buffer, *values, pa.string(), places)

    def _entries_of(self, name: bytes) -> Ints:
        """The numbers of the entries with this name."""
        count = self._alike
        among = np.arange(len(self._starts)) if count is None else np.arange(count)
        among = among[(self._marks[among] - self._starts[among]) == len(name)]
        words = gathered(self._octets, self._starts[among], len(name)).view(_WORDS[len(name)])
        found: Ints = among[words == np.frombuffer(name, _WORDS[len(name)])[0]]
        if count is not None:  # what the first row has, all have
            found = (np.arange(self._rows)[:, None] * count + found).reshape(-1)
        return found

    def maps(self) -> pa.Array:
        """All properties of each row."""
        names = cut(self._buffer, self._starts, self._marks, pa.string())
        values = cut(self._buffer, self._marks + 1, self._ends, pa.string())
        counts = np.bincount(self._row_of, minlength=self._rows)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), names, values)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
