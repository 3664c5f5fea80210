"""Writes records into the log, many at once: laid out one by one, handed to the file system together.

`wire.record_layout` tells the layout, `wire.message_codec` reads and writes single records; this is the same for the
hot path, where nothing is made for a message but its bytes and one entry for the dispatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rocketline.errors import IllegalMessageError
from rocketline.model import property_names
from rocketline.model.ids import LogOffset
from rocketline.model.java_hash import tags_code
from rocketline.model.sys_flags import BORN_HOST_IS_IPV6, STORE_HOST_IS_IPV6
from rocketline.store.index.index_keys import Indexed, indexed
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import SECTOR_BYTES, property_of
from rocketline.store.queues.queue_table import Queue
from rocketline.wire.append_crc import APPEND_CRC_BYTES, format_append_crc
from rocketline.wire.batch import BatchEntry
from rocketline.wire.message_codec import BLANK_BYTES_MIN
from rocketline.wire.properties import NAME_END
from rocketline.wire.record_layout import HOSTS, Hosts, field_format, struct_between

FIXED_BYTES_MAX: Final = 136
"""Of a record beside body, topic and properties, whatever its hosts and options."""
_SHORT = struct.Struct(">h")
_PROPERTIES_BYTES_MAX: Final = 32767
_EMPTY_SECTOR: Final = bytes(SECTOR_BYTES)
# By the length of the born host; the store host's length is that of the broker's own address.
_FIXED = {hosts: struct_between("size", "body_bytes", hosts) for hosts in HOSTS}

# The same for the messages of a batch: what they have in common, from the system flag to the prepared offset, is one
# piece.
_SHARED = {hosts: struct_between("sys_flag", "prepared_log_offset", hosts) for hosts in HOSTS}
_MEMBER = {
    hosts: struct.Struct(f"{struct_between('size', 'log_offset').format}{shared.size}s{field_format('body_bytes')}")
    for hosts, shared in _SHARED.items()
}


DispatchEntry: TypeAlias = "tuple[Queue, int, int, int, int, Indexed, int]"
"""A written record that waits to be dispatched: queue, log offset, size, tags code, store time, keys, messages."""

_TAGS: Final = f"{property_names.TAGS}{NAME_END}".encode()


class LogWriter:
    """Records are added and then written, all together or, where a file ends, in parts.

    A failure leaves some of a batch written, all that lies before the log's end, and `take_written` has those: they
    must be dispatched, because the next record of their queue comes after them. The others give their queue offsets
    back. `OSError` means that bytes beyond the log's end may have been written nonetheless: whoever owns the log must
    then stop writing to it.
    """

    def __init__(self, log: CommitLog, store_host: bytes, *, now_ms: Callable[[], int], has_crc: bool) -> None:
        self._log, self._now_ms, self._has_crc = log, now_ms, has_crc
        self._store_host = store_host
        self._structs: Final = {born: _FIXED[Hosts(born, len(store_host))] for born in (8, 20)}
        self._store_flag = STORE_HOST_IS_IPV6 if len(store_host) == 20 else 0
        self._chunks: list[bytes] = []
        self._entries: list[DispatchEntry] = []  # of what is laid out
        self._written: list[DispatchEntry] = []
        self.position = self._room_end = 0
        self.store_ms = 0
        """The store time of the next record. Never less than that of the one before: time look-ups rely on it."""

    def begin(self) -> None:
        """Start a batch: its records get the store time of now."""
        assert not self._entries
        assert not self._written
        self.look_at_clock()
        if self.position != self._log.end:
            self._take_position()

    def look_at_clock(self) -> None:
        """Records that come from now on get the store time of now, also those of a batch that began earlier: a message
        must not look older than it is."""
        now_ms = self._now_ms()
        if now_ms > self.store_ms:
            self.store_ms = now_ms

    def _take_position(self) -> None:
        self.position = self._log.end
        self._room_end = self.position + self._log.room() - BLANK_BYTES_MIN

    def add(
        self,
        queue: Queue,
        body: bytes,
        properties: bytes,
        tags_code: int,
        keys: Indexed,
        born_host: bytes,
        sys_flag: int,
        born_ms: int,
        flag: int = 0,
        reconsume_times: int = 0,
        prepared_log_offset: int = 0,
        count: int = 1,
    ) -> int:
        """Lay out one record under the queue's next offset; its log offset is given back. It ends at `position`.

        `count` is the number of messages in it: more than one only in a queue that knows batches.
        Every number must fit its field, which callers check where they read it. Raises `IllegalMessageError`,
        `StoreFullError`, `OSError`.
        """
        fixed = self._structs[len(born_host)]
        crc_bytes = APPEND_CRC_BYTES if self._has_crc else 0
        if len(properties) >= SECTOR_BYTES:
            self.check_properties(properties)
        topic_field = queue.topic_field
        size = fixed.size + len(body) + len(topic_field) + 2 + len(properties) + crc_bytes
        if self.position + size > self._room_end:
            self._roll(size)
        position = self.position
        sys_flag = sys_flag & ~0x30 | self._store_flag
        if len(born_host) == 20:
            sys_flag |= BORN_HOST_IS_IPV6
        head = fixed.pack(
            size,
            queue.magic,
            zlib.crc32(body) & 0x7FFFFFFF,
            queue.queue_id,
            flag,
            queue.next_offset,
            position,
            sys_flag,
            born_ms,
            born_host,
            self.store_ms,
            self._store_host,
            reconsume_times,
            prepared_log_offset,
            len(body),
        )
        parts = (head, body, topic_field, _SHORT.pack(len(properties) + crc_bytes), properties)
        if crc_bytes:
            self._chunks.append(_with_crc(b"".join(parts)))
        else:
            self._chunks += parts
        self._entries.append((queue, position, size, tags_code, self.store_ms, keys, count))
        queue.next_offset += count
        self.position = position + size
        return position

    def add_members(
        self,
        queue: Queue,
        members: Sequence[BatchEntry],
        born_host: bytes,
        sys_flag: int,
        born_ms: int,
        reconsume_times: int,
    ) -> list[LogOffset]:
        """Lay out the messages of a batch, for which there is room in the file, as neighbours; their log offsets.

        The bytes are those that `add` makes of each.
        """
        codes, entries = _TagsCodes(), self._entries
        begin = len(entries)
        if self._has_crc:
            for flag, body, properties in members:
                code, origin = codes[_tag_in(properties)], (born_host, sys_flag, born_ms)
                self.add(queue, body, properties, code, indexed(properties), *origin, flag, reconsume_times)
            return [LogOffset(entry[1]) for entry in entries[begin:]]
        hosts = Hosts(len(born_host), len(self._store_host))
        sys_flag = sys_flag & ~0x30 | self._store_flag | (BORN_HOST_IS_IPV6 if hosts[0] == 20 else 0)
        store_ms, store_host = self.store_ms, self._store_host
        shared = _SHARED[hosts].pack(sys_flag, born_ms, born_host, store_ms, store_host, reconsume_times, 0)
        topic_field, member, crc32, chunks = queue.topic_field, _MEMBER[hosts], zlib.crc32, self._chunks
        magic, queue_id, queue_offset, position = queue.magic, queue.queue_id, queue.next_offset, self.position
        fixed_bytes, pack, short = member.size + len(topic_field) + 2, member.pack, _SHORT.pack
        for flag, body, properties in members:
            body_bytes, properties_bytes = len(body), len(properties)
            size, crc = fixed_bytes + body_bytes + properties_bytes, crc32(body) & 0x7FFFFFFF
            head = pack(size, magic, crc, queue_id, flag, queue_offset, position, shared, body_bytes)
            chunks += (head, body, topic_field, short(properties_bytes), properties)
            code = codes[_tag_in(properties)] if _TAGS in properties else 0
            entries.append((queue, position, size, code, store_ms, indexed(properties), 1))
            queue_offset += 1
            position += size
        queue.next_offset, self.position = queue_offset, position
        return [LogOffset(entry[1]) for entry in entries[begin:]]

    def check_properties(self, properties: bytes) -> None:
        """Raises `IllegalMessageError` for what `add` refuses."""
        size = len(properties) + (APPEND_CRC_BYTES if self._has_crc else 0)
        if size > _PROPERTIES_BYTES_MAX:
            raise IllegalMessageError(f"the properties have {size} bytes, the checksum included")
        if _EMPTY_SECTOR in properties:  # recovery would take it for torn
            raise IllegalMessageError(f"the properties have {SECTOR_BYTES} zero bytes in a row")

    def _roll(self, size: int) -> None:
        self.write()
        self._log.make_room(size)
        self._take_position()

    def make_room(self, total_bytes: int) -> None:
        """See to it that records of so many bytes, added next, lie in one file: a client's batch does."""
        if self.position + total_bytes > self._room_end:
            self._roll(total_bytes)

    def write(self) -> None:
        """Write what was added. Raises `StoreFullError` before anything of it is written, `OSError` afterwards."""
        if not self._chunks:
            return
        try:
            self._log.write(b"".join(self._chunks))
        except BaseException:
            self.discard()
            raise
        self._written += self._entries
        self._chunks, self._entries = [], []

    def discard(self) -> None:
        """Forget what was laid out and not written."""
        for queue, *_, count in self._entries:
            queue.next_offset -= count
        self._chunks, self._entries = [], []

    def take_written(self) -> list[DispatchEntry]:
        """The records that were written since this was last asked, in their order."""
        entries, self._written = self._written, []
        return entries


def _tag_in(properties: bytes) -> str:
    return property_of(properties, _TAGS).decode("utf-8", "replace")


class _TagsCodes(dict[str, int]):
    """A tag → what its queue keeps of it."""

    def __missing__(self, tag: str) -> int:
        code = self[tag] = tags_code(tag)
        return code


def _with_crc(record: bytes) -> bytes:
    return record + format_append_crc(zlib.crc32(record) & 0x7FFFFFFF)
