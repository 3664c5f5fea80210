"""The messages of a producer's batch: which of them need a closer look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rocketline.errors import RemoteProtocolError
from rocketline.model import property_names
from rocketline.store.batch_consume_queue import BATCH_MESSAGES_MAX
from rocketline.store.record_scan import SECTOR_BYTES
from rocketline.wire.batch import BatchEntry, split_batch
from rocketline.wire.properties import VALUE_END

NOT_IN_A_BATCH: Final = (property_names.DELAY, property_names.TRAN_MSG)
"""A message with one of these is sent by itself."""
_SPECIAL_NAMES: Final = tuple(name.encode() for name in (*NOT_IN_A_BATCH, property_names.INNER_NUM))
_PLAIN_ENDS: Final = frozenset({VALUE_END.encode(), b""})


def may_be_special(properties: bytes) -> bool:
    """A name of which a batch's message has to be told is in there, maybe as part of something else."""
    return any(name in properties for name in _SPECIAL_NAMES)


def are_plain(members: Sequence[BatchEntry]) -> bool:
    """They can be stored as they came."""
    every = [properties for _, _, properties in members]
    return {one[-1:] for one in every} <= _PLAIN_ENDS and not may_be_special(b"".join(every))


def plain_members(body: bytes) -> list[BatchEntry] | None:
    """The messages in a batch's body; None unless all is as usual."""
    try:
        members = split_batch(body, BATCH_MESSAGES_MAX + 1)
    except RemoteProtocolError:
        return None
    if len(members) > BATCH_MESSAGES_MAX or not are_plain(members):
        return None
    return members if max([len(properties) for _, _, properties in members]) < SECTOR_BYTES else None
