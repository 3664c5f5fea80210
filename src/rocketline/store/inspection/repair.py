"""Mending a store that nobody has open. The log is the truth: what is derived from it is derived anew, and what of the
log itself is damaged is replaced by records that everybody gets past. Nothing goes without a copy in `damaged`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketline.clock import Clock
from rocketline.errors import RemoteProtocolError, StoreError
from rocketline.model.ids import HostAddress
from rocketline.model.topic_config import TopicConfig
from rocketline.store.config import StoreConfig
from rocketline.store.files.json_files import save_json
from rocketline.store.filesystem import File, FileSystem
from rocketline.store.inspection.check import CheckReport, Tell, check_store, locked, look, place_in
from rocketline.store.inspection.findings import Kind, counted
from rocketline.store.inspection.log_walk import Stretch
from rocketline.store.inspection.queue_check import FOLDERS
from rocketline.store.inspection.stand_in import Filler, Lost, fill, spread
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import Aside
from rocketline.store.log.record_scan import Record, scan
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.queue_ends import UNDERIVED, KnownQueue, QueueEnds
from rocketline.store.queues.queue_table import QueueTable
from rocketline.store.timers.checkpoint import lock_ms_of, unusable
from rocketline.store.timers.wheel import SLOTS
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.message_codec import decode_record

_NAME_DIGITS: Final = 20
_COPIED_BYTES: Final = 8 << 20
_HALF_NAMED: Final = ".mended"
"""Ends the name of a file of the log that is on its way to its place."""
_PLACES_MAX: Final = 5
_INDEXED_AT_ONCE: Final = 10_000
_LOOKED_AT_AT_ONCE: Final = 1000
_MEMORY_BYTES: Final = 1 << 30
_NOBODY: Final = HostAddress(bytes(4), 0)
_STRANGE_INDEX: Final = "its index files have another length than the settings say: give the broker's own settings"
_DERIVED: Final = ("checkpoint", "damage.json")
"""What a start believes without looking; after a repair it must look."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """Something that was changed, and where what was there before is now."""

    what: str
    path: Path
    copy: Path | None = None


@dataclass(slots=True)
class Repaired:
    """What a repair has done."""

    before: CheckReport
    after: CheckReport
    steps: list[RepairStep] = field(default_factory=list)


def repair_store(
    fs: FileSystem,
    clock: Clock,
    config: StoreConfig,
    tell: Tell = lambda done, total: None,
    *,
    timer_slots: int = SLOTS,
) -> Repaired:
    """Mend the store in `storePathRootDir`, if it is damaged.

    Raises `StoreError` if there is none, `StoreLockedError`, `OSError`; what was done until then stays done, and a
    second try goes on from there.
    """
    with locked(fs, config):
        before = report = look(fs, clock, config, tell, timer_slots)
        if report.findings.is_clean:
            return Repaired(before, before)
        if report.is_index_strange:
            raise StoreError(f"{config.store_path_root_dir}: {_STRANGE_INDEX}")
        repair = _Repair(fs, config)
        if repair.put_back_files() | repair.correct_places(report):
            report = look(fs, clock, config, tell, timer_slots)
        repair.mend_tables(report)
        repair.mend_timers(report, clock.wall_ms())
        repair.mend_log(report)
        repair.move_derived(report)
    repair.derive(clock, report)
    return Repaired(before, check_store(fs, clock, config, tell, timer_slots=timer_slots), repair.steps)


def _is_log_name(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) == _NAME_DIGITS


class _Repair:
    """The steps, in their order. Each can be repeated after it was cut short."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        self._fs, self._config = fs, config
        self._root = config.store_path_root_dir
        self._aside = Aside(fs, self._root)
        self._log, self._log_bytes = config.commit_log_path, config.mapped_file_size_commit_log
        self.steps: list[RepairStep] = []

    def _put_aside(self, what: str, path: Path) -> None:
        if (copy := self._aside.move(path)) is not None:
            self.steps.append(RepairStep(what, path, copy))

    def _copy(self, file: File, begin: int, end: int, path: Path) -> Path | None:
        return self._aside.copy(file, begin, self._aside.name_of(path), end=end)

    # --- files of the log

    def put_back_files(self) -> bool:
        """Give files of the log the names that their records say, and all of them their length; whether any changed.

        Each gets a name of its own first: where an earlier try was cut short, some have it already.
        """
        fs, folder = self._fs, self._log
        wanted = {place: path for path in self._half_named() if (place := self._misplaced(path)) is not None}
        for name in fs.list(folder):
            path = folder / name
            if not _is_log_name(name) or int(name) % self._log_bytes:
                if not fs.is_folder(path) and path not in wanted.values():
                    self._put_aside("moved a file that is none of the log", path)
            elif (place := self._misplaced(path)) is not None and place not in wanted:
                wanted[place] = path
        for place, path in wanted.items():
            fs.rename(path, self._half_name(place))
        if wanted:
            fs.sync_folder(folder)
        for place, path in wanted.items():
            target = folder / f"{place:0{_NAME_DIGITS}}"
            self._put_aside("moved a file whose place another one has", target)
            fs.rename(self._half_name(place), target)
            fs.sync_folder(folder)
            self.steps.append(RepairStep(f"was {path.name}; its records say that it belongs here", target))
        before = len(self.steps)
        self._make_whole()
        return bool(wanted) or len(self.steps) > before

    def _half_name(self, place: int) -> Path:
        return self._log / f"{place:0{_NAME_DIGITS}}{_HALF_NAMED}"

    def _half_named(self) -> list[Path]:
        """Files that an earlier repair, which was cut short, was about to give their place."""
        names = [name for name in self._fs.list(self._log) if name.endswith(_HALF_NAMED)]
        return [self._log / name for name in names if _is_log_name(name.removesuffix(_HALF_NAMED))]

    def _misplaced(self, path: Path) -> int | None:
        """Where a file belongs by its first record, if it has another name, and none that belongs there has that."""
        place = place_in(self._fs, path)
        if place is None or place % self._log_bytes or path.name == (name := f"{place:0{_NAME_DIGITS}}"):
            return None
        return place if place_in(self._fs, self._log / name) != place else None

    def _make_whole(self) -> None:
        """Every file has its length and none is missing; what was lost is zero, and mended with the rest."""
        fs = self._fs
        starts = sorted(int(name) for name in fs.list(self._log) if name.isdigit() and len(name) == _NAME_DIGITS)
        for start in range(starts[0], starts[-1] + 1, self._log_bytes) if starts else ():
            path = self._log / f"{start:0{_NAME_DIGITS}}"
            size = fs.size_of(path) if fs.exists(path) else 0
            if size == self._log_bytes or (not size and start == starts[-1]):
                continue
            file = fs.open(path, size=self._log_bytes)
            try:
                copy = self._copy(file, 0, size, path) if size else None
                file.truncate(self._log_bytes)
                file.sync()
            finally:
                file.close()
            fs.sync_folder(self._log)
            self.steps.append(
                RepairStep(f"had {size} bytes and has {self._log_bytes} now" if size else "made anew", path, copy)
            )

    # --- records

    def correct_places(self, report: CheckReport) -> bool:
        """Give whole records their topic, queue or queue offset back, which no check sum covers: their queue's unit
        points at them, as its neighbours do at theirs, and nobody else does. Whether any was wrong."""
        corrected = 0
        for wanted in report.contradicted:
            log = CommitLog(self._fs, self._log, self._log_bytes)
            start = wanted.log_offset - wanted.log_offset % self._log_bytes
            if not self._fs.exists(log.segments.path(start)):
                continue
            log.segments.starts = [start]
            record = next(scan(log, wanted.log_offset, wanted.log_offset + 1, check_crc=True), None)
            name = wanted.topic.encode("utf-8", "replace")
            place = (name, wanted.queue_id, wanted.queue_offset)
            if (
                record is not None
                and (record.size, len(record.topic)) == (wanted.size, len(name))
                and (record.topic, record.queue_id, record.queue_offset) != place
                and not report.is_confirmed(record.topic, record.queue_id, record.queue_offset)
            ):
                self._correct(log.segments.file_of(start), wanted, record, name)
                corrected += 1
            log.close()
        return bool(corrected)

    def _correct(self, file: File, wanted: Lost, record: Record, name: bytes) -> None:
        at = wanted.log_offset % self._log_bytes
        path = self._log / f"{wanted.log_offset - at:0{_NAME_DIGITS}}"
        copy = self._copy(file, at, at + record.size, path.with_name(f"{path.name}-{wanted.log_offset}"))
        file.write_at(at + 12, wanted.queue_id.to_bytes(4, "big"))
        file.write_at(at + 20, wanted.queue_offset.to_bytes(8, "big"))
        topic_at = at + record.size - len(record.properties) - 2 - len(name)
        file.write_at(topic_at, name)
        file.sync()
        was = f"{record.topic.decode('utf-8', 'replace')}/{record.queue_id} offset {record.queue_offset}"
        now = f"{wanted.topic}/{wanted.queue_id} offset {wanted.queue_offset}"
        self.steps.append(RepairStep(f"the message at {wanted.log_offset} was {was}, is {now} again", path, copy))

    def mend_log(self, report: CheckReport) -> None:
        """Let everybody get past what is no record."""
        lost = spread(report.lost)
        for span in report.damaged:
            for begin, end in self._parts(span):
                self._mend(begin, end, [one for one in lost if begin <= one.log_offset < end], report)
        self._extend(spread(report.beyond), report)

    def _extend(self, beyond: list[Lost], report: CheckReport) -> None:
        """Let the log go as far as queues know it, so that no queue offset is given out again."""
        if not beyond:
            return
        end = beyond[-1].log_offset + beyond[-1].size
        self._make_files(end)
        for begin, until in self._parts(Stretch(report.log_end, end)):
            self._mend(begin, until, [one for one in beyond if begin <= one.log_offset < until], report)

    def _make_files(self, end: int) -> None:
        names = self._fs.list(self._log)
        start = int(names[-1]) if names else 0
        while start < end:
            path = self._log / f"{start:0{_NAME_DIGITS}}"
            if not self._fs.exists(path) or not self._fs.size_of(path):
                self._fs.open(path, size=self._log_bytes).close()
                self.steps.append(RepairStep("made anew", path))
            start += self._log_bytes
        self._fs.sync_folder(self._log)

    def _parts(self, span: Stretch) -> list[Stretch]:
        """The same by files."""
        size, parts, begin = self._log_bytes, list[Stretch](), span.begin
        while begin < span.end:
            end = min(begin - begin % size + size, span.end)
            parts.append(Stretch(begin, end))
            begin = end
        return parts

    def _mend(self, begin: int, end: int, lost: list[Lost], report: CheckReport) -> None:
        start = begin - begin % self._log_bytes
        path = self._log / f"{start:0{_NAME_DIGITS}}"
        file = self._fs.open(path)
        try:
            if message := self._legible(file.read_at(begin - start, min(end - begin, _COPIED_BYTES)), begin, end):
                lost = [message]
            fillers = self._fillers(begin, end, lost, report.store_ms_before(begin))
            copy = self._copy(file, begin - start, end - start, path.with_name(f"{path.name}-{begin}"))
            for at, data in fillers:
                file.write_at(at - start, data)
            file.sync()
        finally:
            file.close()
        self.steps.append(RepairStep(f"{end - begin} bytes at {begin} replaced: {self._told(lost)}", path, copy))

    def _fillers(self, begin: int, end: int, here: list[Lost], store_ms: int) -> list[Filler]:
        is_to_file_end = not end % self._log_bytes
        has_crc = self._config.enabled_append_prop_crc
        return fill(begin, end, here, store_ms, is_to_file_end=is_to_file_end, has_crc=has_crc)

    @staticmethod
    def _told(lost: list[Lost]) -> str:
        if not lost:
            return "nothing is known of what was there"
        places = ", ".join(f"{one.topic}/{one.queue_id} offset {one.queue_offset}" for one in lost[:_PLACES_MAX])
        more = " …" if len(lost) > _PLACES_MAX else ""
        return f"{counted(len(lost), 'message')} marked DAMAGED in their place ({places}{more})"

    @staticmethod
    def _legible(data: bytes, begin: int, end: int) -> Lost | None:
        """A single record whose lengths are right and whose check sum is not says itself which message it was."""
        try:
            message = decode_record(data)
        except (RemoteProtocolError, UnicodeDecodeError):
            return None
        is_whole = int.from_bytes(data[:4], "big") == end - begin and message.log_offset == begin
        if not is_whole or message.sys_flag & 0xC0:
            return None
        place = message.topic, message.queue_id, message.queue_offset
        return Lost(begin, len(data), *place, dict(message.properties))

    # --- tables

    def mend_tables(self, report: CheckReport) -> None:
        """What cannot be read goes aside. Without any table of topics, one is made of what the queues say."""
        for finding in report.findings.kept:
            if finding.kind is Kind.TABLE and finding.is_damage:
                self._put_aside("moved a table that cannot be read", finding.path)
        path = self._root / "config" / "topics.json"
        if report.is_topic_table_lost and report.topics:
            attributes = {"queue.type": "BatchCQ"}
            table = {
                name: TopicConfig(name, count, count, attributes=attributes if is_batched else {})
                for name, (count, is_batched) in report.topics.items()
            }
            save_json(self._fs, path, TopicConfigTable(topic_config_table=table))
            self.steps.append(RepairStep(f"made anew, with the {len(table)} topics that have messages", path))

    def mend_timers(self, report: CheckReport, now_ms: int) -> None:
        """Timer log and wheel go aside; their checkpoint tells the next start how far messages were delivered."""
        if not report.findings.damage[Kind.TIMER]:
            return
        path = self._root / "config" / "timercheck"
        if report.timers is None:
            self._put_aside("moved a checkpoint of timers that cannot be read", path)
        else:
            self._keep(path)
            known = unusable(report.timers, now_ms, lock_ms_of(self._fs, self._root), self._config.timer_precision_ms)
            known.save(self._fs, path)
        for name in ("timerwheel", "timerlog"):
            self._put_aside("moved: timers are derived anew by the next start", self._root / name)

    # --- what is derived

    def move_derived(self, report: CheckReport) -> None:
        """Queues and index that are wrong go aside, and so does what would keep a start from reading the whole log."""
        for finding in report.findings.kept:
            if finding.kind is Kind.QUEUE_FILE and finding.queue_id is None:
                self._put_aside("moved queues of another kind", finding.path)
        self._note_ends(report)
        for is_batched, topic, queue_id in sorted(report.hurt_queues):
            self._put_aside(
                "moved a queue that does not agree with the log",
                self._root / FOLDERS[is_batched] / topic / str(queue_id),
            )
        if report.is_index_hurt:
            self._put_aside("moved the index, which does not agree with the log", self._root / "index")
        for name in _DERIVED:
            self._put_aside("moved: all is derived anew", self._root / name)
        self._fs.write_file(self._root / "abort", b"0")
        self._fs.sync_folder(self._root)

    def _note_ends(self, report: CheckReport) -> None:
        """Write down how far queues went, of which the log may have nothing any more: their files are about to go.

        Of the others nothing is said but that they exist, so that they are looked at.
        """
        starts = [int(name) for name in self._fs.list(self._log) if _is_log_name(name)]
        log_start = min(starts, default=0)
        config = self._config
        table = QueueTable(self._fs, self._root, config.consume_queue_file_bytes, config.batch_consume_queue_file_bytes)
        before = table.ends_file.load()
        queues = before.queues if before is not None and before.log_end >= log_start else {}
        for topic, listed in table.listed().items():
            queues[topic] = listed | queues.get(topic, {})
        for is_batched, topic, queue_id in report.hurt_queues:
            known = queues.setdefault(topic, {}).get(queue_id, KnownQueue(is_batched))
            gone = table.end_of_gone(topic, queue_id, is_batched, lambda place, size: place + size <= log_start)
            end = max(gone, known.max_offset)
            queues[topic][queue_id] = KnownQueue(is_batched, end, end, UNDERIVED)
        self._keep(table.ends_file.path)
        table.ends_file.save(QueueEnds(log_start, log_start, 0, table.layout, queues))

    def _keep(self, path: Path) -> None:
        """Copy a file that is about to be replaced."""
        if (data := self._fs.read_file(path)) is not None:
            copy = self._aside.keep(data, self._aside.name_of(path))
            self.steps.append(RepairStep("replaced: all is derived anew", path, copy))

    def derive(self, clock: Clock, report: CheckReport) -> None:
        """Let the store itself derive queues and index from the log, and end cleanly."""

        def is_batched(topic: str) -> bool | None:
            """As the table of topics says, or else as its queues were."""
            found = report.is_batched(topic)
            return report.topics[topic][1] if found is None and topic in report.topics else found

        store = MessageStore.open(
            lambda: self._config, self._fs, clock, _NOBODY, _MEMORY_BYTES, load_topics=lambda: is_batched
        )
        try:
            while store.look_on(_LOOKED_AT_AT_ONCE):
                pass
            while store.catch_up(_INDEXED_AT_ONCE):
                pass
            gone = [topic for topic in store.queues.topics if topic in report.gone_topics]
            store.delete_topics(gone)
        finally:
            store.close()
        self.steps.append(RepairStep("queues and index derived from the log", self._root))
