"""The answer to a request that may be looked at in steps, wait, and be looked at anew."""

from __future__ import annotations

from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.wire.command import Command


class PopAnswer:
    """Given once, as the handler's own answer or by itself; or not, if the request waits on."""

    __slots__ = ("_given", "_is_late", "channel", "is_given", "request")

    def __init__(self, channel: Channel, request: Command) -> None:
        self.channel, self.request = channel, request
        self._given: Command | None = None
        self._is_late = self.is_given = False

    def give(self, answer: Command) -> None:
        self.is_given = True
        if self._is_late:
            self.channel.reply(self.request, answer)
        else:
            self._given = answer

    def outcome(self) -> Outcome:
        """What the handler returns; what is given after this is sent by itself."""
        self._is_late = self._given is None
        return LATER if self._given is None else self._given
