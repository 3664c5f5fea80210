"""The ids that clients give to their messages (UNIQ_KEY). Java: MessageClientIDSetter.

    IP address (4 or 16) | process id, low half (2) | a number of the process (4) | ms in this month (4) | counter (2)

All in hexadecimal: 32 characters, or 56 on a machine with an IPv6 address. Other clients fill the parts in their own
way, and applications may set any text: use an id as text, and take it apart only to show it to people.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from datetime import datetime, tzinfo

from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError
from rocketline.model.ids import parse_hex_id

_AFTER_IP = struct.Struct(">HIIH")
_STEP_BACK_MS = 1_000_000
"""A clock that goes back by less than this repeats times that ids have; until it has caught up, they keep the last."""
BLOCK_IDS = 0x10000
"""So many ids differ in nothing but their last four characters."""


class UniqueIdGenerator:
    """Makes ids that differ from all others of this process, and very likely of the world.

    `process_number` is any number that tells two generators of one process apart; Java has the hash of its class
    loader. `zone` is the machine's own unless given: an id counts from the first of the month, local time.
    """

    __slots__ = ("_clock", "_counter", "_month_ms", "_prefix", "_stem", "_zone")

    def __init__(self, ip: bytes, pid: int, process_number: int, clock: Clock, zone: tzinfo | None = None) -> None:
        if len(ip) not in (4, 16):
            raise LocalProtocolError(f"an IP address has 4 or 16 bytes, not {len(ip)}")
        self._prefix = f"{ip.hex()}{pid & 0xFFFF:04x}{process_number & 0xFFFFFFFF:08x}".upper()
        self._clock = clock
        self._zone = zone
        self._counter = itertools.count()
        self._month_ms = (0, 0)
        self._stem = (-1, "")

    def make(self) -> str:
        """The next id. May be called from any thread."""
        count, now_ms, stem = next(self._counter), self._clock.wall_ms(), self._stem
        if now_ms > stem[0] or now_ms < stem[0] - _STEP_BACK_MS:
            stem = self._stem = self._new_stem(now_ms)
        elif not count & 0xFFFF:
            # All counts of this time are used up, because the clock stands still or went back: time goes on here.
            stem = self._stem = self._new_stem(stem[0] + 1)
        return f"{stem[1]}{count & 0xFFFF:04X}"

    def make_block(self) -> str:
        """The beginning that `BLOCK_IDS` ids share, no other of this generator: each ends in four more digits.

        For whoever makes thousands at a time. One thread at a time may call it, and none may call `make` meanwhile.
        """
        time_ms, stem = self._new_stem(max(self._clock.wall_ms(), self._stem[0] + 1))
        self._stem = self._new_stem(time_ms + 1)
        return stem

    def _new_stem(self, now_ms: int) -> tuple[int, str]:
        """All but the count of the ids of one millisecond, and which one that is."""
        start_ms, end_ms = self._month_ms
        if not start_ms <= now_ms < end_ms:
            start_ms, _ = self._month_ms = month_span_ms(now_ms, self._zone)
        return now_ms, f"{self._prefix}{now_ms - start_ms:08X}"


def month_span_ms(wall_ms: int, zone: tzinfo | None = None) -> tuple[int, int]:
    """The first millisecond of the month that `wall_ms` lies in, and of the next month, by the calendar of `zone`."""
    now = datetime.fromtimestamp(wall_ms // 1000, zone)
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return int(start.timestamp()) * 1000, int(end.timestamp()) * 1000


@dataclass(frozen=True, slots=True)
class UniqueIdParts:
    """What an id says, if its maker filled it as Java does."""

    ip: bytes
    pid: int
    process_number: int
    month_ms: int
    """Milliseconds since the start of a month that the id does not name."""
    counter: int

    @classmethod
    def parse(cls, unique_id: str) -> UniqueIdParts:
        """Raises `RemoteProtocolError` unless the id is 32 or 56 hexadecimal digits of either case."""
        packed = parse_hex_id(unique_id)
        return cls(packed[: -_AFTER_IP.size], *_AFTER_IP.unpack(packed[-_AFTER_IP.size :]))
