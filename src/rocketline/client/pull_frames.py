"""The bytes of pulls. Of the pulls of one queue only two offsets and the request's number differ, so that the rest is
made once: a pull is asked for every few dozen messages, and its header would cost as much as decoding them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from rocketline.model.queue import MessageQueue
from rocketline.wire import header_json

if TYPE_CHECKING:
    from rocketline.client.pulling import PullNode, PullPlan, PullQuery

_OFFSET, _COMMIT, _OPAQUE = 9_100_000_000_000_000_001, 9_100_000_000_000_000_002, 2_100_000_003
"""Numbers that stand for others in a pattern, and that no header holds by chance."""
_PREFIX: Final = struct.Struct(">II")
_PLACES: Final = ((_OFFSET, "%(offset)d"), (_COMMIT, "%(commit)d"), (_OPAQUE, "%(opaque)d"))


class PullFrames:
    """Frames of the pulls of one consumer. It remembers one pattern for each queue until `forget`."""

    def __init__(self, plan: PullPlan) -> None:
        self._plan = plan
        self._patterns: dict[MessageQueue, tuple[tuple[Any, ...], str]] = {}

    def pattern(self, query: PullQuery, node: PullNode) -> str | None:
        """What `frame` fills in; None if it cannot be told from the rest. Raises like `PullPlan.command`."""
        is_committing = bool(query.commit_offset)
        rest = (
            query.subscription, node, is_committing, query.count_max, query.bytes_max,
            query.suspend_s, query.is_lite, query.with_subscription,
        )  # fmt: skip
        known = self._patterns.get(query.queue)
        if known is not None and known[0] == rest:
            return known[1]
        pattern = self._make(query, node)
        if pattern is not None:
            self._patterns[query.queue] = rest, pattern
        return pattern

    def _make(self, query: PullQuery, node: PullNode) -> str | None:
        command = self._plan.command(query, node)
        command.ext["queueOffset"] = str(_OFFSET)
        if query.commit_offset:
            command.ext["commitOffset"] = str(_COMMIT)
        command.opaque = _OPAQUE
        text = header_json.encode(command).decode().replace("%", "%%")
        for number, place in _PLACES:
            if text.count(str(number)) > 1:
                return None
            text = text.replace(str(number), place)
        return text

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's now."""
        self._patterns.pop(queue, None)


def frame(pattern: str, query: PullQuery, opaque: int) -> bytes:
    """The frame of a pull with this number."""
    header = (pattern % {"offset": query.offset, "commit": query.commit_offset, "opaque": opaque}).encode()
    return _PREFIX.pack(4 + len(header), len(header)) + header
