"""Lays out records of the commit log: the bytes that `wire.message_codec` would write, for many messages at once."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from rocketline.model.sys_flags import BORN_HOST_IS_IPV6, STORE_HOST_IS_IPV6
from rocketline.wire.append_crc import format_append_crc
from rocketline.wire.batch import BatchEntry
from rocketline.wire.record_layout import HOSTS, Hosts, field_format, struct_between

_SHORT: Final = struct.Struct(">h")
_HOST_FLAGS: Final = BORN_HOST_IS_IPV6 | STORE_HOST_IS_IPV6


class RecordFormat(NamedTuple):
    """For records whose hosts have certain lengths."""

    fixed: struct.Struct
    """All fields before the body."""
    host_flags: int
    """The bits of the system flag that tell the lengths."""
    shared: struct.Struct
    """What messages of a batch have in common, which is one piece: from the system flag to the prepared offset."""
    member: struct.Struct
    """All fields before the body, that piece being one of them."""


def _format(bits: int, hosts: Hosts) -> RecordFormat:
    shared = struct_between("sys_flag", "prepared_log_offset", hosts)
    before = struct_between("size", "log_offset").format
    member = struct.Struct(f"{before}{shared.size}s{field_format('body_bytes')}")
    return RecordFormat(struct_between("size", "body_bytes", hosts), bits << 4, shared, member)


FORMATS: Final[dict[tuple[int, int], RecordFormat]] = {hosts: _format(bits, hosts) for bits, hosts in enumerate(HOSTS)}
"""By the bytes that born host and store host have, with their ports."""


def lay_record(
    chunks: list[bytes],
    record_format: RecordFormat,
    size: int,
    magic: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    log_offset: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_log_offset: int,
    body: bytes,
    topic_field: bytes,
    properties: bytes,
    crc_bytes: int,
) -> None:
    """Append the bytes of a record, `size` in all, to `chunks`.

    Whatever `sys_flag` says of hosts, it is made to say what they are. `crc_bytes`: as many as a check sum has that is
    to be added to the properties, or 0. Every number must fit its field. All of it comes by position: names, or a
    tuple around it, would be made anew for each message.
    """
    head = record_format.fixed.pack(
        size,
        magic,
        zlib.crc32(body) & 0x7FFFFFFF,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        sys_flag & ~_HOST_FLAGS | record_format.host_flags,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        prepared_log_offset,
        len(body),
    )
    parts = (head, body, topic_field, _SHORT.pack(len(properties) + crc_bytes), properties)
    if crc_bytes:
        chunks.append(_with_crc(b"".join(parts)))
    else:
        chunks += parts


def lay_members(
    chunks: list[bytes],
    record_format: RecordFormat,
    members: Sequence[BatchEntry],
    magic: int,
    queue_id: int,
    queue_offset: int,
    log_offset: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    store_host: bytes,
    reconsume_times: int,
    topic_field: bytes,
) -> tuple[list[int], list[int]]:
    """Append the records of a batch's messages, as neighbours without a check sum; their log offsets and sizes.

    The bytes are those that `lay_record` makes of each.
    """
    _, host_flags, shared_format, member = record_format
    sys_flag = sys_flag & ~_HOST_FLAGS | host_flags
    shared = shared_format.pack(sys_flag, born_ms, born_host, store_ms, store_host, reconsume_times, 0)
    fixed_bytes, pack, crc32, short = member.size + len(topic_field) + 2, member.pack, zlib.crc32, _SHORT.pack
    places, sizes = [], []
    for flag, body, properties in members:
        body_bytes, properties_bytes = len(body), len(properties)
        size, crc = fixed_bytes + body_bytes + properties_bytes, crc32(body) & 0x7FFFFFFF
        head = pack(size, magic, crc, queue_id, flag, queue_offset, log_offset, shared, body_bytes)
        chunks += (head, body, topic_field, short(properties_bytes), properties)
        places.append(log_offset)
        sizes.append(size)
        queue_offset += 1
        log_offset += size
    return places, sizes


def _with_crc(record: bytes) -> bytes:
    return record + format_append_crc(zlib.crc32(record) & 0x7FFFFFFF)
