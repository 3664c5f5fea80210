"""Every exception that Rocketline raises.

    RocketlineError                  retryable = False
    ├─ ConfigError                   a setting is wrong, found before anything starts
    ├─ ExpressionError               an SQL expression cannot be read; it says where and why
    ├─ MissingExtraError             an optional package is needed and not installed
    ├─ ClosedError                   the object was closed before or during the call
    ├─ TransportError                the network failed (retryable)
    │  ├─ ConnectError · ConnectionLostError · RequestTimeoutError
    │  ├─ ListenError                a server's address cannot be had (not retryable)
    │  └─ OverloadedError            a bound was reached: too many requests in flight
    ├─ PipelineError                 a pipeline on Spark cannot do what was asked
    │  └─ SupersededError            … since a newer run of it has begun
    ├─ ProtocolError                 bytes that break the rules
    │  ├─ LocalProtocolError         … and we would have written them
    │  └─ RemoteProtocolError        … and the peer sent them
    ├─ StoreError                    the message store cannot do what was asked
    │  ├─ StoreLockedError           another broker uses the same folder
    │  ├─ CorruptStoreError          what is on disk breaks the rules and cannot be mended
    │  ├─ StoreReadOnlyError         an earlier failure forbids writing until the next start
    │  ├─ StoreFullError             no space (retryable: cleaning or an operator makes room)
    │  ├─ QueueNotReadyError         this one queue is being derived anew (retryable)
    │  └─ IllegalMessageError        this one message cannot be stored
    ├─ ClientError                   a client cannot do what was asked of it; `code` is Java's number for it, or -1
    │  ├─ InvalidNameError           a topic or group name that no server accepts
    │  ├─ InvalidMessageError        a message, or a batch, that no broker accepts
    │  ├─ InvalidFilterError         an SQL expression that cannot be subscribed by
    │  ├─ InvalidOffsetError         an offset outside of its queue
    │  ├─ NotStartedError · GroupInUseError · WrongLoopError · ForkedError
    │  ├─ SelectorError              the application's queue selector failed
    │  ├─ RouteError                 nobody knows where to send it
    │  │  ├─ NoNameServerError · NotNameServerError · TopicNotFoundError · BrokerNotFoundError
    │  │  ├─ RouteRefusedError       what a name server says of a topic cannot be true
    │  │  └─ NameServerNotReadyError … now (retryable)
    │  ├─ SendFailedError            every attempt failed; `attempts` has them all
    │  ├─ CallTimeoutError           the time of the whole call was over before the next attempt
    │  ├─ NoReplyError               a request was sent, and no reply came in its time
    │  ├─ NotARequestError           a reply was to be made to a message that asks for none
    │  ├─ HandleError                a popped message that this consumer has no right to
    │  │  └─ HandleExpiredError      … any more
    │  ├─ UnsettledError             of several popped messages some could not be acknowledged
    │  ├─ NoPopError                 a broker without POP
    │  └─ NoMessageError             a query found nothing
    └─ ResponseError                 the server answered with a code other than success
       └─ NoPermissionError · TopicNotExistError · OffsetNotFoundError · FlowControlError · RefusedMessageError

Exceptions carry fields and write their own text; retry loops read `retryable` and never list classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar


class RocketlineError(Exception):
    """The root: catching it catches everything that Rocketline raises on purpose."""

    retryable: ClassVar[bool] = False


class ConfigError(RocketlineError):
    """One or more settings are wrong; all problems found are listed."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class ExpressionError(RocketlineError, ValueError):
    """An SQL expression that nobody can filter by; `at` is the place in it, counted from 0.

    `is_too_much`: nothing else is wrong than that it is longer or deeper than what we take; another broker may.
    """

    def __init__(self, expression: str, at: int, problem: str, *, is_too_much: bool = False) -> None:
        self.expression, self.at, self.problem, self.is_too_much = expression, at, problem, is_too_much
        before = expression[:at]
        self.line, self.column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        near = f", near {expression[at : at + 20]!r}" if at < len(expression) else ", where it ends"
        super().__init__(f"line {self.line}, column {self.column}{near}: {problem}")


class MissingExtraError(RocketlineError):
    """A feature needs a package that the plain install leaves out."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        self.feature, self.package, self.extra = feature, package, extra
        super().__init__(f"{feature} needs the package {package}. Install it with: {self.install_line}")

    @property
    def install_line(self) -> str:
        return f"pip install 'rocketline[{self.extra}]'"


class ClosedError(RocketlineError):
    """The object was closed; open a new one."""


class PipelineError(RocketlineError):
    """A pipeline on Spark cannot do what was asked; its tables and checkpoints are as they were."""


class SupersededError(PipelineError):
    """A newer run of the same pipeline has begun: this one must end, and writes nothing more."""

    def __init__(self, place: str, run: int, newer: int, who: str = "") -> None:
        self.place, self.run, self.newer, self.who = place, run, newer, who
        told = f" ({who})" if who else ""
        super().__init__(
            f"{place}: this is run {run} of the pipeline, and run {newer}{told} has begun since: it goes on from what "
            "is there, and this one adds nothing more. Let it end; if both are started again and again, two places "
            "start one pipeline: stop one of them"
        )


class TransportError(RocketlineError):
    """The network between us and `address` failed."""

    retryable = True

    def __init__(self, address: str, problem: str) -> None:
        self.address, self.problem = address, problem
        super().__init__(f"{address}: {problem}")


class ConnectError(TransportError):
    """No connection could be made."""


class ListenError(TransportError):
    """A server could not listen at its address."""

    retryable = False


class ConnectionLostError(TransportError):
    """The connection closed while a call waited for its answer."""


class RequestTimeoutError(TransportError):
    """No answer came in time. The server may or may not have done the work."""


class OverloadedError(TransportError):
    """Too many requests are in flight on this connection already."""


class ProtocolError(RocketlineError, ValueError):
    """Bytes or values that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """We were asked to write something that the protocol cannot carry."""


class RemoteProtocolError(ProtocolError):
    """The peer sent bytes that break the protocol."""


class StoreError(RocketlineError):
    """The message store cannot do what was asked."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class StoreLockedError(StoreError):
    """Another broker, ours or Apache's, works in the same folder; `holder` is its process id if the system tells."""

    def __init__(self, path: str, holder: int | None) -> None:
        self.path, self.holder = path, holder
        who = "another process" if holder is None else f"process {holder}"
        super().__init__(f"{path} is locked by {who}: stop that broker or give this one its own storePathRootDir")


class CorruptStoreError(StoreError):
    """What `path` holds breaks the rules of the format, and going on would lose or invent messages."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class StoreReadOnlyError(StoreError):
    """A write or sync failed before, so nothing more is written until the store is opened anew."""


class StoreFullError(StoreError):
    """There is no space for the message now."""

    retryable = True


class QueueNotReadyError(StoreError, OSError):
    """A queue was damaged and is being derived anew from the log, or may be; all others are as they should be."""

    retryable = True

    def __init__(
        self, topic: str, queue_id: int, problem: str = "was damaged and is being derived anew from the log"
    ) -> None:
        self.topic, self.queue_id = topic, queue_id
        super().__init__(f"queue {queue_id} of {topic} {problem}: try later")


class IllegalMessageError(StoreError):
    """The message itself cannot be stored, whatever the state of the store."""


class ClientError(RocketlineError):
    """A client cannot do what was asked of it."""

    code: int = -1
    """Java's number for the problem, -1 if it has none. Java: MQClientException.getResponseCode."""


class InvalidNameError(ClientError, ValueError):
    """A topic or group name that no server accepts."""

    def __init__(self, kind: str, name: str, problem: str) -> None:
        self.kind, self.name, self.problem = kind, name, problem
        super().__init__(f"{kind} {name!r}: {problem}")


class InvalidMessageError(ClientError, ValueError):
    """A message, or a batch of them, that no broker accepts."""

    code = 13

    def __init__(self, topic: str, problem: str) -> None:
        self.topic, self.problem = topic, problem
        super().__init__(f"message for topic {topic!r}: {problem}" if topic else problem)


class InvalidFilterError(ClientError, ValueError):
    """An SQL expression by which nobody, or not this broker, can choose among a topic's messages."""

    def __init__(self, topic: str, expression: str, problem: str, *, code: int = 23) -> None:
        self.topic, self.expression, self.problem, self.code = topic, expression, problem, code
        super().__init__(f"subscription to {topic!r} by SQL: {expression[:200]!r}: {problem}")


class InvalidOffsetError(ClientError, ValueError):
    """An offset outside of its queue."""

    def __init__(self, queue: object, offset: int, low: int, high: int) -> None:
        self.queue, self.offset, self.low, self.high = queue, offset, low, high
        super().__init__(f"offset {offset} is outside of {queue}, which reaches from {low} to {high}")


class NotStartedError(ClientError, RuntimeError):
    """The client is not running yet."""

    def __init__(self, thing: str) -> None:
        self.thing = thing
        super().__init__(f"{thing} is not started: use it in a `with` block, or call start()")


class GroupInUseError(ClientError):
    """Two clients of one group share a runtime, so the broker could not tell them apart."""

    def __init__(self, group: str, client_id: str) -> None:
        self.group, self.client_id = group, client_id
        super().__init__(f"group {group!r} is in use on client {client_id} already: give each member its own runtime")


class WrongLoopError(ClientError, RuntimeError):
    """An asyncio client was called from another event loop than the one it was started on."""

    def __init__(self, thing: str) -> None:
        self.thing = thing
        super().__init__(
            f"{thing} belongs to another event loop: make one in each loop, or use the blocking one of `rocketline`"
        )


class ForkedError(ClientError, RuntimeError):
    """A client does not survive a fork: its threads and its connections belong to the parent."""

    def __init__(self, thing: str) -> None:
        self.thing = thing
        super().__init__(f"{thing} was made before this process was forked: make it after the fork, in the child")


class SelectorError(ClientError):
    """The application's queue selector raised, or chose no queue."""


class RouteError(ClientError):
    """Nobody knows where the message should go."""


class NoNameServerError(RouteError):
    """There is no name server to ask."""

    code = 10004

    def __init__(self) -> None:
        super().__init__("no name server is known: give its address, or set NAMESRV_ADDR, as host:port;host:port")


class NotNameServerError(RouteError):
    """Something else than a name server, most likely a broker, has the address of one."""

    def __init__(self, address: str, remark: str | None = None) -> None:
        self.address, self.remark = address, remark
        super().__init__(
            f"{address} is no name server, as it does not know what clients ask one ({remark or 'code 3'}). It is "
            "probably a broker: give the address that brokers register at, whose port is 9876 unless somebody chose "
            "another"
        )


class NameServerNotReadyError(RouteError):
    """A name server that has just started, or has too much to do, does not say where a topic is."""

    retryable = True

    def __init__(self, topic: str, code: int, remark: str | None = None) -> None:
        self.topic, self.response_code, self.remark = topic, code, remark
        super().__init__(
            f"the name server cannot tell now where topic {topic!r} is (code {code}: {remark or 'no remark'}): it may "
            "have just started. Ask again in a while, or look at what it logs"
        )


class TopicNotFoundError(RouteError):
    """No name server knows the topic, and no broker makes topics by itself."""

    code = 10005

    def __init__(self, topic: str, name_servers: Sequence[str] = ()) -> None:
        self.topic, self.name_servers = topic, tuple(name_servers)
        asked = f" (asked {', '.join(self.name_servers)})" if self.name_servers else ""
        super().__init__(
            f"topic {topic!r} has no route{asked}: make it with `rocketline topic create {topic}`, "
            "or look whether a broker is registered"
        )


class BrokerNotFoundError(RouteError):
    """The route names a broker whose address is not known."""

    code = 10003

    def __init__(self, broker_name: str, problem: str = "it is in no route that was read") -> None:
        self.broker_name, self.problem = broker_name, problem
        super().__init__(f"broker {broker_name!r} has no address: {problem}")


class RouteRefusedError(RouteError):
    """What a name server says of a topic is beyond what is believed: a stranger may have registered there."""

    def __init__(self, topic: str, problem: str) -> None:
        self.topic, self.problem = topic, problem
        super().__init__(
            f"the route of topic {topic!r} is not believed: {problem}. Look for brokers that should not be there, with "
            "`rocketline cluster show`"
        )


class SendFailedError(ClientError):
    """Every attempt to send a message failed."""

    def __init__(self, topic: str, code: int, attempts: Sequence[tuple[str, Exception]], elapsed_s: float) -> None:
        """`attempts`: the broker's name and what went wrong there, one of each attempt."""
        self.topic, self.code, self.attempts, self.elapsed_s = topic, code, tuple(attempts), elapsed_s
        tried = "; ".join(f"{broker}: {problem}" for broker, problem in self.attempts) or "nowhere"
        super().__init__(
            f"message for topic {topic!r} not sent, {len(self.attempts)} attempts in {elapsed_s:.3f} s: {tried}"
        )


class TransactionError(ClientError):
    """A half message is stored, but not as safely as its broker is set up to: the transaction was rolled back."""

    def __init__(self, topic: str, status: str) -> None:
        self.topic, self.status = topic, status
        super().__init__(f"half message for topic {topic!r}: {status}; it was rolled back, send it again")


class TransactionOverError(ClientError):
    """Brokers were told already what became of the transaction."""

    def __init__(self, topic: str, transaction_id: str) -> None:
        self.topic, self.transaction_id = topic, transaction_id
        super().__init__(
            f"transaction {transaction_id} for topic {topic!r} is over: decide in its block; "
            "of one that was left open the broker asks the check function"
        )


class CallTimeoutError(ClientError, TimeoutError):
    """The time given for the whole call was over before another attempt could be made."""

    def __init__(self, what: str, timeout_s: float, cause: Exception | None = None) -> None:
        self.what, self.timeout_s, self.cause = what, timeout_s, cause
        super().__init__(
            f"{what} took longer than its {abs(max(timeout_s, 0.0)):g} s{f'; last: {cause}' if cause else ''}"
        )


class NoReplyError(ClientError, TimeoutError):
    """A request was sent, and no reply came in its time. It may have been handled, or still be."""

    code = 10006

    def __init__(self, topic: str, correlation_id: str, timeout_s: float, place: str = "") -> None:
        """`place`: the queue and the offset at which the request is stored, if that is known."""
        self.topic, self.correlation_id, self.timeout_s, self.place = topic, correlation_id, timeout_s, place
        stored = f"it is stored at {place}" if place else "whether it is stored is not known either"
        super().__init__(
            f"no reply within {timeout_s:g} s to the request {correlation_id} for topic {topic!r}; {stored}. Maybe no "
            "consumer of the topic is running, or its handler failed, does not return reply(message, body), or takes "
            "longer (then a larger timeout_s helps). The request may have been handled, or still be"
        )


class NotARequestError(ClientError, ValueError):
    """A reply was to be made to a message that asks for none, or whose asker cannot be found."""

    code = 10007

    def __init__(self, message_id: str, topic: str, missing: Sequence[str]) -> None:
        self.message_id, self.topic, self.missing = message_id, topic, tuple(missing)
        super().__init__(
            f"message {message_id} of topic {topic!r} is no request that could be replied to: it has no property "
            f"{', '.join(missing)}. Requests are sent by themselves, with producer.request(…); a broker adds CLUSTER"
        )


class NoMessageError(ClientError):
    """A query found no message."""

    code = 208


class HandleError(ClientError, ValueError):
    """A message that this consumer has no right to acknowledge or to give back."""

    def __init__(self, message_id: str, problem: str) -> None:
        self.message_id, self.problem = message_id, problem
        super().__init__(f"message {message_id}: {problem}")


class HandleExpiredError(HandleError):
    """A message that was invisible to others for as long as was asked for, and is not any more."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            message_id, "its invisible time is over, and it comes again: ask for a longer one, or extend it in time"
        )


class UnsettledError(ClientError):
    """Of several messages some could not be acknowledged, extended or given back."""

    def __init__(self, what: str, failures: Sequence[tuple[str, RocketlineError]], count: int) -> None:
        """`failures` are ids of messages, and why; `count` is that of all messages."""
        self.failures = tuple(failures)
        message_id, error = self.failures[0]
        super().__init__(f"{len(failures)} of {count} messages were not {what}; the first, {message_id}: {error}")


class NoPopError(ClientError):
    """A broker that does not hand out messages without queues."""

    code = 3

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(f"the broker at {address} does not know POP: that takes RocketMQ 5.0 or newer")


_ADVICE: Final = {
    1: "the broker's log says more",
    2: "the broker is busy: send slower, or add brokers",
    16: "ask for the right to the topic or group, or change its permission",
    17: "make the topic first, or let brokers make topics by themselves (autoCreateTopicEnable)",
    26: "make the group first, or let brokers make groups by themselves (autoCreateSubscriptionGroup)",
}


class ResponseError(RocketlineError):
    """The server answered, and its answer was no success."""

    def __init__(self, code: int, remark: str | None, *, request: str = "", address: str = "") -> None:
        self.code, self.remark, self.request, self.address = code, remark, request, address
        where = f"{request} at {address}: " if request and address else ""
        advice = f" ({_ADVICE[code]})" if code in _ADVICE else ""
        super().__init__(f"{where}code {code}: {remark or 'no remark'}{advice}")


class NoPermissionError(ResponseError):
    """Code 16."""


class TopicNotExistError(ResponseError):
    """Code 17."""


class OffsetNotFoundError(ResponseError):
    """Code 22: the group has no offset there yet."""


class FlowControlError(ResponseError):
    """Codes 2 and 215: the broker has too much to do."""


class RefusedMessageError(ResponseError):
    """Code 13: the broker finds the message wrong."""


_BY_CODE: Final[dict[int, type[ResponseError]]] = {
    2: FlowControlError,
    13: RefusedMessageError,
    16: NoPermissionError,
    17: TopicNotExistError,
    22: OffsetNotFoundError,
    215: FlowControlError,
}


def response_error(code: int, remark: str | None, *, request: str = "", address: str = "") -> ResponseError:
    """The error for an answer's code, of the class that the code has.

    >>> response_error(16, "no", request="SEND_MESSAGE_V2", address="127.0.0.1:10911").__class__.__name__
    'NoPermissionError'
    """
    return _BY_CODE.get(code, ResponseError)(code, remark, request=request, address=address)


_Error = TypeVar("_Error", bound=RocketlineError)


def one_more(error: _Error) -> _Error:
    """The same error for one more of those who waited together, caused by the one that happened.

    Raising adds to an error's traceback: one that thousands raise leads to all of them, and keeps what they held alive.

    >>> lost = ConnectionLostError("127.0.0.1:10911", "the connection closed")
    >>> copy = one_more(lost)
    >>> str(copy) == str(lost), copy.address, copy.__cause__ is lost
    (True, '127.0.0.1:10911', True)
    """
    copy: _Error = type(error).__new__(type(error))  # classes of errors have arguments of their own: none is told again
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error
    return copy
