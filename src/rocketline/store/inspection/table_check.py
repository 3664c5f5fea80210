"""The tables of `config`, the checkpoint, and what they say of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rocketline.errors import RemoteProtocolError
from rocketline.model.topic_config import TopicConfig
from rocketline.store.files.checkpoint import FILE_BYTES, Checkpoint
from rocketline.store.files.json_files import decode_json
from rocketline.store.files.table_journal import Change, chain, journal_lines
from rocketline.store.filesystem import FileSystem
from rocketline.store.inspection.findings import REPAIR, Finding, Findings, Kind, counted
from rocketline.store.inspection.log_walk import LogWalk
from rocketline.store.log.damage import FILE_NAME as DAMAGE_FILE_NAME
from rocketline.store.log.damage import DamagedSpan, read_spans
from rocketline.store.queues.queue_ends import FILE_NAME, EndsFile, QueueEnds
from rocketline.wire.bodies import codec
from rocketline.wire.bodies.groups import ConsumerFilterTable, SubscriptionGroupTable
from rocketline.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from rocketline.wire.bodies.pop import MessageRequestModeTable
from rocketline.wire.bodies.stats import TimerMetrics
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.bodies.transactions import TransactionMetrics

_TABLES: Final[dict[str, type[Any]]] = {
    "topics.json": TopicConfigTable,
    "subscriptionGroup.json": SubscriptionGroupTable,
    "consumerOffset.json": ConsumerOffsetTable,
    "delayOffset.json": DelayOffsetTable,
    "messageRequestMode.json": MessageRequestModeTable,
    "consumerFilter.json": ConsumerFilterTable,
    "timermetrics": TimerMetrics,
    "transactionMetrics": TransactionMetrics,
}
_JOURNALED: Final = {"topics.json": "topicConfigTable", "subscriptionGroup.json": "subscriptionGroupTable"}
"""Tables with a journal beside them, and what it calls their entries."""
_QUEUE_TYPE: Final = "queue.type"
_BATCHED: Final = "BatchCQ"
_FIRST_MISSING: Final = "put copies back before any broker starts; without, their messages are gone"
_AHEAD_MS_MAX: Final = 3000
"""The checkpoint may be a moment ahead of the last record: a message that was refused has moved its time on."""


class Tables:
    """The tables of `config` that can be read."""

    def __init__(self, fs: FileSystem, root: Path, findings: Findings) -> None:
        self._fs, self._findings = fs, findings
        folder = root / "config"
        read = {name: self._read(folder / name, cls) for name, cls in _TABLES.items()}
        topics = read["topics.json"]
        self.topics: dict[str, TopicConfig] | None = None if topics is None else dict(topics.topic_config_table)
        """None if there is no table of them."""
        names = ("topics.json", "topics.json.bak")
        self.is_lost = topics is None and any(fs.read_file(folder / name) for name in names)
        """There is one, or its `.bak`, and it cannot be read."""
        for name in _JOURNALED:
            self._replay(folder / name, read[name])

    def is_batched(self, topic: str) -> bool | None:
        """Whether its queues know batches; None if there is no such topic."""
        config = self.topics.get(topic) if self.topics is not None else None
        return None if config is None else config.attributes.get(_QUEUE_TYPE) == _BATCHED

    def _read(self, path: Path, cls: type[Any]) -> Any:
        """What the file says, or else its `.bak`, as a start reads it."""
        backup = path.with_name(f"{path.name}.bak")
        table, problem = self._decode(path, cls)
        kept, kept_problem = self._decode(backup, cls)
        if problem is not None:
            is_lost = kept is None
            remedy = (
                f"mend it, or put a good copy there; {REPAIR} moves it aside"
                if is_lost
                else f"a start takes {backup.name}, which is older, and keeps this one as .corrupt"
            )
            self._tell(path, problem, remedy)
        if kept_problem is not None:
            self._tell(backup, kept_problem, "the next save replaces it" if table is not None else f"{REPAIR}")
        elif table is None and kept is not None and problem is None:
            self._tell(path, "missing or empty, with a .bak beside it", "a start takes the .bak", is_damage=False)
        return table if table is not None else kept

    def _replay(self, path: Path, table: Any) -> None:
        """What the journal of a table says that was changed since that was written."""
        journal, old = (path.with_name(f"{path.name}.journal{end}") for end in ("", ".bak"))
        lines = [line for each in (old, journal) for line in journal_lines(self._fs.read_file(each) or b"")]
        replay = chain(lines, None if table is None else codec.to_value(table.data_version))
        if replay.lost:
            problem = f"{replay.lost} lines cannot be read: the changes they tell of are lost"
            self._tell(journal, problem, "look at the table after the next start, and change it again if need be")
        if replay.is_cut:
            problem = "its last line cannot be read: cut short by a crash before anybody was told of it, or damaged"
            self._tell(journal, problem, "the next start goes on without it", is_damage=False)
        if replay.is_stale:
            problem = "it does not go on from the table, which somebody else has written since, or which is damaged"
            self._tell(journal, problem, "the next start puts it aside", is_damage=False)
        if path.name == "topics.json":
            self._take_in(journal, replay.changes)

    def _take_in(self, journal: Path, changes: Sequence[Change]) -> None:
        try:
            for change in changes:
                self.topics = {} if self.topics is None else self.topics
                for name, value in change.content.get(_JOURNALED["topics.json"], {}).items():
                    self.topics.pop(name, None)
                    if value is not None:
                        self.topics[name] = codec.from_value(TopicConfig, value)
        except (RemoteProtocolError, AttributeError) as error:
            self._tell(journal, f"cannot be read: {error}", "move it away to start without")

    def _decode(self, path: Path, cls: type[Any]) -> tuple[Any, str | None]:
        data = self._fs.read_file(path)
        if not data:
            return None, None
        try:
            return decode_json(cls, data), None
        except RemoteProtocolError as error:
            return None, f"cannot be read: {error}"

    def _tell(self, path: Path, problem: str, remedy: str, *, is_damage: bool = True) -> None:
        self._findings.add(Finding(kind=Kind.TABLE, path=path, problem=problem, remedy=remedy, is_damage=is_damage))


class EndsCheck:
    """What the last clean stop knew: where the log began and ended."""

    def __init__(self, fs: FileSystem, root: Path, findings: Findings) -> None:
        self._findings, self._path = findings, root / FILE_NAME
        self.ends: QueueEnds | None = None
        """None if that does not count."""
        try:
            self.ends = EndsFile(fs, root).read()
        except ValueError as error:
            remedy = f"a start looks at all queues instead; or: {REPAIR}"
            self._tell(Kind.TABLE, f"cannot be read: {error}", remedy)

    def compare(self, walk: LogWalk, expired: int, *, is_clean: bool) -> tuple[int, str]:
        """With the log: where this must end at least. `expired`: units of messages before its beginning."""
        ends, start = self.ends, walk.files[0].start if walk.files else 0
        if ends is not None and is_clean:
            if walk.files and start > ends.log_start:
                missing = start - ends.log_start
                problem = f"the log began at {ends.log_start} when the broker stopped: {missing} bytes are missing"
                self._tell(Kind.LOG_FILE, problem, _FIRST_MISSING, path=walk.path_of(ends.log_start))
        elif expired:
            problem = f"the log begins at {start}, and queues have {counted(expired, 'unit')} of messages before that"
            remedy = f"their files have expired, or are missing: {_FIRST_MISSING}"
            self._tell(Kind.LOG_FILE, problem, remedy, path=walk.path_of(start), is_damage=False)
        return max(ends.log_end - 1, 0) if ends is not None else 0, FILE_NAME

    def _tell(self, kind: Kind, problem: str, remedy: str, *, path: Path | None = None, is_damage: bool = True) -> None:
        self._findings.add(
            Finding(kind=kind, path=path or self._path, problem=problem, remedy=remedy, is_damage=is_damage)
        )


class DamageCheck:
    """Which bytes of the log an earlier life found damaged. A start looks at them again before it believes it."""

    def __init__(self, fs: FileSystem, root: Path, findings: Findings) -> None:
        self._path, self._findings = root / DAMAGE_FILE_NAME, findings
        self._spans: list[DamagedSpan] = []
        try:
            self._spans = read_spans(fs, self._path)
        except ValueError as error:
            remedy = f"a broker may serve damaged messages: {REPAIR}"
            self._findings.add(
                Finding(kind=Kind.TABLE, path=self._path, problem=f"cannot be read: {error}", remedy=remedy)
            )

    def compare(self, walk: LogWalk) -> None:
        for span in self._spans:
            damaged = [*walk.damaged, DamagedSpan(walk.end, span.end)]
            left = sum(max(min(end, span.end) - max(begin, span.begin), 0) for begin, end in damaged)
            if left < span.end - span.begin:
                problem = (
                    f"{span.end - span.begin - left} of its {span.end - span.begin} damaged bytes are whole messages"
                )
                remedy = "the next start notices"
                self._findings.add(
                    Finding(
                        kind=Kind.TABLE,
                        path=self._path,
                        position=span.begin,
                        problem=problem,
                        remedy=remedy,
                        is_damage=False,
                    )
                )


class CheckpointCheck:
    """The checkpoint, which a start trusts."""

    def __init__(self, fs: FileSystem, path: Path, findings: Findings) -> None:
        self._path, self._findings = path, findings
        self.checkpoint = Checkpoint(fs, path)
        self.is_there = fs.exists(path)
        if not self.is_there:
            return
        if (size := fs.size_of(path)) != FILE_BYTES:
            self._tell(f"{size} bytes where {FILE_BYTES} are expected")
        if size >= FILE_BYTES:
            self.checkpoint.peek()

    def compare(self, walk: LogWalk) -> tuple[int, str]:
        """With the log: where this must end at least, and which field says so."""
        last_ms = walk.last.store_ms if walk.last is not None else 0
        checkpoint = self.checkpoint
        for name, time_ms in (
            ("physicMsgTimestamp", checkpoint.physic_msg_timestamp),
            ("logicsMsgTimestamp", checkpoint.logics_msg_timestamp),
            ("indexMsgTimestamp", checkpoint.index_msg_timestamp),
        ):
            if time_ms < 0 or time_ms > last_ms + _AHEAD_MS_MAX:
                ahead = f"{(time_ms - last_ms) / 1000:.0f} s behind that of the last record"
                self._tell(f"{name} is {time_ms}, {ahead}: it is damaged, or the log has lost its end")
        places = {
            "confirmPhyOffset": checkpoint.confirm_log_offset,
            "logicsPhysicalOffset": checkpoint.logics_log_offset,
        }
        name = max(places, key=lambda name: places[name])
        return places[name], f"{name} of the checkpoint"

    def _tell(self, problem: str) -> None:
        remedy = f"without a checkpoint a start reads the whole log; or: {REPAIR}"
        self._findings.add(Finding(kind=Kind.CHECKPOINT, path=self._path, problem=problem, remedy=remedy))
