"""Bodies compressed and expanded, in the three forms that RocketMQ has.

zlib comes with Python; LZ4 (its frame format) and ZSTD need the extra `compression`. Whatever is expanded has a bound,
and memory grows with what was really expanded, never with what a header promises.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from rocketline.errors import LocalProtocolError, MissingExtraError, RemoteProtocolError
from rocketline.model.sys_flags import CompressionType

EXPANDED_BYTES_MAX = 128 * 1024 * 1024
"""The most that is expanded at once unless a caller says otherwise: a full pull, 32 bodies of 4 MiB."""

LEVEL_DEFAULT = 5
"""What Java clients use: quick rather than small."""

_LEVELS = {CompressionType.ZLIB: range(10), CompressionType.ZSTD: range(1, 23)}
_BLOCK_BYTES_MIN, _BLOCK_EXPANDED_BYTES_MAX = 4, 128 * 1024
"""Of ZSTD: the shortest block that expands to anything, and the most that any block expands to."""
_WINDOW_BYTES_MIN = 8 * 1024 * 1024
"""A ZSTD window that every decoder should accept (RFC 8878); writers choose it by their level, not by the body."""


def compress(body: bytes, kind: CompressionType, level: int = LEVEL_DEFAULT) -> bytes:
    """`body` as one stream of `kind`. LZ4 has no level here, as in Java."""
    if level not in _LEVELS.get(kind, (level,)):
        allowed = _LEVELS[kind]
        raise LocalProtocolError(f"{kind.name} level {level}: choose one from {allowed[0]} to {allowed[-1]}")
    return _COMPRESS[kind](body, level)


def decompress(data: bytes, kind: CompressionType, expanded_bytes_max: int = EXPANDED_BYTES_MAX) -> bytes:
    """The body that was compressed into `data`, which must be exactly one whole stream.

    Raises `RemoteProtocolError` if it is broken, cut short, followed by more, or expands beyond the bound.

    >>> decompress(compress(b"hello " * 100, CompressionType.ZLIB), CompressionType.ZLIB, expanded_bytes_max=600)[:11]
    b'hello hello'
    """
    assert expanded_bytes_max >= 0
    pieces: list[bytes] = []
    expanded_bytes = 0
    for piece in _EXPAND[kind](data, expanded_bytes_max):
        expanded_bytes += len(piece)
        if expanded_bytes > expanded_bytes_max:
            raise RemoteProtocolError(f"{kind.name} body expands beyond {expanded_bytes_max} bytes: raise the bound?")
        pieces.append(piece)
    return b"".join(pieces)


def _broken(kind: CompressionType, problem: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"{kind.name} body cannot be expanded: {problem}")


# --- zlib


def _compress_zlib(body: bytes, level: int) -> bytes:
    return zlib.compress(body, level)


def _expand_zlib(data: bytes, expanded_bytes_max: int) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    try:
        # One byte beyond the bound tells a body that fills it from one that breaks it.
        piece = stream.decompress(data, expanded_bytes_max + 1)
    except zlib.error as error:
        raise _broken(CompressionType.ZLIB, error) from None
    yield piece
    _check_whole(CompressionType.ZLIB, stream.eof, stream.unused_data)


def _check_whole(kind: CompressionType, is_finished: bool, rest: bytes | None) -> None:
    if not is_finished:
        raise _broken(kind, "it is cut short")
    if rest:
        raise _broken(kind, f"{len(rest)} more bytes follow its end")


# --- LZ4


def _lz4_frame() -> Any:
    try:
        import lz4.frame
    except ImportError:
        raise MissingExtraError("an LZ4 body", package="lz4", extra="compression") from None
    return lz4.frame


def _compress_lz4(body: bytes, _level: int) -> bytes:
    frame = _lz4_frame()
    # As Java writes it: independent blocks of 4 MiB, neither checksums nor the content's size.
    stream = frame.LZ4FrameCompressor(block_size=frame.BLOCKSIZE_MAX4MB, block_linked=False)
    return b"".join((stream.begin(), stream.compress(body), stream.flush()))


def _expand_lz4(data: bytes, expanded_bytes_max: int) -> Iterator[bytes]:
    stream = _lz4_frame().LZ4FrameDecompressor()
    # The decoder copies what it has not yet used at every step, so the steps grow with the input.
    step_bytes = min(max(65536, 4 * len(data)), expanded_bytes_max + 1)
    rest = data
    while not stream.eof:
        try:
            piece = stream.decompress(rest, step_bytes)
        except RuntimeError as error:
            raise _broken(CompressionType.LZ4, error) from None
        yield piece
        rest = b""
        if stream.needs_input:
            break
    _check_whole(CompressionType.LZ4, stream.eof, stream.unused_data)


# --- ZSTD


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("a ZSTD body", package="zstandard", extra="compression") from None
    return zstandard


def _compress_zstd(body: bytes, level: int) -> bytes:
    stream = _zstandard().ZstdCompressor(level=level, write_content_size=False).compressobj()
    return b"".join((stream.compress(body), stream.flush()))


def _expand_zstd(data: bytes, expanded_bytes_max: int) -> Iterator[bytes]:
    library = _zstandard()
    # A stream of unknown size keeps its whole window, so the window has the same bound.
    window_bytes_max = max(expanded_bytes_max, _WINDOW_BYTES_MIN)
    stream = library.ZstdDecompressor(max_window_size=window_bytes_max).decompressobj()
    at, room_bytes = 0, expanded_bytes_max
    while at < len(data) and not stream.eof:
        # This decoder has no bound of its own: feed it no more blocks than there is room for what they may become.
        step_bytes = _BLOCK_BYTES_MIN * max(1, room_bytes // _BLOCK_EXPANDED_BYTES_MAX)
        try:
            piece = stream.decompress(data[at : at + step_bytes])
        except library.ZstdError as error:
            raise _broken(CompressionType.ZSTD, error) from None
        yield piece
        at += step_bytes
        room_bytes -= len(piece)
    _check_whole(CompressionType.ZSTD, stream.eof, stream.unused_data + data[at:])


_COMPRESS: dict[CompressionType, Callable[[bytes, int], bytes]] = {
    CompressionType.ZLIB: _compress_zlib,
    CompressionType.LZ4: _compress_lz4,
    CompressionType.ZSTD: _compress_zstd,
}
_EXPAND: dict[CompressionType, Callable[[bytes, int], Iterator[bytes]]] = {
    CompressionType.ZLIB: _expand_zlib,
    CompressionType.LZ4: _expand_lz4,
    CompressionType.ZSTD: _expand_zstd,
}
