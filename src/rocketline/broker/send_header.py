"""Reading the header of a SEND_MESSAGE_V2 (310) for the hot path: only what it needs, and None for anything unusual.

With msgspec installed (extra `speed`) this is several times faster; both ways accept the same headers.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class SendHeader(NamedTuple):
    """The fields of a plain send, as the text that came."""

    opaque: int
    flag: int
    topic: str
    queue_id: str
    sys_flag: str
    born_ms: str
    message_flag: str
    properties: str
    reconsume_times: str


def read_plain(header: bytes) -> SendHeader | None:
    """The header's fields, by the standard library alone."""
    try:
        fields = json.loads(header)
        ext = fields["extFields"]
        opaque, flag, version = fields.get("opaque", 0), fields.get("flag", 0), fields.get("version", 0)
        required = [ext[name] for name in "abcdefgh"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    optional = [ext.get(name, "") for name in ("i", "j", "k", "l", "m", "n")]
    if not all(type(value) is int for value in (opaque, flag, version)) or not -(2**31) <= opaque < 2**31:
        return None
    if not all(type(value) is str for value in (*required, *optional)) or optional[4] not in ("", "false"):
        return None
    _, topic, _, _, queue_id, sys_flag, born_ms, message_flag = required
    return SendHeader(opaque, flag, topic, queue_id, sys_flag, born_ms, message_flag, optional[0], optional[1])


try:
    import msgspec
except ImportError:
    read = read_plain
else:

    class _Ext(msgspec.Struct, gc=False):
        a: str
        b: str
        c: str
        d: str
        e: str
        f: str
        g: str
        h: str
        i: str = ""
        j: str = ""
        k: str = ""
        l: str = ""  # noqa: E741  # the name on the wire
        m: str = ""
        n: str = ""

    class _Header(msgspec.Struct, gc=False):
        extFields: _Ext  # noqa: N815  # the name on the wire
        code: int = 0
        flag: int = 0
        opaque: int = 0
        version: int = 0

    _decode: Any = msgspec.json.Decoder(_Header).decode

    def read(header: bytes) -> SendHeader | None:
        """The header's fields."""
        try:
            h = _decode(header)
        except (msgspec.MsgspecError, RecursionError):
            return None
        x = h.extFields
        if x.m not in ("", "false") or not -(2**31) <= h.opaque < 2**31:
            return None
        return SendHeader(h.opaque, h.flag, x.b, x.e, x.f, x.g, x.h, x.i, x.j)
