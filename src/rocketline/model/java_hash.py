"""Java's `String.hashCode`: brokers filter tags by it, and index files find keys by it."""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """The signed 32-bit hash that Java's `String.hashCode` gives `text`: 31-fold sums over its UTF-16 units.

    >>> java_string_hash("TagA"), java_string_hash("polygenelubricants")
    (2598919, -2147483648)
    """
    hashed = 0
    if text.isascii():
        for unit in text.encode():
            hashed = (31 * hashed + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2):
            hashed = (31 * hashed + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return hashed - 0x100000000 if hashed >= 0x80000000 else hashed


def tags_code(tag: str | None) -> int:
    """The number that a queue's entry holds for a message's tag. Zero: no tag. Java: tagsString2tagsCode."""
    return java_string_hash(tag) if tag else 0
