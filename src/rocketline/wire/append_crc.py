"""The check sum over a whole record, which a broker may append to the record's properties (`enabledAppendPropCRC`).

It is the property `__CRC32#`, always last and always 20 bytes long: ten decimal digits, the least significant first.
"""

from __future__ import annotations

import zlib

from rocketline.model.property_names import CRC32
from rocketline.wire.properties import NAME_END, VALUE_END

APPEND_CRC_BYTES = 20


def format_append_crc(crc: int) -> bytes:
    """The property that carries `crc`.

    >>> format_append_crc(1234)
    b'__CRC32#\\x014321000000\\x02'
    """
    digits = f"{crc:010}"[::-1]
    return f"{CRC32}{NAME_END}{digits}{VALUE_END}".encode()


def has_valid_append_crc(record: bytes) -> bool:
    """The record ends in that property, and it agrees with all bytes before it."""
    summed = zlib.crc32(record[:-APPEND_CRC_BYTES]) & 0x7FFFFFFF
    return record.endswith(format_append_crc(summed))
