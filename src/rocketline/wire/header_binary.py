"""The ROCKETMQ (binary) header: a fixed part, a remark, and length-prefixed pairs."""

from __future__ import annotations

import struct

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.wire.codes import LANGUAGE_CODES, LANGUAGES, SerializeType
from rocketline.wire.command import Command
from rocketline.wire.header_bounds import check_count

_FIXED = struct.Struct(">hBhiii")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_SHORT_MAX = 32767


def decode(header: bytes, body: bytes) -> Command:
    """The command in a binary header. Raises `RemoteProtocolError` if a length does not fit."""
    try:
        code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(header)
        at = _FIXED.size
        remark = _text(header, at, remark_bytes, len(header), "remark") if remark_bytes else None
        at += remark_bytes
        (ext_bytes,) = _INT.unpack_from(header, at)
        at += 4
        if ext_bytes < 0 or at + ext_bytes > len(header):
            raise RemoteProtocolError(f"binary header: {ext_bytes} bytes of fields announced, {len(header) - at} left")
        ext = _decode_pairs(header, at, at + ext_bytes)
    except struct.error as error:
        raise RemoteProtocolError(f"binary header of {len(header)} bytes is cut short: {error}") from None
    name = LANGUAGES[language] if language < len(LANGUAGES) else None
    return Command(code, ext, body, opaque, flag, remark, version, name, SerializeType.ROCKETMQ)


def _decode_pairs(header: bytes, at: int, end: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    count = 0
    while at < end:
        count += 1
        check_count(count)
        (key_bytes,) = _SHORT.unpack_from(header, at)
        key = _text(header, at + 2, key_bytes, end, "field name")
        at += 2 + key_bytes
        (value_bytes,) = _INT.unpack_from(header, at)
        value = _text(header, at + 4, value_bytes, end, "field value")
        at += 4 + value_bytes
        # Of a repeated name the last counts, and an empty text is read as null, which we do not keep.
        if key and value:
            ext[key] = value
        else:
            ext.pop(key, None)
    return ext


def _text(header: bytes, at: int, size: int, end: int, what: str) -> str:
    if size < 0 or at + size > end:
        raise RemoteProtocolError(f"binary header: {what} of {size} bytes at byte {at}, {max(end - at, 0)} left")
    try:
        return header[at : at + size].decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"binary header: {what} at byte {at} is not UTF-8: {error}") from None


def encode(command: Command) -> bytes:
    """The header of `command`. Raises `LocalProtocolError` for what 16 bits cannot carry: POP codes, long names."""
    parts: list[bytes] = []
    for key, value in command.ext.items():
        name, text = key.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        if len(name) > _SHORT_MAX:
            raise LocalProtocolError(f"field name of {len(name)} bytes: a binary header carries at most {_SHORT_MAX}")
        parts += (_SHORT.pack(len(name)), name, _INT.pack(len(text)), text)
    ext = b"".join(parts)
    remark = command.remark.encode("utf-8", "replace") if command.remark else b""
    language = LANGUAGE_CODES.get(command.language or "", LANGUAGE_CODES["OTHER"])
    try:
        fixed = _FIXED.pack(command.code, language, command.version, command.opaque, command.flag, len(remark))
    except struct.error:
        problem = f"code {command.code} or version {command.version} does not fit a binary header (16 bits)"
        raise LocalProtocolError(f"{problem}: use JSON headers") from None
    return b"".join((fixed, remark, _INT.pack(len(ext)), ext))
