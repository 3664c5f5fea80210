"""The JSON header, read leniently as Java does and written in Java's key order.

With msgspec installed (extra `speed`) the usual header is read several times faster. Whatever msgspec refuses, and
whatever is not plain ASCII, goes to the standard library, which decides: both ways give the same command or error.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Annotated, Any

from rocketline.errors import RemoteProtocolError
from rocketline.wire.codes import LANGUAGES, SerializeType
from rocketline.wire.command import Command
from rocketline.wire.header_bounds import check_count

_INT32 = 2**31
_is_integer = re.compile(r"[+-]?[0-9]{1,19}").fullmatch


def decode_plain(header: bytes, body: bytes) -> Command:
    """The command in a JSON header, by the standard library alone. Raises `RemoteProtocolError`."""
    try:
        fields = json.loads(header.decode(), strict=False, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"JSON header of {len(header)} bytes cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise RemoteProtocolError(f"JSON header is no object but {type(fields).__name__}")
    remark = fields.get("remark")
    return Command(
        _integer(fields, "code"),
        _ext_fields(fields.get("extFields")),
        body,
        _integer(fields, "opaque"),
        _integer(fields, "flag"),
        None if remark is None else _text(remark),
        _integer(fields, "version"),
        _language(fields.get("language", "JAVA")),
        SerializeType.JSON,
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _integer(fields: dict[str, Any], name: str) -> int:
    """A number, or text that holds one; a fraction is cut off and a boolean counts as 0 or 1, as Java reads them."""
    value = fields.get(name)
    if value is None:
        return 0
    try:
        number = int(value) if isinstance(value, int | float) or _is_integer(value) else None
    except (TypeError, OverflowError):
        number = None
    if number is None:
        raise RemoteProtocolError(f"JSON header: {name} is no integer: {str(value)[:80]!r}")
    if not -_INT32 <= number < _INT32:
        raise RemoteProtocolError(f"JSON header: {name} is out of the range of 32 bits")
    return number


def _ext_fields(fields: Any) -> dict[str, str]:
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise RemoteProtocolError(f"JSON header: extFields is no object but {type(fields).__name__}")
    check_count(len(fields))
    return {name: _text(value) for name, value in fields.items() if value is not None}


def _text(value: Any) -> str:
    """Fields are text; C++ clients send numbers among them, others booleans."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except RecursionError:  # what could just be read may be too deep to be written, a few calls further down
        raise RemoteProtocolError("JSON header: a field is nested too deeply") from None


def _language(value: Any) -> str | None:
    """A name, or the position in the list of languages; None for what does not exist."""
    if isinstance(value, int) and not isinstance(value, bool):
        return LANGUAGES[value] if 0 <= value < len(LANGUAGES) else None
    return value if value in LANGUAGES else None


try:
    import msgspec
except ImportError:
    decode = decode_plain
else:
    _Number = Annotated[int, msgspec.Meta(ge=-_INT32, lt=_INT32)]

    class _Header(msgspec.Struct, forbid_unknown_fields=True, gc=False):
        code: _Number = 0
        extFields: dict[str, str] | None = None  # noqa: N815  # the name on the wire
        flag: _Number = 0
        language: str = "JAVA"
        opaque: _Number = 0
        remark: str | None = None
        serializeTypeCurrentRPC: str = ""  # noqa: N815
        version: _Number = 0

    _decode_header = msgspec.json.Decoder(_Header).decode

    def decode(header: bytes, body: bytes) -> Command:
        """The command in a JSON header. Raises `RemoteProtocolError`."""
        if not header.isascii():
            return decode_plain(header, body)
        try:
            h = _decode_header(header)
        except (msgspec.MsgspecError, RecursionError):
            return decode_plain(header, body)
        language = h.language if h.language in LANGUAGES else None
        ext = h.extFields
        if ext is not None:
            check_count(len(ext))
        return Command(
            h.code,
            {} if ext is None else ext,
            body,
            h.opaque,
            h.flag,
            h.remark,
            h.version,
            language,
            SerializeType.JSON,
        )


def encode(command: Command) -> bytes:
    """The header of `command`: keys in alphabetical order, nothing that is null, no blanks.

    Half of a surrogate pair cannot be written as UTF-8; like Java we put a question mark in its place.
    """
    quote = encode_basestring
    pairs = ",".join([f"{quote(name)}:{quote(value)}" for name, value in command.ext.items()])
    ext = f'"extFields":{{{pairs}}},' if pairs else ""
    remark = f'"remark":{quote(command.remark)},' if command.remark is not None else ""
    return (
        f'{{"code":{command.code},{ext}"flag":{command.flag},"language":"{command.language or "OTHER"}",'
        f'"opaque":{command.opaque},{remark}"serializeTypeCurrentRPC":"JSON","version":{command.version}}}'
    ).encode("utf-8", "replace")
