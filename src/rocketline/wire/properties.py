"""A message's properties on the wire: `name 0x01 value 0x02`, again and again.

Some Java releases leave out the last 0x02; both endings are read, and ours is always written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import AnyStr

from rocketline.errors import LocalProtocolError

PROPERTIES_BYTES_MAX = 32767
"""Their length has 16 bits, and Java's are signed."""

NAME_END = "\x01"
VALUE_END = "\x02"


def parse_properties(text: str, *, keep_empty: bool = False) -> dict[str, str]:
    """The properties in `text`. Like Java we drop what has no name or no value, and the last of two equal names wins.

    Java drops empty values when it reads, and yet writes some: `keep_empty` keeps them, to write a record as it was.

    >>> parse_properties("TAGS\\x01a\\x02empty\\x01\\x02nonsense\\x02KEYS\\x01k=\\x01\\x02TAGS\\x01b")
    {'TAGS': 'b', 'KEYS': 'k=\\x01'}
    """
    pairs = [item.partition(NAME_END) for item in text.split(VALUE_END)]
    return {name: value for name, mark, value in pairs if name and (value or (keep_empty and mark))}


def format_properties(properties: Mapping[str, str]) -> str:
    """The text of `properties`. Raises `LocalProtocolError` for what no reader could tell apart."""
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    # One mark of each kind a property, and nobody can have put one in a name or value. More: look closer.
    if not text.count(NAME_END) == text.count(VALUE_END) == len(properties) or "" in properties:
        _check_marks(properties)
    return text


def _check_marks(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if not name or NAME_END in name or VALUE_END in name or VALUE_END in value:
            raise LocalProtocolError(
                f"property {name!r} = {value!r}: a name may be neither empty nor hold the characters 1 and 2, "
                "and a value may not hold the character 2"
            )


def decode_properties(data: bytes | memoryview, *, keep_empty: bool = False) -> dict[str, str]:
    """The properties in `data`. Bytes that are no UTF-8 become U+FFFD: one odd message must not block a queue."""
    return parse_properties(str(data, "utf-8", "replace"), keep_empty=keep_empty)


def stored_value(properties: AnyStr, name: AnyStr, value_end: AnyStr) -> AnyStr:
    """The value of one property, as text or as bytes; empty if it is missing. For whoever needs few of many.

    `name` ends with `NAME_END`, and `value_end` is `VALUE_END`, in the same form.

    >>> stored_value(b"MY_TAGS\\x01no\\x02TAGS\\x01a\\x02", b"TAGS\\x01", b"\\x02")
    b'a'
    """
    at = properties.find(name)
    while at > 0 and properties[at - 1 : at] != value_end:  # the end of a longer name
        at = properties.find(name, at + 1)
    if at < 0:
        return properties[:0]
    begin = at + len(name)
    end = properties.find(value_end, begin)
    return properties[begin:] if end < 0 else properties[begin:end]


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The bytes of `properties`. Raises `LocalProtocolError` also if they are too many."""
    data = format_properties(properties).encode("utf-8", "replace")
    if len(data) > PROPERTIES_BYTES_MAX:
        raise LocalProtocolError(f"properties of {len(data)} bytes: a message carries at most {PROPERTIES_BYTES_MAX}")
    return data
