"""`Command`: one request or response, between bytes and meaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketline.wire.codes import CURRENT_VERSION, SerializeType

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2


@dataclass(slots=True)
class Command:
    """One frame's content. `code` is a request code or, with the response flag, a response code.

    Not frozen, because one is made for every frame; by habit nobody changes a command that has been handed on.
    """

    code: int
    ext: dict[str, str] = field(default_factory=dict)
    """The header's extension fields. On the wire they are text, whatever their meaning."""
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    version: int = CURRENT_VERSION
    language: str | None = "PYTHON"
    """None: the peer named a language that does not exist."""
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


def response(code: int, remark: str | None = None, *, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
    """An answer; whoever sends it fills in the request's opaque."""
    return Command(code, ext or {}, body, flag=RESPONSE_FLAG, remark=remark)
