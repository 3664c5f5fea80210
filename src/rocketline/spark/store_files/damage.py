"""Parts of a store that cannot be read: an error, or a warning with `failOnDataLoss=false`."""

from __future__ import annotations

from rocketline.errors import CorruptStoreError
from rocketline.logs import Log

_log = Log(__name__)


def damage(path: str, problem: str) -> CorruptStoreError:
    """What cannot be read of a file, and why."""
    return CorruptStoreError(path, f"{problem}. Set failOnDataLoss=false to read what is whole")


def report(found: CorruptStoreError, *, fails: bool) -> None:
    """Raise it, or log it and let the caller go on."""
    if fails:
        raise found
    _log.warning("a part of the store cannot be read", problem=found)
