"""How many half messages of each topic wait for their end, kept in `transactionMetrics`. Java: TransactionMetrics.

After a crash the figures are those of the last save; if neither the file nor its `.bak` can be read, they begin anew:
nothing but an administrator's picture depends on them. Differs: none is below zero, however often a transaction is
ended, and a message that is taken up again counts again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rocketline.broker.metadata.saving import SavedFile
from rocketline.clock import Clock
from rocketline.errors import CorruptStoreError
from rocketline.logs import Log
from rocketline.model.topic_config import DataVersion
from rocketline.store.files.json_files import FileSave, load_json
from rocketline.store.filesystem import FileSystem
from rocketline.wire.bodies import encode_in_parts
from rocketline.wire.bodies.transactions import HalfMessages, TransactionMetrics

_log = Log(__name__)


class TransactionFigures(SavedFile):
    """The figures. The file is made with the first half message."""

    def __init__(self, files: FileSystem, path: Path, clock: Clock, is_topic: Callable[[str], bool]) -> None:
        """Raises `OSError` if the file at `path` cannot be read."""
        self._files, self._path, self._clock, self._is_topic = files, path, clock, is_topic
        saved = self._load() or TransactionMetrics()
        self._version = saved.data_version or DataVersion(timestamp=clock.wall_ms())
        self._topics = dict(saved.transaction_count)
        self._saved = self._being_saved = self._version

    def _load(self) -> TransactionMetrics | None:
        try:
            return load_json(self._files, self._path, TransactionMetrics)
        except CorruptStoreError as error:
            _log.warning("figures of half messages cannot be read, and begin anew", problem=str(error))
            return None

    def add(self, topic: str, count: int) -> None:
        """So many half messages more, or fewer."""
        now_ms = self._clock.wall_ms()
        known = self._topics.get(topic)
        self._topics[topic] = HalfMessages(max(0, (0 if known is None else known.count) + count), now_ms)
        self._version = replace(self._version, counter=self._version.counter + 1, timestamp=now_ms)

    def counts(self) -> Mapping[str, int]:
        """Half messages by topic."""
        return {topic: figure.count for topic, figure in self._topics.items()}

    def begin_save(self) -> FileSave | None:
        """What is to be written; None if the file says it. Topics that are gone are forgotten once nothing waits."""
        if self._version == self._saved:
            return None
        for topic in [topic for topic, figure in self._topics.items() if not figure.count]:
            if not self._is_topic(topic):
                del self._topics[topic]
        self._being_saved = self._version
        body = TransactionMetrics(self._version, dict(self._topics))
        return FileSave(self._files, self._path, map(bytes.decode, encode_in_parts(body)))

    def save_done(self) -> None:
        """The file was written."""
        self._saved = self._being_saved
