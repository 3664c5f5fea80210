"""Reads what of a message's properties the hot path and the index want, from their text as it came."""

from __future__ import annotations

import re
from typing import Final

from rocketline.model import property_names
from rocketline.wire.properties import NAME_END, VALUE_END

_KEPT_MAX: Final = 10_000
_KEPT_NAMES_MAX: Final = 1024
_SPECIAL: Final = frozenset({
    property_names.DELAY, *property_names.TIMERS, property_names.TRAN_MSG, property_names.POP_CK, property_names.CRC32,
    property_names.MSG_REGION, property_names.TRACE_ON, property_names.CLUSTER, property_names.INNER_NUM,
})  # fmt: skip
"""With one of these a message takes the ordinary way."""


def read_properties(text: str) -> tuple[str, tuple[str, str | None, str | None]] | None:
    """The text, ended as it should be, and unique key, keys and tag; None unless all is as usual."""
    if not text.endswith(VALUE_END):
        text += VALUE_END
    if not _is_usual(text):
        return None
    parts = text.replace(VALUE_END, NAME_END).split(NAME_END)
    shape = _SHAPES[tuple(parts[:-1:2])]
    if shape is None:
        return None
    values = [*parts[1::2], None]  # the last stands for every property that this message does not have
    unique_at, keys_at, tags_at, wait_at = shape
    unique_key = values[unique_at]
    if unique_key is None or not unique_key.isascii() or values[wait_at] not in ("true", None):
        return None
    return text, (unique_key, values[keys_at], values[tags_at])


_is_usual: Final = re.compile(f"(?:[^{NAME_END}{VALUE_END}]+{NAME_END}[^{NAME_END}{VALUE_END}]+{VALUE_END})+").fullmatch
"""Names and values in turn, none of them empty."""


class _Shapes(dict[tuple[str, ...], "tuple[int, int, int, int] | None"]):
    """By the names of a message's properties: where the unique key, the keys, the tag and the wish to wait are."""

    def __missing__(self, names: tuple[str, ...]) -> tuple[int, int, int, int] | None:
        shape = None
        if len(set(names)) == len(names) and _SPECIAL.isdisjoint(names):
            at = {name: number for number, name in enumerate(names)}
            wanted = property_names.UNIQ_KEY, property_names.KEYS, property_names.TAGS, property_names.WAIT
            unique_at, keys_at, tags_at, wait_at = (at.get(name, -1) for name in wanted)
            shape = unique_at, keys_at, tags_at, wait_at
        if len(self) >= _KEPT_MAX:
            self.clear()
        if sum(map(len, names)) <= _KEPT_NAMES_MAX:
            self[names] = shape
        return shape


_SHAPES: Final = _Shapes()
