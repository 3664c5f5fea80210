"""An answer that may be known before its handler returns, or only after."""

from __future__ import annotations

from dataclasses import replace

from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.wire.command import Command


class LaterAnswer:
    """Given once: before `outcome` is asked for it is the handler's own answer, afterwards it is sent by itself.

    answer = LaterAnswer(channel, request)
    store(message, lambda result: answer.give(...))
    return answer.outcome()
    """

    __slots__ = ("_answer", "_channel", "_is_awaited", "_request")

    def __init__(self, channel: Channel, request: Command) -> None:
        self._channel, self._request = channel, request
        self._answer: Command | None = None
        self._is_awaited = False

    def give(self, answer: Command) -> None:
        if self._is_awaited:
            self._channel.reply(self._request, answer)
        else:
            self._answer = answer

    def outcome(self) -> Outcome:
        """What the handler returns. From now on nothing is kept of what the request says: thousands may wait."""
        if self._answer is not None:
            return self._answer
        self._is_awaited, self._request = True, replace(self._request, ext={}, body=b"")
        return LATER
