"""What a message can be found by: read from its properties, one by one or, with numpy, for many messages at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from rocketline.model import property_names
from rocketline.store.index import key_hashes
from rocketline.wire.properties import NAME_END, VALUE_END, stored_value

IndexKeys: TypeAlias = "tuple[str | None, str | None, str | None]"
"""Unique key, keys parted by blanks, tag. None or empty: it has none."""
Indexed: TypeAlias = "IndexKeys | bytes"
"""The keys, or the properties that have them, as they are stored: to be looked at when there are many."""
Weighed: TypeAlias = "tuple[Any, Any] | None"
"""The hash of each message's key by itself, and its length; None if no message has one."""

_WANTED: Final = (property_names.UNIQ_KEY, property_names.KEYS, property_names.TAGS)
_UNIQ_KEY, _KEYS, _TAGS = (f"{name}{NAME_END}" for name in _WANTED)
_NAME_END, _VALUE_END = ord(NAME_END), ord(VALUE_END)
_CHARACTERS: Final = 16
"""So many characters of a long key take as long as a short key."""
_KEPT_BYTES_MAX: Final = 1024
"""Longer properties do not wait in memory."""


def index_keys(properties: Mapping[str, str]) -> IndexKeys:
    get = properties.get
    return get(property_names.UNIQ_KEY), get(property_names.KEYS), get(property_names.TAGS)


def keys_in(properties: bytes) -> IndexKeys:
    """The same of properties as they are stored. Every message that is looked at by itself comes by."""
    text = str(properties, "utf-8", "replace")  # once, and not for each value
    return (
        stored_value(text, _UNIQ_KEY, VALUE_END),
        stored_value(text, _KEYS, VALUE_END),
        stored_value(text, _TAGS, VALUE_END),
    )


def indexed(properties: bytes) -> Indexed:
    return properties if len(properties) <= _KEPT_BYTES_MAX else keys_in(properties)


def effort(indexed: Sequence[Indexed]) -> int:
    """How much work the keys of these messages are at most: about one for each key, and for every few characters.

    >>> effort([b"KEYS\x01a b c\x02"]), effort([(None, "k " * 100, None)])
    (2, 112)
    """
    # Every message that is stored comes by here, so all of a call are counted at once: nearly always they are alike.
    try:
        if type(indexed[0]) is bytes:
            stored = b"".join(indexed)  # type: ignore[arg-type]
            return stored.count(b" ") + len(stored) // _CHARACTERS
        texts = "".join([text for keys in indexed for text in keys if text])  # type: ignore[misc]
    except TypeError:
        return sum(effort([found]) for found in indexed)
    return texts.count(" ") + len(texts) // _CHARACTERS


def pieces(found: Indexed, keys_max: int) -> list[Indexed]:
    """The keys of one message, in parts of so many.

    >>> pieces((None, "a b c d", "tag"), 2)
    [(None, 'a b', 'tag'), (None, 'c d', None)]
    """
    if effort([found]) <= keys_max:
        return [found]
    unique_key, more_keys, tag = keys_in(found) if isinstance(found, bytes) else found
    keys = (more_keys or "").split(" ")
    parts = [" ".join(keys[at : at + keys_max]) for at in range(0, len(keys), keys_max)]
    return [(unique_key, parts[0], tag), *((None, part, None) for part in parts[1:])]


def weigh_stored(stored: Sequence[bytes]) -> tuple[Weighed, Weighed, Weighed] | None:
    """With numpy: unique keys, keys and tags of messages whose properties have the same names in the same order.

    None if they have not, as those of one producer mostly have, or if a key is unusual: empty, not ASCII, several.

    All properties are one run of bytes, and every mark in it, those behind names and those behind values, is an entry
    of a table: a row for a message, a column for each of its names and values in turn (name 0, value 0, name 1, …).
    `marks` says where each of these ends, `begins` where it begins, `widths` how long it is. If the marks alternate,
    each row ends where its message does, and the names of all rows are those of the first, then the columns of a name
    hold that name's values, and nothing need be looked for.
    """
    np: Any = key_hashes.np
    joined, count = b"".join(stored), stored[0].count(_VALUE_END)
    characters = np.frombuffer(joined, np.uint8)
    marks = np.flatnonzero(characters <= _VALUE_END)
    if not count or not joined.isascii() or len(marks) != 2 * count * len(stored):
        return None
    marks = marks.reshape(-1, 2 * count)
    lengths = np.fromiter(map(len, stored), np.int64, len(stored))
    ends = lengths.cumsum()
    begins = np.empty_like(marks)
    begins[:, 0], begins[:, 1:] = ends - lengths, marks[:, :-1] + 1
    is_shaped = (characters[marks] == [_NAME_END, _VALUE_END] * count).all() and (marks[:, -1] == ends - 1).all()
    names = [joined[begin:end] for begin, end in zip(begins[0, ::2], marks[0, ::2], strict=True)]
    if not is_shaped or len(set(names)) < count:
        return None
    widths = marks - begins
    for at, name in enumerate(names):
        if (widths[:, 2 * at] != len(name)).any() or (
            characters[begins[:, 2 * at, None] + np.arange(len(name))] != np.frombuffer(name, np.uint8)
        ).any():
            return None
    weighed = list[Weighed]()
    for wanted in _WANTED:
        if (name := wanted.encode()) not in names:
            weighed.append(None)
            continue
        value = 2 * names.index(name) + 1
        may_have_blanks = wanted != property_names.KEYS
        found = key_hashes.weigh_spans(characters, begins[:, value], widths[:, value], may_have_blanks=may_have_blanks)
        if found is None:
            return None
        weighed.append(found)
    unique_keys, keys, tags = weighed
    return unique_keys, keys, tags
