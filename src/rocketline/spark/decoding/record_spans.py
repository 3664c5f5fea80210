"""Where the parts of stored messages lie in a buffer: many messages at once, as numpy arrays.

One Python loop finds where records begin, by their length words. Everything after it is vectors: the fields of fixed
place, then the lengths of body, topic and properties, which must fill the record exactly.

Records whose bytes are not what a row shows (compressed bodies, inner batches), those of version 2, and those that do
not fit together are not `usual`: they are left to `exact_rows`, which decodes them, or says what is wrong.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from rocketline.errors import RemoteProtocolError
from rocketline.model.sys_flags import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from rocketline.wire.message_codec import MAGIC_V1, RECORD_BYTES_MIN
from rocketline.wire.properties import PROPERTIES_BYTES_MAX
from rocketline.wire.record_layout import FIELDS, HOSTS, Hosts, field_format

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_SIZE: Final = struct.Struct(">i")
_NUMPY: Final = {"i": ">i4", "I": ">u4", "q": ">i8"}
_TOPIC_BYTES_MAX: Final = 127


def _fixed_type(hosts: Hosts) -> np.dtype[np.void]:
    """What a record has before its body."""
    formats = {name: field_format(name, hosts) for name in FIELDS}
    return np.dtype([(name, _NUMPY.get(text) or f"V{text[:-1]}") for name, text in formats.items()])


_FIXED_TYPES: Final = tuple(map(_fixed_type, HOSTS))
"""By the two bits of sysFlag that tell the lengths of the hosts."""
_FIXED: Final = _FIXED_TYPES[0]
_AFTER_HOSTS: Final = ("store_ms", "reconsume_times", "body_bytes")
"""The fields whose place depends on the hosts, as far as somebody asks for them."""


def record_starts(data: bytes, start: int, end: int, into: list[int]) -> None:
    """Append where each record of `data[start:end]` begins. Raises `RemoteProtocolError` if they do not fill it."""
    append, unpack, at = into.append, _SIZE.unpack_from, start
    while at < end:
        append(at)
        try:
            (size,) = unpack(data, at)
        except struct.error:
            raise RemoteProtocolError(f"{end - at} bytes at the end are too few for a record") from None
        if size < RECORD_BYTES_MIN:
            raise RemoteProtocolError(f"a record at byte {at - start} says that it has {size} bytes")
        at += size
    if at != end:
        raise RemoteProtocolError(f"the last record ends {at - end} bytes after the answer does")


@dataclass(slots=True)
class RecordSpans:
    """The records of a buffer. Of those that are not `sound`, only what has a fixed place is to be believed."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    fixed: npt.NDArray[np.void]
    body_at: Ints
    topic_at: Ints
    topic_end: Ints
    end: Ints
    sound: Flags
    """Records of version 1 whose lengths fill them exactly."""
    usual: Flags
    """Sound, and the body is what was sent."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def body_end(self) -> Ints:
        return self.topic_at - 1

    @property
    def properties_at(self) -> Ints:
        return self.topic_end + 2

    def take(self, rows: Ints) -> RecordSpans:
        """Some of them, in their order."""
        return RecordSpans(
            self.data,
            self.starts[rows],
            self.fixed[rows],
            self.body_at[rows],
            self.topic_at[rows],
            self.topic_end[rows],
            self.end[rows],
            self.sound[rows],
            self.usual[rows],
        )

    def record(self, number: int) -> bytes:
        """The bytes of one."""
        return self.data[self.starts[number] : self.end[number]].tobytes()


def record_spans(data: bytes | bytearray, starts: Ints) -> RecordSpans:
    """What lies where in the records that begin at `starts`, each of which says a size that `data` has room for."""
    octets = np.frombuffer(data, np.uint8)
    fixed, body_at = _fixed_fields(octets, starts)
    end = starts + fixed["size"]
    body_bytes = fixed["body_bytes"].astype(np.int64)
    # A length that does not fit must not lead outside of the record, so it is replaced before it is followed.
    sound = (fixed["magic"] == MAGIC_V1) & (body_bytes >= 0) & (body_at + body_bytes + 3 <= end)
    topic_at = np.where(sound, body_at + body_bytes, starts) + 1
    topic_bytes = octets[topic_at - 1].astype(np.int64)
    topic_end = topic_at + topic_bytes
    sound &= (topic_bytes <= _TOPIC_BYTES_MAX) & (topic_end + 2 <= end)
    length_at = np.where(sound, topic_end, starts)
    properties_bytes = octets[length_at].astype(np.int64) << 8 | octets[length_at + 1]
    sound &= (topic_end + 2 + properties_bytes == end) & (properties_bytes <= PROPERTIES_BYTES_MAX)
    usual = sound & ~_is_transformed(fixed["sys_flag"], body_bytes)
    return RecordSpans(octets, starts, fixed, body_at, topic_at, topic_end, end, sound, usual)


def _is_transformed(sys_flag: npt.NDArray[np.int32], body_bytes: Ints) -> Flags:
    """The body is not what was sent: it is compressed, or holds several messages."""
    unwraps = NEED_UNWRAP | INNER_BATCH
    transformed: Flags = ((sys_flag & COMPRESSED != 0) & (body_bytes != 0)) | (sys_flag & unwraps == unwraps)
    return transformed


def _fixed_fields(octets: npt.NDArray[np.uint8], starts: Ints) -> tuple[npt.NDArray[np.void], Ints]:
    """The fields before the body, and where the body begins."""
    fixed = gathered(octets, starts, _FIXED.itemsize).view(_FIXED)
    body_at = starts + _FIXED.itemsize
    kinds = fixed["sys_flag"] >> 4 & 3
    if kinds.any():
        for kind in range(1, len(_FIXED_TYPES)):
            layout = _FIXED_TYPES[kind]
            # A record may be too short for what it claims to have; then it is not usual, whatever is read of it.
            rows = np.flatnonzero((kinds == kind) & (starts + layout.itemsize <= len(octets)))
            longer = gathered(octets, starts[rows], layout.itemsize).view(layout)
            for name in _AFTER_HOSTS:
                fixed[name][rows] = longer[name]
            body_at[kinds == kind] += layout.itemsize - _FIXED.itemsize
    return fixed, body_at


def gathered(octets: npt.NDArray[np.uint8], starts: Ints, size: int) -> npt.NDArray[np.void]:
    """The `size` bytes from each of `starts` on, as one value each. They must all lie inside."""
    if not len(starts):
        return np.empty(0, f"V{size}")
    # As values without alignment, numpy copies each with one call, and nothing but these.
    places = np.ndarray((len(octets) - size + 1,), f"V{size}", octets, strides=(1,))
    return places[starts]
