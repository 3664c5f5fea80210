"""How many fields a header may have, in either encoding: real ones have forty at most, and each costs a microsecond."""

from __future__ import annotations

from typing import Final

from rocketline.errors import RemoteProtocolError

FIELDS_MAX: Final = 4096
UNCOUNTED_BYTES_MAX: Final = FIELDS_MAX * len('"k":1,')
"""A JSON header of so many bytes has no more fields than that: nobody needs to count them."""


def check_count(fields: int) -> None:
    """Raises `RemoteProtocolError` if there are too many."""
    if fields > FIELDS_MAX:
        raise RemoteProtocolError(f"a header with {fields} fields and more: at most {FIELDS_MAX} are read")
