"""References of the dialect: `{"$ref":"$.a.b[0]"}` stands for the value at that place of the same document."""

from __future__ import annotations

import re
from typing import Any

from rocketline.errors import RemoteProtocolError
from rocketline.wire.fastjson.parser import DEPTH_MAX, Pairs

_STEP = re.compile(
    r"""
    \. ((?: [^.\[\\] | \\. )++ )                          # .name, special characters behind a backslash
    | \[ (-?\d{1,18}) \]                                   # [0]: of a list, or of a map with integer keys
    | \[ (?: " ((?: [^"\\] | \\. )*+) " | ' ((?: [^'\\] | \\. )*+) ' ) \]
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def resolve(document: Any, *, values_max: int) -> Any:
    """A copy of `document` with a copy of its target in the place of each reference.

    The copy is a tree. A reference to something around it (`..`, `@` and `$` are always that) or to nothing at all
    becomes None. As references to references multiply, a copy of more than `values_max` values is refused with
    `RemoteProtocolError`; each character of a path that is followed counts like a value.

    >>> resolve({"a": [{"x": 1}], "b": {"$ref": "$.a[0]"}, "c": {"$ref": ".."}}, values_max=100)
    {'a': [{'x': 1}], 'b': {'x': 1}, 'c': None}
    """
    return _Copy(document, values_max).of(document)


class _Copy:
    __slots__ = ("_document", "_open", "_values_left", "_values_max")

    def __init__(self, document: Any, values_max: int) -> None:
        self._document = document
        self._values_max = self._values_left = values_max
        self._open: set[int] = set()
        """The ids of the containers that are being copied, all still alive in the document."""

    def of(self, value: Any) -> Any:
        self._count(1)
        if not isinstance(value, dict | list | Pairs):
            return value
        if id(value) in self._open:
            return None
        if len(self._open) > DEPTH_MAX:
            raise RemoteProtocolError(f"references in a JSON body lead deeper than {DEPTH_MAX} levels")
        self._open.add(id(value))
        copy = self._of_container(value)
        self._open.remove(id(value))
        return copy

    def _count(self, values: int) -> None:
        self._values_left -= values
        if self._values_left < 0:
            raise RemoteProtocolError(f"references in a JSON body lead to more than {self._values_max} values")

    def _of_container(self, value: dict[str, Any] | list[Any] | Pairs) -> Any:
        if isinstance(value, list):
            return [self.of(entry) for entry in value]
        if isinstance(value, Pairs):
            return _without_odd_keys([(self.of(key), self.of(entry)) for key, entry in value.items])
        path = value.get("$ref") if len(value) == 1 else None
        if isinstance(path, str) and (path[:1] == "$" or path in ("..", "@")):
            self._count(len(path))
            return self.of(_find(self._document, path))
        return {key: self.of(entry) for key, entry in value.items()}


def _without_odd_keys(items: list[tuple[Any, Any]]) -> Pairs | dict[str, Any]:
    """The entries whose key was found; a plain object again if no key is an object any more."""
    known = [item for item in items if item[0] is not None]
    return Pairs(known) if any(not isinstance(key, str) for key, _ in known) else dict(known)


def _find(value: Any, path: str) -> Any:
    """What `path` leads to from the document `value`, or None."""
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        value = _take(value, step)
        at = step.end()
    return value if path[:1] == "$" else None


def _take(value: Any, step: re.Match[str]) -> Any:
    name, index, *quoted = step.groups()
    if isinstance(value, list):
        return value[int(index)] if index and 0 <= int(index) < len(value) else None
    if not isinstance(value, dict):
        return None
    return value.get(index or _ESCAPE.sub(r"\1", name or quoted[0] or quoted[1] or ""))
