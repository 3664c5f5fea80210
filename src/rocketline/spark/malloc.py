"""Memory that a worker frees and soon needs again should stay with it.

Decoding takes and frees some megabytes for every batch. The C library hands such amounts back to the system at once,
and taking them anew costs a page fault for every 4 KiB: a third of the whole time. How much it keeps follows the
largest block that it ever gave back (up to 32 MiB, in glibc), so one such block, never touched, tells it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_BLOCK_BYTES: Final = 32 * 2**20 - 64 * 2**10


@cache
def keep_freed_memory() -> None:
    """Tell the C library, once in a process. Elsewhere than in glibc it does nothing."""
    bytearray(_BLOCK_BYTES)
