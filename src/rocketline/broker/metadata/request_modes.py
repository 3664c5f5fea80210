"""How groups get the messages of topics, by pulling or by popping; kept in `messageRequestMode.json`.

Java: MessageRequestModeManager.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from rocketline.errors import RemoteProtocolError
from rocketline.store.files.json_files import load_json, save_json
from rocketline.store.filesystem import FileSystem
from rocketline.wire.bodies.pop import MessageRequestModeTable, SetMessageRequestModeRequestBody

MODES_MAX: Final = 2_000
"""Each change writes all of them, in some tens of milliseconds of a thread."""
_Changes: TypeAlias = dict[tuple[str, str], SetMessageRequestModeRequestBody]


class RequestModes:
    """What administrators set, by topic and group. A change is on disk before it shows."""

    def __init__(self, files: FileSystem, path: Path, saved: MessageRequestModeTable | None = None) -> None:
        self._files, self._path = files, path
        self.table = saved or MessageRequestModeTable()
        """Replaced by every change, never edited."""
        self._wanted: _Changes = {}
        """Set, and waiting for the next save."""
        self._under_way: _Changes = {}

    @classmethod
    def load(cls, files: FileSystem, path: Path) -> RequestModes:
        """What the file holds; nothing if there is none. Raises `CorruptStoreError`."""
        return cls(files, path, load_json(files, path, MessageRequestModeTable))

    def mode_of(self, topic: str, group: str) -> SetMessageRequestModeRequestBody | None:
        """What was set for the group, None if nothing was."""
        return self.table.message_request_mode_map.get(topic, {}).get(group)

    def set(self, topic: str, group: str, mode: SetMessageRequestModeRequestBody) -> None:
        """Have the next save keep the mode of a topic and group. Raises `RemoteProtocolError` if there are too many."""
        kept = {(topic, group) for topic, groups in self.table.message_request_mode_map.items() for group in groups}
        if len({(topic, group), *kept, *self._under_way, *self._wanted}) > MODES_MAX:
            raise RemoteProtocolError(f"modes of {MODES_MAX} topics and groups are kept already, and no more can be")
        self._wanted[topic, group] = mode

    def begin_save(self) -> Callable[[], None]:
        """What writes the modes with all that was set by now; on any thread, and it may raise `OSError`."""
        self._under_way, self._wanted = self._wanted, {}
        return partial(save_json, self._files, self._path, self._with_changes())

    def save_done(self) -> None:
        """What was to be written is on disk, and shows from now on."""
        if self._under_way:
            self.table = self._with_changes()
            self._under_way = {}

    def save_failed(self) -> None:
        """It is not, or perhaps not: what was to be changed stays as it was."""
        self._under_way = {}

    def _with_changes(self) -> MessageRequestModeTable:
        modes = {topic: dict(groups) for topic, groups in self.table.message_request_mode_map.items()}
        for (topic, group), mode in self._under_way.items():
            modes.setdefault(topic, {})[group] = mode
        return MessageRequestModeTable(modes)
