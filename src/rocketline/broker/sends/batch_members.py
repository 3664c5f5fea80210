"""The messages of a producer's batch: which of them need a closer look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rocketline.errors import RemoteProtocolError
from rocketline.model import property_names
from rocketline.store.log.record_scan import SECTOR_BYTES
from rocketline.wire.batch import BatchEntry, split_some
from rocketline.wire.properties import VALUE_END

MEMBERS_AT_ONCE: Final = 2000
"""So many messages are stored in one go; it takes some ten milliseconds. A larger batch is stored in pieces."""
NOT_IN_A_BATCH: Final = (property_names.DELAY, property_names.TRAN_MSG, *property_names.TIMERS)
"""A message with one of these is sent by itself."""
_SPECIAL_NAMES: Final = tuple(
    name.encode() for name in (property_names.DELAY, property_names.TRAN_MSG, "TIMER_DEL", property_names.INNER_NUM)
)
"""Or how their names begin."""
_VALUE_END: Final = VALUE_END.encode()
_ENDS: Final = frozenset({_VALUE_END, b""})


def may_be_special(properties: bytes) -> bool:
    """A name of which a batch's message has to be told is in there, maybe as part of something else."""
    return any(name in properties for name in _SPECIAL_NAMES)


def ended(properties: bytes) -> bytes:
    """Properties as they are stored: the broker adds to them. Java's client leaves out the last end."""
    return properties if properties[-1:] in _ENDS else properties + _VALUE_END


def stored_as_they_came(members: Sequence[BatchEntry]) -> Sequence[BatchEntry] | None:
    """The members, their properties ended; None if one of them needs a closer look."""
    every = [properties for _, _, properties in members]
    if may_be_special(b"".join(every)):
        return None
    if {properties[-1:] for properties in every} <= _ENDS:
        return members
    return [(flag, body, ended(properties)) for flag, body, properties in members]


def plain_members(body: bytes) -> Sequence[BatchEntry] | None:
    """The messages in a batch's body; None unless all is as usual, and they are not too many for one go."""
    try:
        members, end = split_some(body, 0, MEMBERS_AT_ONCE)
    except RemoteProtocolError:
        return None
    if end < len(body):
        return None
    plain = stored_as_they_came(members)
    return plain if plain and max([len(properties) for _, _, properties in plain]) < SECTOR_BYTES else None
