"""What a store tells those who use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rocketline.store.queues.queue_table import Queue

Arrivals: TypeAlias = "Mapping[Queue, list[int]]"
"""Queues that got messages, and the tags codes of these."""


def _nothing() -> None:
    return


def _never() -> bool:
    return False


def _nobody(arrivals: Arrivals) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHooks:
    """Given as one value, by `MessageStore.connect`, so that one place says who hears what.

    But for `settle`, and for `is_needed`, which is asked, each is called in the midst of an append or a dispatch: it
    may note something, or have it done in a later turn of the loop, and never appends, answers or raises.
    """

    settle: Callable[[], None] = _nothing
    """Close the batch that is open, if one is: called before the next one is begun and before the store closes."""
    on_written: Callable[[], None] = _nothing
    """Records were written that wait for their flush (SYNC_FLUSH)."""
    on_arrival: Callable[[Arrivals], None] = _nobody
    """Records were dispatched: they can be read."""
    on_low: Callable[[], object] = _nothing
    """Disk space for the log should be made ahead."""
    on_behind: Callable[[], object] = _nothing
    """The index has fallen behind."""
    on_broken: Callable[[], object] | None = None
    """Queues must be derived anew, and have it done behind the running broker. None: they are, where that is found."""
    is_needed: Callable[[], bool] = _never
    """Whether messages of any age are still to be delivered elsewhere: no file goes for its age meanwhile."""
