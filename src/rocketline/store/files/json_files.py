"""The JSON files of the `config` folder, each with the state before the last change beside it as `<name>.bak`.

A save writes a third file, then lets names change hands: a crash leaves the old state or the new one in the file, or
the old one in its `.bak` alone, as Apache's own saves may. The layout is that of fastjson 2, as Apache 5.5 writes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final, TypeVar

from rocketline.errors import CorruptStoreError, RemoteProtocolError
from rocketline.logs import Log
from rocketline.store.filesystem import FileSystem
from rocketline.wire import fastjson
from rocketline.wire.bodies import codec

_log = Log(__name__)

Body = TypeVar("Body")

PIECE_CHARACTERS: Final = 32 * 1024
"""Of a file that is written piece by piece; one entry of it may have more."""
_TEXTS_A_PART: Final = 500
_WRITTEN_BYTES: Final = 1024 * 1024
"""At a time."""


def load_json(fs: FileSystem, path: Path, cls: type[Body]) -> Body | None:
    """What the file says, or else its `.bak`; None if there is neither, or both are empty.

    A file that cannot be read is put aside as `.corrupt`, so that the next save cannot move it over the good `.bak`.
    Raises `CorruptStoreError` if the `.bak` is needed and cannot be read either.
    """
    data = fs.read_file(path)
    if data:
        try:
            return decode_json(cls, data)
        except RemoteProtocolError as error:
            _log.warning("file cannot be read, using its .bak", path=str(path), problem=str(error))
            fs.rename(path, path.with_name(f"{path.name}.corrupt"))
    data = fs.read_file(_backup(path))
    if not data:
        return None
    try:
        return decode_json(cls, data)
    except RemoteProtocolError as error:
        raise CorruptStoreError(
            str(_backup(path)), f"{error}; mend it or put a good copy at {path}, or remove both to start without"
        ) from None


def decode_json(cls: type[Body], data: bytes) -> Body:
    """What a file says. Raises `RemoteProtocolError`."""
    if b"\0" in data:  # nobody writes one; a file that lost a block to a crash has them, and may parse all the same
        raise RemoteProtocolError(f"{len(data)} bytes with zeros among them, first at {data.index(0)}")
    return codec.decode(cls, data, tolerated_max=None)  # we wrote it, or Apache's broker did: no bound is too large


def save_json(fs: FileSystem, path: Path, body: object) -> None:
    """Write `body`, a dataclass of `wire.bodies`, durably; what the file said before goes to its `.bak`.

    Raises `OSError`; then loading finds the old state, or the new one if only the last step failed. What was written
    on the way is removed: it may have taken the last of the disk.
    """
    _replace(fs, path, [pretty(codec.to_value(body)).encode("utf-8", "replace")])


class FileSave:
    """A file that is being written behind a running server: its text comes piece by piece, then a thread writes it."""

    def __init__(self, fs: FileSystem, path: Path, pieces: Iterator[str]) -> None:
        self._fs, self._path, self._pieces = fs, path, pieces
        self._data: list[bytes] = []

    def steps(self) -> Iterator[None]:
        """Makes the pieces, one each time."""
        for piece in self._pieces:
            self._data.append(piece.encode("utf-8", "replace"))
            yield

    def run(self) -> None:
        """Write all of it as `save_json` does; on any thread, after the steps or without them. Raises `OSError`."""
        for _ in self.steps():
            pass
        _replace(self._fs, self._path, self._data)


def _replace(fs: FileSystem, path: Path, pieces: Sequence[bytes]) -> None:
    fresh = path.with_name(f"{path.name}.tmp")
    fs.make_folder(path.parent)
    try:
        _write(fs, fresh, pieces)
    except OSError:
        with contextlib.suppress(OSError):
            fs.remove(fresh)
        raise
    if fs.exists(path) and fs.size_of(path):  # an empty file must not replace a good .bak
        fs.rename(path, _backup(path))
    fs.rename(fresh, path)
    fs.sync_folder(path.parent)


def _write(fs: FileSystem, path: Path, pieces: Sequence[bytes]) -> None:
    """As `write_file`, some of it at a time: there is no second copy of it in memory."""
    file = fs.open(path, size=0)
    try:
        file.truncate(0)
        at, waiting = 0, bytearray()
        for piece in pieces:
            waiting += piece
            if len(waiting) >= _WRITTEN_BYTES:
                file.write_at(at, bytes(waiting))
                at += len(waiting)
                waiting.clear()
        file.write_at(at, bytes(waiting))
        file.sync()
    finally:
        file.close()


def _backup(path: Path) -> Path:
    return path.with_name(f"{path.name}.bak")


def pretty(value: Any, line: str = "\n") -> str:
    """`value`, made of what `wire.fastjson` knows, with every entry on a line of its own. `line` is break and indent.

    >>> pretty({"offsetTable": {1: 3}, "topics": ["T"], "none": {}})
    '{\\n\\t"offsetTable":{\\n\\t\\t1:3\\n\\t},\\n\\t"topics":[\\n\\t\\t"T"\\n\\t],\\n\\t"none":{}\\n}'
    """
    inner = line + "\t"
    if isinstance(value, dict) and value:
        entries = ",".join([f"{inner}{_key(key)}:{pretty(entry, inner)}" for key, entry in value.items()])
        return f"{{{entries}{line}}}"
    if isinstance(value, list) and value:
        return f"[{','.join([inner + pretty(entry, inner) for entry in value])}{line}]"
    return fastjson.write(value).decode("utf-8")


def _key(key: str | int) -> str:
    return encode_basestring(key) if isinstance(key, str) else str(key)


def pretty_pieces(entries: Iterable[tuple[str, str | Iterable[str]]], line: str) -> Iterator[str]:
    """An object in the same layout, of entries whose values are texts already, in pieces of a millisecond or two.

    The text of a value may come in parts.

    >>> "".join(pretty_pieces([("a", "1"), ("b", ["{", "}"])], "\\n"))
    '{\\n\\t"a":1,\\n\\t"b":{}\\n}'
    """
    piece, size, begin = [], 0, "{"
    for key, texts in entries:
        piece.append(f"{begin}{line}\t{_key(key)}:")
        size, begin = size + len(key), ","
        for text in (texts,) if isinstance(texts, str) else texts:
            piece.append(text)
            size += len(text)
            if size >= PIECE_CHARACTERS:
                yield "".join(piece)
                piece, size = [], 0
    if piece:
        yield "".join(piece)
    yield "{}" if begin == "{" else f"{line}}}"


def pretty_list_parts(texts: Sequence[str], line: str) -> Iterator[str]:
    """A list of texts in the same layout, in parts.

    >>> "".join(pretty_list_parts(["a", "b"], "\\n")) == pretty(["a", "b"])
    True
    """
    for at in range(0, len(texts), _TEXTS_A_PART):
        some = ",".join([f"{line}\t{_key(text)}" for text in texts[at : at + _TEXTS_A_PART]])
        yield f"{',' if at else '['}{some}"
    yield f"{line}]" if texts else "[]"
