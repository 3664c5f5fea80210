"""What a look at a store has found: damage, and notes on what is unusual without being wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

FINDINGS_MAX: Final = 10_000
"""Kept of one look; the others are counted."""


def counted(count: int, noun: str) -> str:
    """So many of them.

    >>> counted(1, "unit"), counted(3, "unit")
    ('1 unit', '3 units')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Kind(Enum):
    """What it is that was found."""

    LOG_FILE = "log file"
    """A file of the log is missing, misplaced or has another length."""
    RECORD = "record"
    """Bytes of the log are no record."""
    TAIL = "tail"
    """Bytes behind the last record of the log."""
    LOG_SHORT = "log too short"
    """Queues, checkpoint or index know of a longer log."""
    OFFSET = "queue offset"
    """Queue offsets do not follow on each other: some are missing, or some are there twice."""
    STORE_TIME = "store time"
    QUEUE_FILE = "queue file"
    UNIT = "unit"
    """A queue's unit does not point at its own record, or is missing."""
    INDEX = "index"
    TABLE = "table"
    CHECKPOINT = "checkpoint"
    TIMER = "timers"
    """Timer log, wheel and their checkpoint do not agree."""
    TOPIC = "topic"
    """Messages of a topic that does not exist."""
    UNCLEAN = "not stopped cleanly"


REPAIR: Final = "rocketline store repair"
RESTORE: Final = f"put a copy of it back if you have one, else: {REPAIR}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing, where it is, and what to do about it."""

    kind: Kind
    path: Path
    problem: str
    remedy: str = ""
    position: int | None = None
    """In the file; of the log, in the whole log."""
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    count: int = 1
    """Records, units, entries or files that it is about."""
    is_damage: bool = True


@dataclass(slots=True)
class Findings:
    """All of them, as far as they are kept."""

    kept: list[Finding] = field(default_factory=list)
    left_out: int = 0
    damage: Counter[Kind] = field(default_factory=Counter)
    notes: Counter[Kind] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        (self.damage if finding.is_damage else self.notes)[finding.kind] += 1
        if len(self.kept) < FINDINGS_MAX:
            self.kept.append(finding)
        else:
            self.left_out += 1

    @property
    def is_clean(self) -> bool:
        return not self.damage
