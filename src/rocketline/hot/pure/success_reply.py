"""Writes answers that say nothing but success, many at once."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from rocketline.wire.codes import CURRENT_VERSION, ResponseCode
from rocketline.wire.command import RESPONSE_FLAG

_PREFIX: Final = struct.Struct(">II")
_HEADER: Final = (
    f'{{"code":{ResponseCode.SUCCESS},"flag":{RESPONSE_FLAG},"language":"PYTHON","opaque":%d,'
    f'"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
).encode()


def success_replies(opaques: Iterable[int]) -> bytes:
    """A frame for each."""
    frames = []
    for opaque in opaques:
        header = _HEADER % opaque
        size = len(header)
        frames.append(_PREFIX.pack(4 + size, size))
        frames.append(header)
    return b"".join(frames)
