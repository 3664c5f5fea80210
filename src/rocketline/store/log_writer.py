"""Writes records into the log, many at once: laid out one by one, handed to the file system together.

`hot.pure.record` makes their bytes; here it is decided where they go. Nothing is made for a message but its bytes and
one entry for the dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, TypeAlias, cast

from rocketline.errors import IllegalMessageError
from rocketline.hot.pure.record import FORMATS, lay_members, lay_record
from rocketline.model import property_names
from rocketline.model.ids import LogOffset
from rocketline.model.java_hash import tags_code
from rocketline.store.index.index_keys import Indexed, indexed
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import SECTOR_BYTES, property_of
from rocketline.store.queues.queue_table import Queue
from rocketline.wire.append_crc import APPEND_CRC_BYTES
from rocketline.wire.batch import BatchEntry
from rocketline.wire.message_codec import BLANK_BYTES_MIN
from rocketline.wire.properties import NAME_END

FIXED_BYTES_MAX: Final = 136
"""Of a record beside body, topic and properties, whatever its hosts and options."""
_PROPERTIES_BYTES_MAX: Final = 32767
_EMPTY_SECTOR: Final = bytes(SECTOR_BYTES)

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
        self._log, self._now_ms, self._store_host = log, now_ms, store_host
        self._crc_bytes = APPEND_CRC_BYTES if has_crc else 0
        self._formats: Final = {born: FORMATS[born, len(store_host)] for born in (8, 20)}
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
        if len(properties) >= SECTOR_BYTES:
            self.check_properties(properties)
        record_format, topic_field, crc_bytes = self._formats[len(born_host)], queue.topic_field, self._crc_bytes
        size = record_format.fixed.size + len(body) + len(topic_field) + 2 + len(properties) + crc_bytes
        if self.position + size > self._room_end:
            self._roll(size)
        position = self.position
        lay_record(
            self._chunks,
            record_format,
            size,
            queue.magic,
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
            body,
            topic_field,
            properties,
            crc_bytes,
        )
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
        """Lay out the messages of a batch, for which there is room in the file, as neighbours; their log offsets."""
        codes = _TagsCodes()
        origin = born_host, sys_flag, born_ms
        if self._crc_bytes:
            return [
                LogOffset(
                    self.add(
                        queue, body, stored, codes[_tag_in(stored)], indexed(stored), *origin, flag, reconsume_times
                    )
                )
                for flag, body, stored in members
            ]
        places, sizes = lay_members(
            self._chunks,
            self._formats[len(born_host)],
            members,
            queue.magic,
            queue.queue_id,
            queue.next_offset,
            self.position,
            sys_flag,
            born_ms,
            born_host,
            self.store_ms,
            self._store_host,
            reconsume_times,
            queue.topic_field,
        )
        every = [properties for _, _, properties in members]
        tags_codes = [codes[_tag_in(properties)] if _TAGS in properties else 0 for properties in every]
        self._entries += zip(
            repeat(queue), places, sizes, tags_codes, repeat(self.store_ms), map(indexed, every), repeat(1)
        )
        queue.next_offset += len(members)
        self.position = places[-1] + sizes[-1]
        return cast("list[LogOffset]", places)

    def check_properties(self, properties: bytes) -> None:
        """Raises `IllegalMessageError` for what `add` refuses."""
        size = len(properties) + self._crc_bytes
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
