"""A store with twenty thousand messages, and everything that may happen to its files: for the tests of damage."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.model.topic_config import TopicConfig
from rocketline.store.config import StoreConfig
from rocketline.store.files.json_files import save_json
from rocketline.store.filesystem import FileSystem
from rocketline.store.log.record_scan import scan
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.offsets import ConsumerOffsetTable
from rocketline.wire.bodies.topics import TopicConfigTable
from support.stores.small import (
    BATCHED,
    ROOT,
    die,
    flush,
    flush_queues,
    inner_batch,
    memory,
    message,
    open_store,
    store_config,
)

MESSAGES = 20_000
TOPICS, QUEUES = ("alpha", "beta", "gamma", "delta"), 4
LOG_BYTES = 256 * 1024
SIZES: Final = {
    "mapped_file_size_commit_log": LOG_BYTES,
    "mapped_file_size_consume_queue": 500 * 20,
    "mapper_file_size_batch_consume_queue": 50 * 46,
    "max_hash_slot_num": 2000,
    "max_index_num": 15_000,
    "max_transfer_count_on_message_in_memory": 4096,
    "max_transfer_count_on_message_in_disk": 4096,
    "max_transfer_bytes_on_message_in_memory": 1 << 22,
    "max_transfer_bytes_on_message_in_disk": 1 << 22,
}
SECTOR = 512
UNCOVERED: Final = ((16, 20), (36, 84))
"""Of a record, fields that no check sum covers: flag; sysFlag, born time and host, store time and host, reconsume
times, prepared offset. And the properties, which are at its end."""

Place = tuple[bytes, int, int]
"""Topic, queue id and queue offset."""


def config() -> StoreConfig:
    return store_config(**SIZES)


@dataclass(frozen=True)
class Kept:
    """All files of a store, and the messages in it."""

    files: Mapping[Path, bytes]
    messages: Mapping[Place, bytes]
    places: Mapping[int, tuple[Place, int]]
    """By log offset: which message begins there, and its size."""
    end: int
    is_clean: bool

    def restore(self, clock: FakeClock) -> MemoryFileSystem:
        files = memory(clock)
        for path, data in self.files.items():
            files.make_folder(path.parent)
            files.write_file(path, data)
        return files


def build(*, is_clean: bool) -> Kept:
    """Twenty thousand messages of four topics, some of them long, and a few batches; ended, or killed under way."""
    clock = FakeClock()
    files = memory(clock)
    topics = {name: TopicConfig(name, QUEUES, QUEUES) for name in TOPICS}
    topics[BATCHED] = TopicConfig(BATCHED, 1, 1, attributes={"queue.type": "BatchCQ"})
    store = open_store(files, clock, **SIZES)
    for number in range(MESSAGES):
        body = b"%d" % number * (200 if number % 500 == 7 else 1 + number % 9)
        topic, queue_id = TOPICS[number % len(TOPICS)], number // len(TOPICS) % QUEUES
        store.append(message(topic, body, queue_id=queue_id, KEYS=f"k{number}", TAGS=f"t{number % 3}"))
        if number % 100 == 0:
            clock.advance(1)
        if number % 400 == 0:
            store.append(inner_batch(3))
        if number == MESSAGES * 3 // 4:
            flush(store)
            flush_queues(store)
            flush_queues(store)
    offsets = ConsumerOffsetTable(offset_table={f"{name}@readers": dict.fromkeys(range(QUEUES), 7) for name in TOPICS})
    for name, table in (("topics", TopicConfigTable(topic_config_table=topics)), ("consumerOffset", offsets)):
        for _ in range(2):  # the second makes a .bak of the first
            save_json(files, ROOT / "config" / f"{name}.json", table)
    messages, places = dict[Place, bytes](), dict[int, tuple[Place, int]]()
    for record in scan(store.log, 0, store.log.end, check_crc=True):
        place = record.topic, record.queue_id, record.queue_offset
        messages[place] = store.log.read(record.log_offset, record.size) or b""
        places[record.log_offset] = place, record.size
    end = store.log.end
    if is_clean:
        store.close()
    else:
        flush(store)
        store.queues.write_behind()
        die(store)
    return Kept({path: files.read_file(path) or b"" for path in walk(files, ROOT)}, messages, places, end, is_clean)


def walk(files: FileSystem, folder: Path) -> Iterator[Path]:
    for name in files.list(folder):
        path = folder / name
        if files.is_folder(path):
            yield from walk(files, path)
        else:
            yield path


def served(store: MessageStore) -> set[bytes]:
    """Every record that a consumer gets who pulls each queue from its first message to its end."""
    found = set[bytes]()
    for topic in list(store.queues.topics):
        for queue_id in list(store.queues_of(topic)):
            offset = store.min_offset(topic, queue_id)
            while offset < store.max_offset(topic, queue_id):
                result = store.read(topic, queue_id, offset, 1000, None)
                for records in result.records:
                    at = 0
                    while at < len(records):
                        size = max(int.from_bytes(records[at : at + 4], "big", signed=True), 1)
                        found.add(records[at : at + size])
                        at += size
                assert result.next_offset > offset, "a consumer would stand still"
                offset = result.next_offset
    return found


def next_places(store: MessageStore) -> list[Place]:
    """Which places new messages get, one in each queue."""
    queues = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]
    sent = [store.append(message(topic, b"new", queue_id=queue_id)) for topic, queue_id in queues]
    sent.append(store.append(inner_batch(3)))
    return [(one.topic.encode(), one.queue_id, one.queue_offset) for one in sent]


# --- damages


@dataclass(frozen=True)
class Damage:
    """Something that happened to the files, and a word for it."""

    name: str
    do: Callable[[MemoryFileSystem, Kept, random.Random], str]
    """Does it, and says what exactly."""


def _paths(kept: Kept, folder: str) -> list[Path]:
    return [path for path in kept.files if path.is_relative_to(ROOT / folder)]


def _written(kept: Kept, path: Path) -> int:
    """Up to where a file was written to."""
    return len(kept.files[path].rstrip(b"\0")) or 1


def _overwrite(files: MemoryFileSystem, path: Path, at: int, data: bytes) -> str:
    file = files.open(path)
    before = file.read_at(at, len(data))
    file.write_at(at, data[: len(before)])
    file.close()
    return f"{path} at {at}: {before[:16].hex()} became {data[:16].hex()}"


def _bit(folder: str) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        path = chance.choice(_paths(kept, folder))
        at = chance.randrange(_written(kept, path))
        return _overwrite(files, path, at, bytes([kept.files[path][at] ^ 1 << chance.randrange(8)]))

    return Damage(f"bit of {folder}", do)


def _sector(folder: str, *, is_blank: bool) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        path = chance.choice(_paths(kept, folder))
        at = chance.randrange(_written(kept, path)) // SECTOR * SECTOR
        return _overwrite(files, path, at, bytes(SECTOR) if is_blank else chance.randbytes(SECTOR))

    return Damage(f"{'blank' if is_blank else 'strange'} sector of {folder}", do)


def _missing(folder: str) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        path = chance.choice(_paths(kept, folder))
        files.remove(path)
        return f"{path} removed"

    return Damage(f"file missing from {folder}", do)


def _last_missing(folder: str) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        parent = chance.choice(_paths(kept, folder)).parent
        path = max(path for path in _paths(kept, folder) if path.parent == parent)
        files.remove(path)
        return f"{path} removed, the last one there"

    return Damage(f"last file missing from {folder}", do)


def _folder_missing(folder: str) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        path = chance.choice(_paths(kept, folder)).parent
        files.remove_tree(path)
        return f"{path} removed"

    return Damage(f"folder missing from {folder}", do)


def _cut(folder: str, *, to_nothing: bool) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        path = chance.choice(_paths(kept, folder))
        size = 0 if to_nothing else chance.randrange(1, max(len(kept.files[path]), 2))
        file = files.open(path)
        file.truncate(size)
        file.close()
        return f"{path} cut to {size} bytes"

    return Damage(f"{'empty' if to_nothing else 'short'} file in {folder}", do)


def _garbage(folder: str) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        path = chance.choice(_paths(kept, folder))
        files.write_file(path, chance.randbytes(len(kept.files[path])))
        return f"{path} is garbage"

    return Damage(f"garbage in {folder}", do)


def _swapped(folder: str) -> Damage:
    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        first = chance.choice(_paths(kept, folder))
        others = [path for path in _paths(kept, folder) if kept.files[path] != kept.files[first]]
        if folder == "consumequeue":  # in the same place of another queue, so that lengths and names are right
            others = [path for path in others if path.name == first.name]
        second = chance.choice(others or _paths(kept, "commitlog"))
        files.write_file(first, kept.files[second])
        files.write_file(second, kept.files[first])
        return f"{first} and {second} swapped"

    return Damage(f"swap in {folder}", do)


def _strange_list() -> Damage:
    """It names a stretch of whole messages, and nobody could have written it."""

    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        begin = chance.choice([*kept.places])
        span = {"begin": begin, "end": begin + kept.places[begin][1]}
        text = json.dumps({"spans": [span]}).encode()
        crc = zlib.crc32(text) ^ chance.randrange(2)
        files.write_file(ROOT / "damage.json", b"%08x\n%s\n" % (crc, text))
        return f"damage.json names {span}"

    return Damage("strange damage.json", do)


def _together(*damages: Damage) -> Damage:
    """Each in another folder."""

    def do(files: MemoryFileSystem, kept: Kept, chance: random.Random) -> str:
        return ", ".join(damage.do(files, kept, chance) for damage in damages)

    return Damage(" and ".join(damage.name for damage in damages), do)


LOG, QUEUE, BATCH, INDEX, TABLES = "commitlog", "consumequeue", "batchconsumequeue", "index", "config"
ENDS, CHECKPOINT = "queue_ends.json", "checkpoint"
_HURT_QUEUES: Final = (
    _last_missing(QUEUE),
    _last_missing(BATCH),
    _folder_missing(QUEUE),
    _folder_missing(BATCH),
    _missing(QUEUE),
    _cut(QUEUE, to_nothing=True),
    _sector(QUEUE, is_blank=True),
    _sector(BATCH, is_blank=True),
)
_DAMAGES: Final = (
    *[_bit(LOG)] * 6,
    _bit(QUEUE),
    _bit(QUEUE),
    _bit(BATCH),
    _bit(INDEX),
    _bit(INDEX),
    _bit(TABLES),
    _bit("checkpoint"),
    *(_sector(folder, is_blank=is_blank) for folder in (LOG, LOG, QUEUE, INDEX, TABLES) for is_blank in (True, False)),
    *(_missing(folder) for folder in (LOG, QUEUE, BATCH, INDEX, TABLES, "checkpoint")),
    *(_last_missing(folder) for folder in (LOG, QUEUE)),
    _folder_missing(QUEUE),
    *(_cut(folder, to_nothing=to_nothing) for folder in (LOG, QUEUE, INDEX, TABLES) for to_nothing in (True, False)),
    *(_garbage(folder) for folder in (LOG, QUEUE, INDEX, TABLES, "checkpoint")),
    *(_swapped(folder) for folder in (LOG, QUEUE, QUEUE)),
    *(_together(_missing(ENDS), hurt) for hurt in (*_HURT_QUEUES, _last_missing(LOG), _bit(LOG))),
    *(_together(_missing(ENDS), _missing(CHECKPOINT), hurt) for hurt in (_last_missing(LOG), _last_missing(QUEUE))),
    *(_together(damage(CHECKPOINT), _last_missing(QUEUE)) for damage in (_missing, _garbage)),
    *(_together(damage(ENDS), _last_missing(QUEUE)) for damage in (_bit, _garbage)),
    *(_together(_strange_list(), hurt) for hurt in (_last_missing(QUEUE), _bit(LOG))),
    _together(_missing(TABLES), _folder_missing(QUEUE)),
)
DAMAGES: Final = random.Random(14).sample(_DAMAGES, len(_DAMAGES))
"""In an order in which any few are of many kinds."""


def whole_messages(files: FileSystem, kept: Kept) -> set[bytes]:
    """Those whose own bytes are where they were."""
    logs = {path: files.read_file(path) or b"" for path in _paths(kept, LOG)}
    changed = {path.name for path, data in logs.items() if data != kept.files[path]}
    found = set(kept.messages.values())
    for log_offset, (place, size) in kept.places.items():
        at = log_offset % LOG_BYTES
        name = f"{log_offset - at:020}"
        if name in changed and logs[ROOT / LOG / name][at : at + size] != kept.messages[place]:
            found.discard(kept.messages[place])
    return found


def is_uncovered(kept: Kept, after: bytes) -> bool:
    """A record differs from what was stored in nothing but fields that no check sum covers."""
    place, size = kept.places.get(int.from_bytes(after[28:36], "big"), (None, 0))
    if place is None or size != len(after):
        return False
    before = kept.messages[place]
    topic_at = 88 + int.from_bytes(before[84:88], "big")
    properties_at = topic_at + 1 + before[topic_at] + 2
    ranges = (*UNCOVERED, (properties_at, len(before)))
    changed = [at for at in range(len(before)) if before[at] != after[at]]
    return all(any(begin <= at < end for begin, end in ranges) for at in changed)
