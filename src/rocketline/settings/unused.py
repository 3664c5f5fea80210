"""Settings that Apache's server knows and ours has no use for: listed, so that an existing file loads as it is.

They are declared as a table, one line each, in Apache's own spelling: no code reads them.

>>> @unused(help="Accepted for Apache's sake and without effect: there is no coffee machine.")
... class Coffee:
...     coffeeCups: int = 2
>>> Coffee().coffeeCups
2
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import TypeVar, dataclass_transform

from rocketline.record import record
from rocketline.settings.declared import setting

T = TypeVar("T")

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


@dataclass_transform(frozen_default=True, kw_only_default=True)
def unused(*, help: str, only_default: str = "", own: bool = False) -> Callable[[type[T]], type[T]]:
    """Make each attribute of a class a setting of that name, all with the same rules. See `setting` for these."""

    def declare(cls: type[T]) -> type[T]:
        for name in cls.__annotations__:
            default = getattr(cls, name)
            if not isinstance(default, dataclasses.Field):
                field = setting(
                    default, key=name, help=help, low=_LONG_MIN, high=_LONG_MAX, own=own, only_default=only_default,
                    effect=False,
                )  # fmt: skip
                setattr(cls, name, field)
        return record(kw_only=True, slots=False)(cls)

    return declare


def threads(key: str, count: Callable[[int], int], shown: str) -> int:
    """The size of one of Java's thread pools, counted from the machine's cores."""
    return setting(
        factory=lambda: count(os.cpu_count() or 1),
        key=key,
        help="Accepted for Apache's sake and without effect: requests wait in no thread pool.",
        effect=False,
        shown_default=shown,
    )
