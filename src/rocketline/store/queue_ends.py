"""What a clean stop knows of all queues: where each begins and ends. `queue_ends.json`, beside the log.

With it a start need not look into ten thousand folders, and a queue that has lost its last file, or all of them, is
found out: nothing else tells that there were more. It holds until somebody else has had the store, which the lock file
shows, or a topic was deleted; our own next lives only add to what it says.
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
        crc, _, text = data.partition(b"\n")
        if int(crc, 16) != zlib.crc32(text[:-1]):
            raise ValueError("its check sum is wrong")
        content = json.loads(text)
        if content["version"] != _VERSION or content["lockModifiedMs"] != lock_ms:
            return None
        first, second = content["queueFileBytes"]
        queues = {
            topic: {number: KnownQueue(bool(kind), *ends) for number, kind, *ends in known}
            for topic, known in content["topics"].items()
        }
        return cls(content["logStart"], content["logEnd"], content["lastRecord"], (first, second), queues)

    @classmethod
    def read(cls, fs: FileSystem, root: Path) -> QueueEnds | None:
        """What the last clean stop knew, None if somebody else has had the store since. Ask before the store is locked
        anew. Raises `ValueError` for a file that is damaged, `OSError`."""
        data, lock = fs.read_file(root / FILE_NAME), root / "lock"
        if data is None or not fs.exists(lock):
            return None
        try:
            return cls.decode(data, fs.modified_ms(lock))
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error

    @classmethod
    def load(cls, fs: FileSystem, root: Path) -> QueueEnds | None:
        """The same; None if it is damaged, too."""
        try:
            return cls.read(fs, root)
        except ValueError as error:
            path = str(root / FILE_NAME)
            _log.warning("ends of queues are not known: all queues are looked at", path=path, problem=str(error))
            return None

    def save(self, fs: FileSystem, root: Path) -> None:
        """Raises `OSError`; a crash leaves the old file or the new one."""
        fresh = root / f"{FILE_NAME}.tmp"
        fs.write_file(fresh, self.encode(fs.modified_ms(root / "lock")))
        fs.rename(fresh, root / FILE_NAME)
        fs.sync_folder(root)


def _topic(topic: str, queues: dict[int, KnownQueue]) -> str:
    known = ",".join(
        f"[{number},{int(is_batched)},{min_offset},{max_offset},{max_log_offset}]"
        for number, (is_batched, min_offset, max_offset, max_log_offset) in queues.items()
    )
    return f"{json.dumps(topic)}:[{known}]"


def drop(fs: FileSystem, root: Path) -> None:
    """Let it count no more: a topic is about to be deleted. Raises `OSError`."""
    if fs.exists(root / FILE_NAME):
        fs.remove(root / FILE_NAME)
        fs.sync_folder(root)


def listed(names: Iterable[tuple[str, int, bool]]) -> dict[str, dict[int, KnownQueue]]:
    """Queues of which nothing is known but that they have a folder."""
    queues: dict[str, dict[int, KnownQueue]] = {}
    for topic, queue_id, is_batched in names:
        queues.setdefault(topic, {})[queue_id] = KnownQueue(is_batched)
    return queues
