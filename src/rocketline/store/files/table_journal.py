"""A journal beside a table of the `config` folder: each change is a line, so that it costs what it says and no more.

`topics.json.journal` has what changed since `topics.json` was written, one change a line:

    <CRC-32 of the rest> {"before":<version of the table>,"after":<the next version>,…}

The versions chain: a change counts if it goes on from the version that the table, or the change before it, has. So it
does not matter whether a line is in the table already, and a journal that a table left behind, because somebody else
wrote it meanwhile, is recognised. A line that could not be synced is taken out again; should a crash bring it back, the
next one goes on from the version that it went on from, and takes its place.

When the table is to be written anew the journal becomes `.journal.bak` and another one is begun: the table's own `.bak`
and both journals together say what the table and the newer one say.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from rocketline.logs import Log
from rocketline.store.filesystem import File, FileSystem

_log = Log(__name__)

_SUM_BYTES: Final = 8
_BEFORE, _AFTER = attrgetter("before"), attrgetter("after")


@dataclass(frozen=True, slots=True)
class Change:
    """One line: JSON values. The version before is None for a table that was never written."""

    before: Any
    after: Any
    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Replay:
    """What a table has to take in."""

    changes: Sequence[Change]
    lost: int = 0
    """Lines in between that cannot be read."""
    is_cut: bool = False
    """The last line cannot be read."""
    is_stale: bool = False
    """The lines do not go on from this table."""


def chain(lines: Sequence[Change | None], version: Any) -> Replay:
    """The changes that go on from `version`. None is a line that cannot be read.

    Such a line at the end was most likely cut short by a crash, before anybody was told of its change; in the midst it
    is damage, unless what follows goes on without it. A line that goes on from where another did was written after that
    one had been refused, with all that went on from it.
    """
    start = _start(lines, version)
    if start is None:
        return Replay([], is_stale=any(lines), is_cut=bool(lines) and lines[-1] is None)
    changes: list[Change] = []
    lost = unread = 0
    for line in lines[start:]:
        if line is None:
            unread += 1
            continue
        if line.before != version:
            refused = _last(changes, _BEFORE, line.before)
            if refused is not None:
                del changes[refused:]
            elif unread:
                lost += unread
            else:
                return Replay(changes, lost, is_stale=True)
        changes.append(line)
        version, unread = line.after, 0
    return Replay(changes, lost, is_cut=bool(unread))


def _start(lines: Sequence[Change | None], version: Any) -> int | None:
    """Where the lines begin that the table does not know."""
    if (next_one := _last(lines, _BEFORE, version)) is not None:
        return next_one
    if (last_known := _last(lines, _AFTER, version)) is not None:
        return last_known + 1
    first = next((line for line in lines if line is not None), None)
    is_headless = bool(lines) and lines[0] is None and first is not None and _follows(first.before, version)
    return 0 if is_headless else None


def _last(lines: Sequence[Change | None], version_of: Callable[[Change], Any], version: Any) -> int | None:
    """Where the last line of this version is."""
    backwards = range(len(lines) - 1, -1, -1)
    return next((at for at in backwards if (line := lines[at]) is not None and version_of(line) == version), None)


def _follows(later: Any, version: Any) -> bool:
    """A version may have come about from another one by changes that were lost."""
    if later is None or version is None:
        return version is None
    is_same_state = bool(later["stateVersion"] == version["stateVersion"])
    return is_same_state and later["counter"] > version["counter"] and later["timestamp"] >= version["timestamp"]


class TableJournal:
    """The two files. Every method raises `OSError`."""

    def __init__(self, fs: FileSystem, table: Path) -> None:
        self._fs, self._table = fs, table
        self._path = table.with_name(f"{table.name}.journal")
        self._old_path = table.with_name(f"{table.name}.journal.bak")
        self._file: File | None = None
        self._end = 0
        self._has_remnant = False
        """Something may follow `_end`: of a crash, or of a line that was refused."""
        self._is_old_needed = False

    @property
    def size(self) -> int:
        """Bytes of lines since the last `rotate`."""
        return self._end

    @property
    def has_lines(self) -> bool:
        """There are some that the table may not have, and a crash would need; or some that it must not get."""
        return bool(self._end) or self._is_old_needed or self._has_remnant

    def load(self, version: Any) -> Sequence[Change]:
        """What a table of this version has to take in; what it cannot use is put aside, and a line says so."""
        old, data = (self._fs.read_file(path) or b"" for path in (self._old_path, self._path))
        old_lines, lines = [*journal_lines(old)], [*journal_lines(data)]
        self._end = _good_end(data)
        self._has_remnant = self._end < len(data)
        replay = chain([*old_lines, *lines], version)
        self._is_old_needed = bool({id(line) for line in replay.changes} & {id(line) for line in old_lines})
        if replay.lost or replay.is_cut:
            self._keep_copy(old + data)
        if replay.lost:
            problem = f"{replay.lost} lines cannot be read, and their changes are lost; those after them were applied"
            _log.error("journal is damaged", path=str(self._path), copy=str(self._copy), problem=problem)
        if replay.is_cut:
            problem = "its last line cannot be read: a crash cut it short before anybody was told, or it is damaged"
            _log.warning("journal ends early", path=str(self._path), copy=str(self._copy), problem=problem)
        if replay.is_stale:
            self._put_aside()
        if replay.changes:
            _log.info("journal applied", path=str(self._path), changes=len(replay.changes))
        return replay.changes

    @property
    def _copy(self) -> Path:
        return self._table.with_name(f"{self._table.name}.journal.corrupt")

    def _keep_copy(self, data: bytes) -> None:
        try:
            self._fs.write_file(self._copy, data)
        except OSError as error:
            _log.warning("damaged journal cannot be copied", path=str(self._copy), problem=str(error))

    def _put_aside(self) -> None:
        for path in (self._old_path, self._path):
            if self._fs.exists(path):
                aside = path.with_name(f"{path.name}.stale")
                self._fs.rename(path, aside)
                problem = "it does not go on from the table, which somebody else has written since: not applied"
                _log.warning("journal put aside", path=str(aside), table=str(self._table), problem=problem)
        self._end, self._has_remnant, self._is_old_needed = 0, False, False

    def append(self, change: Change) -> None:
        """Make a line durable. After an `OSError` it counts as not written, and is taken out again if that can be.

        If it cannot, neither another line nor a new journal comes after it before it is out."""
        body = json.dumps({"before": change.before, "after": change.after, **change.content}, separators=(",", ":"))
        data = body.encode()
        line = b"%08x %b\n" % (zlib.crc32(data), data)
        self._clear_remnant()
        file = self._opened()
        try:
            file.write_at(self._end, line)
            file.sync()
        except OSError:
            self._has_remnant = True
            with contextlib.suppress(OSError):
                self._clear_remnant()
            raise
        self._end += len(line)

    def _clear_remnant(self) -> None:
        if self._has_remnant:
            file = self._opened()
            file.truncate(self._end)
            file.sync()
            self._has_remnant = False

    def rotate(self) -> None:
        """The table is about to be written: begin another journal, for what comes after.

        Nobody reads a line that was refused: neither this table, nor the journal that goes on from it."""
        self._clear_remnant()
        if self._is_old_needed or not self._end:
            return
        self.close()
        self._fs.rename(self._path, self._old_path)
        self._is_old_needed = True
        self._end = 0

    def is_folded(self) -> None:
        """The table has been written since `rotate`: the lines from before are in it."""
        self._is_old_needed = False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> File:
        if self._file is None:
            self._fs.make_folder(self._path.parent)
            self._file = self._fs.open(self._path, size=0)
            try:
                self._fs.sync_folder(self._path.parent)
            except OSError:
                self.close()
                raise
        return self._file


def journal_lines(data: bytes) -> Iterator[Change | None]:
    """Every line; None for one that cannot be read, or that has no end yet."""
    *whole, rest = data.split(b"\n")
    yield from map(_parsed, whole)
    if rest:
        yield None


def _parsed(line: bytes) -> Change | None:
    body = line[_SUM_BYTES + 1 :]
    if line[: _SUM_BYTES + 1] != b"%08x " % zlib.crc32(body):
        return None
    content: dict[str, Any] = json.loads(body)
    return Change(content.pop("before"), content.pop("after"), content)


def _good_end(data: bytes) -> int:
    """Where the last line ends that can be read."""
    end = len(data)
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        if data.endswith(b"\n", begin, end) and _parsed(data[begin : end - 1]) is not None:
            return end
        end = begin
    return 0
