"""Offsets in a file of this machine, for consumers that read everything by themselves (broadcasting)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketline.errors import CorruptStoreError, RemoteProtocolError
from rocketline.files import replace_file
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.wire import bodies

FOLDER: Final = ".rocketmq_offsets"
"""In the home of the user. Java: rocketmq.client.localOffsetStoreDir, with this default."""

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """What the file holds, with queues as keys, which only Java's dialect of JSON has. Java: OffsetSerializeWrapper."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


def offset_path(client_id: str, group: str, folder: Path | None = None) -> Path:
    """Where Java looks as well: `folder`/client id/group/offsets.json."""
    return (folder or Path.home() / FOLDER) / client_id / group / "offsets.json"


class LocalFileOffsets:
    """Offsets in a file that Java's client reads and writes too. Java: LocalFileOffsetStore.

    What a write replaces goes to `offsets.json.bak` first, and is read when the file itself is empty or broken. Writes
    merge: offsets of queues that this consumer does not own now are kept.

    A `BlockingOffsetKeeper`: on the loop it is used through `KeeperInThread`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backup = path.with_name(path.name + ".bak")

    def fetch(self, queue: MessageQueue) -> int | None:
        return self.load().get(queue)

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Merge these into the file. Raises `OSError`, `CorruptStoreError`."""
        kept = self.load()
        merged = {**kept, **offsets}
        if merged == kept and self._path.exists():
            return
        previous = _content(self._path)
        # Never in place of a backup that may be all that is left: only what can be read is worth keeping.
        if previous and _parse(previous) is not None:
            replace_file(self._backup, previous)
        replace_file(self._path, bodies.encode(OffsetFile(merged)))

    def load(self) -> dict[MessageQueue, int]:
        """All offsets of the file; none if there is no file. Raises `CorruptStoreError` if its backup is broken too."""
        content = _content(self._path)
        offsets = _parse(content) if content else None
        if offsets is not None:
            return offsets
        backup = _content(self._backup)
        if not backup:
            if content:
                raise CorruptStoreError(str(self._path), "it cannot be read, and there is no backup: mend or delete it")
            return {}
        if content:
            _log.warning("offsets file cannot be read, its backup serves", path=self._path)
        offsets = _parse(backup)
        if offsets is None:
            raise CorruptStoreError(str(self._backup), f"neither it nor {self._path.name} can be read: mend or delete")
        return offsets


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _parse(content: bytes) -> dict[MessageQueue, int] | None:
    try:
        return bodies.decode(OffsetFile, content, tolerated_max=None).offset_table
    except RemoteProtocolError:
        return None
