"""What is deleted, and when: old files at their hour, any file when the disk runs full. Java: CleanCommitLogService."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from rocketline.store.config import StoreConfig

_MANUAL_ROUNDS: Final = 20
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Decision:
    """What one look at the disk leads to."""

    is_disk_full: bool
    """No message is taken until there is room again."""
    deletes_expired: bool
    deletes_any: bool
    """Even files that should be kept for longer."""


UNMEASURED: Final = Decision(is_disk_full=False, deletes_expired=True, deletes_any=False)
"""For a disk that does not say how full it is."""


class Retention:
    """Decides; the store carries it out."""

    def __init__(self) -> None:
        self._manual_rounds = 0

    def delete_soon(self) -> None:
        """An administrator asks for the deletion of what has expired, whatever the hour."""
        self._manual_rounds = _MANUAL_ROUNDS

    def decide(self, config: StoreConfig, *, log_ratio: float, queue_ratio: float, now_ms: int) -> Decision:
        """`log_ratio` and `queue_ratio` are the used shares of the two disks, which may be one."""
        percent = round(max(log_ratio, queue_ratio) * 100)
        is_full = percent > config.disk_warning_percent
        is_forced = is_full or percent > config.disk_clean_forcibly_percent
        is_due = is_hour(config.delete_when, now_ms) or percent > config.disk_max_used_percent
        if self._manual_rounds:
            self._manual_rounds -= 1
            is_due = True
        return Decision(
            is_disk_full=is_full,
            deletes_expired=is_due or is_forced,
            deletes_any=is_forced and config.clean_file_forcibly_enable,
        )


def is_hour(delete_when: str, now_ms: int) -> bool:
    """Whether the local hour is one of `delete_when`, like `04;16`."""
    hour = time.localtime(now_ms / 1000).tm_hour
    return any(word.strip().isdecimal() and int(word) == hour for word in delete_when.split(";"))


def is_expired(modified_ms: int, config: StoreConfig, now_ms: int) -> bool:
    """A file that was last changed then has been kept for long enough."""
    return modified_ms + config.file_reserved_time * _HOUR_MS <= now_ms
