"""From a request to its handler, and from whatever happens there to an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.net.channel import Channel, Outcome
from rocketline.wire.codes import V5_3_1, ResponseCode
from rocketline.wire.command import Command, response

Handler = Callable[[Channel, Command], Outcome]


class Dispatcher:
    """Looks a request's handler up by its code. Every request gets an answer that Apache's servers would give too:

    unknown code → 3; going away → 1500, to those who understand it; an exception → 1, with its class and text.
    """

    def __init__(self, handlers: Mapping[int, Handler], log: Throttle) -> None:
        self._handlers = dict(handlers)
        self._log = log
        self.is_going_away = False
        """Set while the server shuts down gracefully: new requests are sent elsewhere."""

    def __call__(self, channel: Channel, request: Command) -> Outcome:
        handler = self._handlers.get(request.code)
        if handler is None:
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            return response(code, f"request code {request.code} is not supported by this server")
        if self.is_going_away and request.version > V5_3_1:
            return response(ResponseCode.GO_AWAY, "this server is shutting down: connect again")
        try:
            return handler(channel, request)
        except Exception as error:  # noqa: BLE001  # told to the peer, and to the log if it is no answer
            return failure(error, self._log, channel, request)


def failure(error: Exception, log: Throttle, channel: Channel, request: Command) -> Command:
    """The answer to a request whose handler raised."""
    if isinstance(error, OSError):  # a full disk, say: no fault of ours, and nothing that a traceback explains
        log.error("refused by the system", f"request {request.code}: {error}", peer=channel.peer)
        return response(ResponseCode.SYSTEM_ERROR, f"the server's system refused: {error}")
    if not isinstance(error, RocketlineError):  # a fault of ours: the log has the traceback
        log.error("handler failed", f"request {request.code}", error=error, peer=channel.peer)
    return response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
