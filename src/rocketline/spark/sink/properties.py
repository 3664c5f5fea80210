"""The properties of rows, as texts that travel with their messages: by columns, all rows of an Arrow batch at once.

What becomes a property: the columns tags, keys, shardingKey and deliverTimestamp, the entries of the column properties,
SPARK_ID (who the row is, the same whenever it is sent again), and an id like every client gives to its messages. What
a column says wins over an entry of the same name; a unique id among the entries is kept, and marks of brokers are not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketline.model import property_names
from rocketline.spark.sink import schema as sink_schema
from rocketline.wire.unique_id import BLOCK_IDS, UniqueIdGenerator

SPARK_ID: Final = "SPARK_ID"
_NAME_END, _VALUE_END = "\x01", "\x02"
_BY_COLUMN: Final = {
    sink_schema.KEYS: property_names.KEYS,
    sink_schema.TAGS: property_names.TAGS,
    sink_schema.SHARDING_KEY: property_names.SHARDING_KEY,
    sink_schema.DELIVER_TIMESTAMP: property_names.TIMER_DELIVER_MS,
}
_ALONE: Final = (property_names.DELAY, *property_names.TIMERS)
"""No broker takes a message with one of these in a batch."""
_OTHER_TIMES: Final = (*_ALONE, property_names.TIMER_OUT_MS)
"""With one of these, which messages that were read may have, brokers would not go by the column deliverTimestamp."""
_BROKERS_OWN: Final = (
    property_names.TRAN_MSG,
    property_names.INNER_NUM,
    property_names.INNER_BASE,
    property_names.POP_CK,
    property_names.CRC32,
)
"""What messages that were read may have, and brokers would take for half of a transaction, for a batch, and so on."""

Refuse = Callable[[int, str], None]
"""Raises the error that names a row, by its place in the batch, and what is wrong with it."""
Flags = np.ndarray[Any, np.dtype[np.bool_]]


class PropertyColumns:
    """Makes the properties of one task's rows."""

    def __init__(self, identity: str | None, namespace: str, ids: UniqueIdGenerator) -> None:
        """`identity` is what every SPARK_ID begins with; None: rows get none."""
        self._identity, self._ids = identity, ids
        self._end = _VALUE_END
        if namespace:
            self._end += f"{property_names.INSTANCE_ID}{_NAME_END}{namespace}{_VALUE_END}"
        self._own = (
            *_BROKERS_OWN,
            *((property_names.INSTANCE_ID,) if namespace else ()),
            *((SPARK_ID,) if identity is not None else ()),
        )

    def encode(self, batch: pa.RecordBatch, numbers: np.ndarray[Any, Any], refuse: Refuse) -> tuple[pa.Array, Flags]:
        """The properties of every row, as bytes, and which rows must go alone. `numbers` are those of the rows."""
        rows, pieces, own = batch.num_rows, list[Any](), dict[str, Flags | None]()
        is_alone, has_id = np.zeros(rows, np.bool_), None
        for column, name in _BY_COLUMN.items():
            if column in batch.schema.names and (values := texts(batch.column(column))).null_count < rows:
                _check_text(values, f"column {column}", refuse)
                pieces.append(_property(name, values))
                own[name] = None if not values.null_count else _flags(values.is_valid())
                if column == sink_schema.DELIVER_TIMESTAMP:
                    is_alone |= True if own[name] is None else own[name]
                    own |= dict.fromkeys(_OTHER_TIMES, own[name])
        own |= dict.fromkeys(self._own)
        if sink_schema.PROPERTIES in batch.schema.names:
            entries = _Entries(batch.column(sink_schema.PROPERTIES), own)
            entries.check(refuse)
            pieces.append(entries.text())
            is_alone |= entries.rows_with(_ALONE)
            has_id = entries.rows_with((property_names.UNIQ_KEY,))
        if self._identity is not None:
            pieces += [
                _text(f"{SPARK_ID}{_NAME_END}{self._identity}/"),
                pa.array(numbers).cast(pa.string()),
                _SEPARATOR,
            ]
        pieces += self._unique_ids(rows, has_id)
        joined = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
        return joined.cast(pa.binary()), is_alone

    def _unique_ids(self, rows: int, has_id: Flags | None) -> list[Any]:
        stem = f"{property_names.UNIQ_KEY}{_NAME_END}{self._ids.make_block()}"
        counts = _hexadecimal().slice(0, rows)
        if has_id is None or not has_id.any():
            return [_text(stem), counts, _text(self._end)]
        unique = pc.binary_join_element_wise(_text(stem), counts, _SEPARATOR, "")
        return [pc.if_else(pa.array(has_id), "", unique), _text(self._end.removeprefix(_VALUE_END))]


class _Entries:
    """The entries of the column properties, without those that have no value or that a column overrides."""

    def __init__(self, column: pa.Array, own: dict[str, Flags | None]) -> None:
        """`own`: what columns say, by the property's name, and for which rows; None: for all."""
        self._rows = len(column)
        offsets = column.offsets.to_numpy().astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        names, values = _plain(column.keys[first:last]), _plain(column.items[first:last])
        lengths = np.diff(offsets)
        if column.null_count:
            lengths = np.where(_flags(column.is_valid()), lengths, 0)
        row_of = np.repeat(np.arange(self._rows), np.diff(offsets))
        is_kept = _flags(pc.greater(pc.binary_length(values).fill_null(0), 0)) & (lengths[row_of] > 0)
        is_kept &= ~_flags(pc.is_in(names, pa.array([name for name, rows in own.items() if rows is None])))
        for name, rows in own.items():
            if rows is not None:
                is_kept &= ~(_flags(pc.equal(names, name)) & rows[row_of])
        if not is_kept.all():
            kept = pa.array(is_kept)
            names, values, row_of = names.filter(kept), values.filter(kept), row_of[is_kept]
        self._names, self._values, self._row_of = names, values, row_of

    def check(self, refuse: Refuse) -> None:
        """Refuse the first row with an entry that cannot be sent."""
        names, values = self._names, self._values
        is_wrong = _flags(pc.or_(pc.equal(names, ""), pc.match_substring_regex(names, "[\x01\x02]")))
        is_wrong |= _flags(pc.match_substring(values, _VALUE_END))
        if is_wrong.any():
            at = int(is_wrong.argmax())
            problem = (
                "a name may be neither empty nor hold the characters 1 and 2, nor may a value hold the character 2"
            )
            refuse(int(self._row_of[at]), f"property {names[at].as_py()!r}: {problem}")

    def text(self) -> pa.Array:
        """The text of each row's entries."""
        entries = pc.binary_join_element_wise(self._names, _text(_NAME_END), self._values, _SEPARATOR, "")
        offsets = np.searchsorted(self._row_of, np.arange(self._rows + 1)).astype(np.int32)
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), entries), "")

    def rows_with(self, names: tuple[str, ...]) -> Flags:
        """Which rows have an entry of one of these names."""
        flags = np.zeros(self._rows, np.bool_)
        flags[self._row_of[_flags(pc.is_in(self._names, pa.array(names)))]] = True
        return flags


def texts(column: pa.Array) -> pa.Array:
    """The texts of a column, null where they are empty; a time in epoch milliseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    values = _plain(column)
    if not values.null_count and pc.min(pc.binary_length(values)).as_py():
        return values
    return pc.if_else(pc.equal(values, ""), None, values)


def _check_text(values: pa.Array, what: str, refuse: Refuse) -> None:
    is_wrong = _flags(pc.match_substring(values, _VALUE_END).fill_null(False))
    if is_wrong.any():
        at = int(is_wrong.argmax())
        refuse(at, f"{what}: {values[at].as_py()!r} holds the character 2, which ends a property")


def _property(name: str, values: pa.Array) -> pa.Array:
    """`name 0x01 value 0x02` of each value; null stays null."""
    return pc.binary_join_element_wise(_text(f"{name}{_NAME_END}"), values, _SEPARATOR, "")


def _plain(column: pa.Array) -> pa.Array:
    return column if column.type == pa.string() else column.cast(pa.string())


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.string())


def _flags(column: Any) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


@cache
def _hexadecimal() -> pa.Array:
    """The last four characters of the ids of a block."""
    digits = np.arange(BLOCK_IDS, dtype=">u2").tobytes().hex().upper()
    offsets = np.arange(0, 4 * (BLOCK_IDS + 1), 4, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), BLOCK_IDS, [None, pa.py_buffer(offsets), pa.py_buffer(digits.encode())])


_SEPARATOR: Final = _text(_VALUE_END)
