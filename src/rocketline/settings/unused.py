"""Settings that Apache's server knows and ours has no use for: listed, so that an existing file loads as it is.

They are rows of a table, in Apache's own spelling: no code reads them. The table is a file of TOML, with the reasons:

    [CoffeeMachine]  # whatever may be said of it
    help = "Accepted for Apache's sake and without effect: there is no coffee machine."
    [CoffeeMachine.defaults]
    coffeeCups = 2
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rocketline.record import record
from rocketline.settings.declared import setting

T = TypeVar("T")

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


def unused(table: Path) -> Callable[[type[T]], type[T]]:
    """Make each key of the table a setting of the class; what else the table says of its keys is told in `setting`."""

    def declare(cls: type[T]) -> type[T]:
        for rules in tomllib.loads(table.read_text("utf-8")).values():
            for key, default in rules.pop("defaults").items():
                cls.__annotations__[key] = type(default)
                setattr(cls, key, setting(default, key=key, low=_LONG_MIN, high=_LONG_MAX, effect=False, **rules))
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
