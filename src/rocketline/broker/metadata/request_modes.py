"""How groups get the messages of topics, by pulling or by popping; kept in `messageRequestMode.json`.

Java: MessageRequestModeManager.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocketline.errors import RemoteProtocolError
from rocketline.store.files.json_files import load_json, save_json
from rocketline.store.filesystem import FileSystem
from rocketline.wire.bodies.pop import MessageRequestModeTable, SetMessageRequestModeRequestBody

MODES_MAX: Final = 2_000
"""Each change writes all of them, in some tens of milliseconds."""


class RequestModes:
    """What administrators set, by topic and group. A change is on disk before it shows."""

    def __init__(self, files: FileSystem, path: Path, saved: MessageRequestModeTable | None = None) -> None:
        self._files, self._path = files, path
        self.table = saved or MessageRequestModeTable()
        """Replaced by every change, never edited."""

    @classmethod
    def load(cls, files: FileSystem, path: Path) -> RequestModes:
        """What the file holds; nothing if there is none. Raises `CorruptStoreError`."""
        return cls(files, path, load_json(files, path, MessageRequestModeTable))

    def mode_of(self, topic: str, group: str) -> SetMessageRequestModeRequestBody | None:
        """What was set for the group, None if nothing was."""
        return self.table.message_request_mode_map.get(topic, {}).get(group)

    def set(self, topic: str, group: str, mode: SetMessageRequestModeRequestBody) -> None:
        """Keep the mode of a topic and group. Nothing has changed if that raises `OSError`, because it cannot be saved,
        or `RemoteProtocolError`, because there are too many."""
        modes = self.table.message_request_mode_map
        if group not in modes.get(topic, {}) and sum(map(len, modes.values())) >= MODES_MAX:
            raise RemoteProtocolError(f"modes of {MODES_MAX} topics and groups are kept already, and no more can be")
        table = MessageRequestModeTable({**modes, topic: {**modes.get(topic, {}), group: mode}})
        save_json(self._files, self._path, table)
        self.table = table
