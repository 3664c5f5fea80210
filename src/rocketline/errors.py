"""Every exception that Rocketline raises.

    RocketlineError                  retryable = False
    ├─ ConfigError                   a setting is wrong, found before anything starts
    ├─ MissingExtraError             an optional package is needed and not installed
    ├─ ClosedError                   the object was closed before or during the call
    ├─ TransportError                the network failed (retryable)
    │  ├─ ConnectError · ConnectionLostError · RequestTimeoutError
    │  ├─ ListenError                a server's address cannot be had (not retryable)
    │  └─ OverloadedError            a bound was reached: too many requests in flight
    ├─ ProtocolError                 bytes that break the rules
    │  ├─ LocalProtocolError         … and we would have written them
    │  └─ RemoteProtocolError        … and the peer sent them
    ├─ StoreError                    the message store cannot do what was asked
    │  ├─ StoreLockedError           another broker uses the same folder
    │  ├─ CorruptStoreError          what is on disk breaks the rules and cannot be mended
    │  ├─ StoreReadOnlyError         an earlier failure forbids writing until the next start
    │  ├─ StoreFullError             no space (retryable: cleaning or an operator makes room)
    │  └─ IllegalMessageError        this one message cannot be stored
    └─ ResponseError                 the server answered with a code other than success

Exceptions carry fields and write their own text; retry loops read `retryable` and never list classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class RocketlineError(Exception):
    """The root: catching it catches everything that Rocketline raises on purpose."""

    retryable: ClassVar[bool] = False


class ConfigError(RocketlineError):
    """One or more settings are wrong; all problems found are listed."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


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
        self.path = path
        super().__init__(f"{path}: {problem}")


class StoreReadOnlyError(StoreError):
    """A write or sync failed before, so nothing more is written until the store is opened anew."""


class StoreFullError(StoreError):
    """There is no space for the message now."""

    retryable = True


class IllegalMessageError(StoreError):
    """The message itself cannot be stored, whatever the state of the store."""


class ResponseError(RocketlineError):
    """The server answered, and its answer was no success."""

    def __init__(self, code: int, remark: str | None, *, request: str = "", address: str = "") -> None:
        self.code, self.remark, self.request, self.address = code, remark, request, address
        where = f"{request} at {address}: " if request and address else ""
        super().__init__(f"{where}code {code}: {remark or 'no remark'}")
