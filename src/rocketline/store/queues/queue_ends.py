"""Where all queues begin and end: `queue_ends.json`, beside the log. A clean stop writes it, a running store when it
has gone on to another file of the log, and whoever is about to move a damaged queue's files away.

With it a start need not look into ten thousand folders, and a queue that has lost its last file, or all of them, is
found out: nothing else tells that there were more. It holds until somebody else has had the store, which the lock file
shows; our own next lives only add to what it says. Topics that were deleted since are lines behind it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.logs import Log
from rocketline.store.filesystem import FileSystem

_log = Log(__name__)

FILE_NAME: Final = "queue_ends.json"
_VERSION: Final = 1
UNKNOWN: Final = -1
UNDERIVED: Final = -2
"""Stands for `max_log_offset` of a queue that must be derived anew: its files never agree with it."""


class KnownQueue(NamedTuple):
    """A queue that is not open. `max_offset` is `UNKNOWN` if nobody has looked at more than its name."""

    is_batched: bool
    min_offset: int = 0
    max_offset: int = UNKNOWN
    max_log_offset: int = -1


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """The file's content."""

    log_start: int
    """Where the log began."""
    log_end: int
    """Where it ended."""
    last_record: int
    """Where its last record began."""
    layout: tuple[int, int]
    """Bytes of a file of a queue, and of a batch queue."""
    queues: dict[str, dict[int, KnownQueue]] = field(default_factory=dict)

    def encode(self, lock_ms: int) -> bytes:
        content = {
            "version": _VERSION,
            "lockModifiedMs": lock_ms,
            "logStart": self.log_start,
            "logEnd": self.log_end,
            "lastRecord": self.last_record,
            "queueFileBytes": self.layout,
        }
        # By hand: forty thousand lists, made at once, have the collector look at all that there is.
        topics = ",".join(_topic(topic, queues) for topic, queues in self.queues.items())
        head = json.dumps(content, separators=(",", ":"))
        text = f'{head[:-1]},"topics":{{{topics}}}}}'.encode()
        return b"%08x\n%s\n" % (zlib.crc32(text), text)

    @classmethod
    def decode(cls, data: bytes, lock_ms: int) -> QueueEnds | None:
        """None if it is of another version, or somebody has had the store since. Raises `ValueError`."""
        crc, text, *lines = data.split(b"\n")
        if int(crc, 16) != zlib.crc32(text):
            raise ValueError("its check sum is wrong")
        content = json.loads(text)
        if content["version"] != _VERSION or content["lockModifiedMs"] != lock_ms:
            return None
        first, second = content["queueFileBytes"]
        queues = {
            topic: {number: KnownQueue(bool(kind), *ends) for number, kind, *ends in known}
            for topic, known in content["topics"].items()
        }
        for line in lines:
            queues.pop(_forgotten(line), None)
        return cls(content["logStart"], content["logEnd"], content["lastRecord"], (first, second), queues)


def _topic(topic: str, queues: dict[int, KnownQueue]) -> str:
    known = ",".join(
        f"[{number},{int(is_batched)},{min_offset},{max_offset},{max_log_offset}]"
        for number, (is_batched, min_offset, max_offset, max_log_offset) in queues.items()
    )
    return f"{json.dumps(topic)}:[{known}]"


def _forgetting(topic: str) -> bytes:
    """A line that follows on the ends: the topic is about to be deleted. It begins behind whatever was cut short."""
    name = json.dumps(topic).encode()
    return b"\n%08x %s\n" % (zlib.crc32(name), name)


def _forgotten(line: bytes) -> str | None:
    """None if there is no such line; one that was cut short was followed by no deletion."""
    crc, _, name = line.partition(b" ")
    if crc != b"%08x" % zlib.crc32(name):
        return None
    return str(json.loads(name))


class EndsFile:
    """The file of one store."""

    def __init__(self, fs: FileSystem, root: Path) -> None:
        self._fs, self._root = fs, root
        self.path = root / FILE_NAME
        self._written, self._fresh = root / f"{FILE_NAME}.next", root / f"{FILE_NAME}.tmp"

    def read(self) -> QueueEnds | None:
        """What was known last, None if somebody else has had the store since. Ask before the store is locked anew.

        Raises `ValueError` for a file that is damaged, `OSError`.
        """
        data, lock = self._fs.read_file(self.path), self._root / "lock"
        if data is None or not self._fs.exists(lock):
            return None
        try:
            return QueueEnds.decode(data, self._fs.modified_ms(lock))
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error

    def load(self) -> QueueEnds | None:
        """The same; None if it is damaged, too."""
        try:
            return self.read()
        except ValueError as error:
            path = str(self.path)
            _log.warning("ends of queues are not known: all queues are looked at", path=path, problem=str(error))
            return None

    def write(self, ends: QueueEnds) -> None:
        """Write what is to take the file's place; may run elsewhere. Raises `OSError`."""
        self._write(ends, self._written)

    def _write(self, ends: QueueEnds, path: Path) -> None:
        self._fs.write_file(path, ends.encode(self._fs.modified_ms(self._root / "lock")))

    def put(self) -> None:
        """Let what was written take the file's place. A crash leaves the one or the other: both are true.

        Raises `OSError`.
        """
        self._fs.rename(self._written, self.path)

    def save(self, ends: QueueEnds) -> None:
        """The same at once and durably, whatever is written elsewhere. Raises `OSError`."""
        self._write(ends, self._fresh)
        self._fs.rename(self._fresh, self.path)
        self._fs.sync_folder(self._root)

    def forget(self, topic: str) -> None:
        """A topic is about to be deleted: nothing is known of its queues any more. Raises `OSError`."""
        if not self._fs.exists(self.path):
            return
        file = self._fs.open(self.path)
        try:
            file.write_at(file.size, _forgetting(topic))
            file.sync()
        finally:
            file.close()
        self._fs.sync_folder(self._root)  # it may just have been put there


def listed(names: Iterable[tuple[str, int, bool]]) -> dict[str, dict[int, KnownQueue]]:
    """Queues of which nothing is known but that they have a folder."""
    queues: dict[str, dict[int, KnownQueue]] = {}
    for topic, queue_id, is_batched in names:
        queues.setdefault(topic, {})[queue_id] = KnownQueue(is_batched)
    return queues
