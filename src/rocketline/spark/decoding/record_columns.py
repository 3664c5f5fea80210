"""Records made columns: those that are usual as vectors, the others one by one, all in the order of the records.

Here are the columns that a record knows by itself. Whoever has the records adds where they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import RemoteProtocolError
from rocketline.model import property_names
from rocketline.spark.decoding.byte_slices import cut
from rocketline.spark.decoding.exact_rows import MS_MAX, message_columns, messages_in
from rocketline.spark.decoding.property_entries import PropertyEntries
from rocketline.spark.decoding.record_spans import Flags, Ints, RecordSpans

PART_BYTES: Final = 16 * 2**20
"""What bodies may expand to before rows are handed on. Compressed, some megabytes may be thousands of these."""

_FROM_PROPERTIES: Final = {"msgId": property_names.UNIQ_KEY, "tags": property_names.TAGS, "keys": property_names.KEYS}
_NUMBERS: Final = {"flag": "flag", "reconsumeTimes": "reconsume_times"}
_TIMES: Final = {"bornTimestamp": "born_ms", "storeTimestamp": "store_ms"}
OWN_COLUMNS: Final = frozenset({*_FROM_PROPERTIES, *_NUMBERS, *_TIMES, "body", "properties"})
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_CRC_MASK: Final = np.uint32(0x7FFFFFFF)

NameRecord = Callable[[int], str]
"""How an error names the record of this number."""
Exact: TypeAlias = list[tuple[int, ReceivedMessage]]
"""Messages that were decoded one by one, with the numbers of their records."""


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """Rows in the order of their records."""

    columns: dict[str, pa.Array]
    record_of: Ints
    """The number of each row's record: an inner batch has several rows."""
    queue_offset: Ints
    """As recorded."""
    exact: Exact
    """The rows that were decoded one by one."""
    end: int
    """The number of the first record that is left for the next part."""


def decode_records(
    spans: RecordSpans, wanted: Flags, columns: Sequence[str], name_record: NameRecord
) -> Iterator[DecodedRecords]:
    """The rows of the `wanted` records with the `OWN_COLUMNS` among `columns`: in one part, or in several if bodies
    expand to more than `PART_BYTES`.

    Raises `RemoteProtocolError` that names the record, if one is broken; `MissingExtraError` for a body whose
    compression is not installed.
    """
    own = [name for name in columns if name in OWN_COLUMNS]
    start = 0
    for end, exact in _parts(spans, wanted, name_record, expands="body" in own):
        part = wanted
        if end - start < len(spans):
            part = np.zeros_like(wanted)
            part[start:end] = wanted[start:end]
        yield _decode_part(spans, part, own, exact, end, name_record)
        start = end


def _parts(spans: RecordSpans, wanted: Flags, name_record: NameRecord, *, expands: bool) -> Iterator[tuple[int, Exact]]:
    """Where each part ends, and its messages that are not usual."""
    messages: Exact = []
    expanded_bytes = 0
    for number in np.flatnonzero(wanted & ~spans.usual).tolist():
        if expanded_bytes >= PART_BYTES:
            yield number, messages
            messages, expanded_bytes = [], 0
        found = _exact_messages(spans, number, name_record)
        messages += found
        if expands:
            expanded_bytes += sum(_expanded_bytes(message) for _, message in found)
    yield len(spans), messages


def _expanded_bytes(message: ReceivedMessage) -> int:
    try:
        return len(message.body)
    except RemoteProtocolError:
        return 0  # told when its column is made


def _decode_part(
    spans: RecordSpans, wanted: Flags, own: Sequence[str], exact: Exact, end: int, name_record: NameRecord
) -> DecodedRecords:
    is_usual = spans.usual & wanted
    usual = UsualRecords(spans, is_usual)
    odd = usual.odd_rows(own)
    if odd.any():
        numbers = np.flatnonzero(is_usual)[odd]
        is_usual[numbers] = False
        usual = UsualRecords(spans, is_usual)
        added_later = [one for number in numbers.tolist() for one in _exact_messages(spans, number, name_record)]
        exact = sorted([*exact, *added_later], key=lambda one: one[0])
    if "body" in own:
        usual.check_bodies(name_record)
    built = {name: usual.column(name) for name in own}
    offsets = usual.spans.fixed["queue_offset"].astype(np.int64)
    if not exact:
        return DecodedRecords(built, usual.numbers, offsets, exact, end)
    added = _exact_columns(exact, own, name_record)
    record_of = np.concatenate([usual.numbers, [number for number, _ in exact]])
    order = np.argsort(record_of, kind="stable")
    offsets = np.concatenate([offsets, [message.queue_offset for _, message in exact]])
    merged = {name: pa.concat_arrays([built[name], added[name]]).take(pa.array(order)) for name in own}
    return DecodedRecords(merged, record_of[order], offsets[order], exact, end)


def broken_records(spans: RecordSpans, wanted: Flags, columns: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The numbers of the `wanted` records that cannot be made rows, each with what is wrong, tried one by one."""
    own = [name for name in columns if name in OWN_COLUMNS]
    for number in np.flatnonzero(wanted).tolist():
        try:
            message_columns(messages_in(spans.record(number)), own)
        except RemoteProtocolError as error:
            yield number, str(error)


class UsualRecords:
    """The records of a buffer that can be decoded all at once."""

    def __init__(self, spans: RecordSpans, are_meant: Flags) -> None:
        self.numbers: Ints = np.flatnonzero(are_meant)
        self.spans = spans if len(self.numbers) == len(spans) else spans.take(self.numbers)
        self._buffer = pa.py_buffer(spans.data)

    @cached_property
    def _entries(self) -> PropertyEntries:
        return PropertyEntries(cut(self._buffer, self.spans.properties_at, self.spans.end))

    @cached_property
    def _bodies(self) -> pa.Array:
        return cut(self._buffer, self.spans.body_at, self.spans.body_end)

    @cached_property
    def _message_ids(self) -> pa.Array:
        return self._entries.values_of(property_names.UNIQ_KEY)

    def odd_rows(self, columns: Sequence[str]) -> Flags:
        """The rows that these columns cannot be built of at once."""
        if "properties" not in columns and _FROM_PROPERTIES.keys().isdisjoint(columns):
            return np.zeros(len(self.numbers), np.bool_)
        odd = self._entries.odd_rows(has_maps="properties" in columns)
        if "msgId" in columns and self._message_ids.null_count:
            odd |= self._message_ids.is_null().to_numpy(zero_copy_only=False)
        return odd

    def check_bodies(self, name_record: NameRecord) -> None:
        """Raise `RemoteProtocolError` if a body is not the one that was stored, by its check sum."""
        wrong = np.flatnonzero(_check_sums(self._bodies) != self.spans.fixed["body_crc"])
        if len(wrong):
            place = name_record(int(self.numbers[wrong[0]]))
            raise RemoteProtocolError(f"{place}: the body's CRC is not the one that was stored with it")

    def column(self, name: str) -> pa.Array:
        spans = self.spans
        if name == "body":
            return self._bodies
        if name == "properties":
            return self._entries.maps()
        if name == "msgId":
            return self._message_ids
        if name in _FROM_PROPERTIES:
            return self._entries.values_of(_FROM_PROPERTIES[name])
        if name in _NUMBERS:
            return pa.array(spans.fixed[_NUMBERS[name]].astype(np.int32))
        return timestamps(spans.fixed[_TIMES[name]].astype(np.int64))


def wrong_bodies(spans: RecordSpans) -> Ints:
    """The numbers of the sound records whose body is not the one that was stored, by its check sum."""
    numbers = np.flatnonzero(spans.sound)
    bodies = cut(pa.py_buffer(spans.data), spans.body_at[numbers], spans.body_end[numbers])
    wrong: Ints = numbers[_check_sums(bodies) != spans.fixed["body_crc"][numbers]]
    return wrong


def _check_sums(bodies: pa.Array) -> npt.NDArray[np.uint32]:
    return np.fromiter(map(crc32, bodies.to_pylist()), np.uint32, len(bodies)) & _CRC_MASK


def timestamps(times_ms: Ints) -> pa.Array:
    """Milliseconds as Spark's timestamps; null where they are beyond what one can be."""
    impossible = (times_ms > MS_MAX) | (times_ms < -MS_MAX)
    if impossible.any():
        return pa.array(np.where(impossible, 0, times_ms) * 1000, _TIMESTAMP, mask=impossible)
    return pa.array(times_ms * 1000, pa.int64()).view(_TIMESTAMP)


def _exact_messages(spans: RecordSpans, number: int, name_record: NameRecord) -> Exact:
    try:
        return [(number, message) for message in messages_in(spans.record(number))]
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{name_record(number)}: {error}") from error


def _exact_columns(exact: Exact, columns: Sequence[str], name_record: NameRecord) -> dict[str, pa.Array]:
    messages = [message for _, message in exact]
    try:
        return message_columns(messages, columns)
    except RemoteProtocolError:
        for number, message in exact:  # which one it is
            try:
                message_columns([message], columns)
            except RemoteProtocolError as error:
                raise RemoteProtocolError(f"{name_record(number)}: {error}") from error
        raise
