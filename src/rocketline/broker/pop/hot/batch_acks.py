"""The fast twin of the handler of acknowledgements in one go: it reads the usual request, and has them noted by that.

A request that is written otherwise than clients do, or says something odd, is left to the handler as a whole.
"""

from __future__ import annotations

from typing import Final

from rocketline.broker.pop.acks import ACKS_A_STEP, AckHandlers
from rocketline.broker.pop.checks import MESSAGES_MAX
from rocketline.broker.pop.hot.acks import answers
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.storing.admission import Admission
from rocketline.hot import HotPeer
from rocketline.hot.pure.batch_ack_request import AckEntry, BatchAcks, bit_set, parse_batch_ack
from rocketline.store.message_store import MessageStore
from rocketline.wire.bodies.pop import BatchAck

_INT32: Final = range(2**31)
_INT64: Final = range(2**62)
"""Times and offsets: two of them together fit their field, too."""
_KINDS: Final = ("0", "1", "2")


class BatchAckPath:
    """Takes BATCH_ACK_MESSAGE (200151) with JSON headers, for servers that write these: one in each call."""

    def __init__(self, handlers: AckHandlers, store: MessageStore, revive: ReviveTopic, admission: Admission) -> None:
        self._handlers, self._store, self._revive, self._admission = handlers, store, revive, admission

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """Note what the request at `start` says, if it is a plain one. See `HotPath`."""
        if self._admission.is_ack_late(peer.read_s) or not self._store.is_writable:
            return start, b"", 0  # the ordinary way tells why not
        parsed = parse_batch_ack(data, start)
        batches = _batches(parsed[2]) if parsed is not None else None
        if parsed is None or batches is None:
            return start, b"", 0
        end, opaque, body = parsed
        try:
            problem = self._handlers.note_all(batches, body.brokerName)
        except OSError:  # a queue cannot be read: the handler will meet it too, and has somebody to tell
            return start, b"", 0
        if problem is not None or not self._store.is_sync:
            return end, answers([opaque], problem), 0
        self._revive.wait(lambda problem: peer.reply_bytes(answers([opaque], problem), 1))
        return end, b"", 1


def _batches(body: BatchAcks) -> list[BatchAck] | None:
    """What the handler would make of it; None if it would refuse anything, or there is a lot to do."""
    if not 0 < len(body.acks) <= ACKS_A_STEP:
        return None
    batches = [_batch(entry) for entry in body.acks]
    usual = [batch for batch in batches if batch is not None]
    return usual if len(usual) == len(batches) else None


def _batch(said: AckEntry) -> BatchAck | None:
    bits = bit_set(said.b)
    if bits is None or int.from_bytes(bits).bit_count() > MESSAGES_MAX or said.r not in _KINDS:
        return None
    is_usual = said.q in _INT32 and said.rq in _INT32 and said.so in _INT64 and said.pt in _INT64 and said.it in _INT64
    if not is_usual:
        return None
    return BatchAck(said.c, said.t, said.r, said.so, said.q, said.rq, said.pt, said.it, bits)
