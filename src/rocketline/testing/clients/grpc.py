"""A client of Apache's gRPC proxy as a program that does one call after the other, each a line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from rocketline.errors import RocketlineError
from rocketline.testing.clients.program import ClientFailedError
from rocketline.testing.server_process import LOOPBACK

AWAIT_S: Final = 2
"""How long a receive waits for the first message, if the proxy allows that: by itself it makes 5 s of it."""


class GrpcCallError(RocketlineError):
    """The client raised this; its text has the proxy's code in it."""


@dataclass(frozen=True, slots=True)
class GrpcReceipt:
    """What a client knows of a message that it sent."""

    id: str
    recall: str
    """The handle that calls a delayed message back; empty for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcMessage:
    """A message as a consumer got it."""

    id: str
    body: str
    attempt: int
    tag: str
    keys: list[str]
    message_group: str
    properties: dict[str, str]
    time_ms: int
    """When it was handed out, by the machine's clock."""

    @property
    def held(self) -> str:
        """By which its consumer knows this one delivery."""
        return f"{self.id}/{self.attempt}"


class GrpcClient:
    """A running program; after its `with` block it is gone, without a farewell.

    It makes a producer for each topic, which answers checks of transactions by the end of their body: `/commit`,
    `/rollback`, else it does not know. A push consumer fails as often as the number at the end of a body says.
    """

    def __init__(self, name: str, command: Sequence[str], home: Path, proxy: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._output = home / "output.txt"
        with self._output.open("ab") as sink:
            self._process = subprocess.Popen(
                [*command, proxy, str(AWAIT_S)],
                cwd=home,
                env={**os.environ, "HOME": str(home), "no_grpc_proxy": LOOPBACK},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                start_new_session=True,
            )

    def send(
        self,
        topic: str,
        body: str,
        *,
        tag: str | None = None,
        key: str | None = None,
        message_group: str | None = None,
        due_s: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> GrpcReceipt:
        """Send one message; with a `message_group` it is in its order, with `due_s` it is delivered at this time."""
        optional = {"tag": tag, "key": key, "message_group": message_group, "due_s": due_s, "properties": properties}
        given = {name: value for name, value in optional.items() if value is not None}
        return GrpcReceipt(**self._call("send", topic=topic, body=body, **given))

    def transact(self, topic: str, body: str, *, end: str) -> GrpcReceipt:
        """Send a message in a transaction and end it by `commit`, `rollback`, or `none`: then the broker will ask."""
        return GrpcReceipt(**self._call("transact", topic=topic, body=body, end=end))

    def recall(self, topic: str, receipt: GrpcReceipt) -> str:
        """Call a delayed message back; the id that the proxy answers."""
        return str(self._call("recall", topic=topic, handle=receipt.recall))

    def receive(
        self, topic: str, group: str, *, count: int = 16, invisible_s: int = 30, tags: str = "*"
    ) -> list[GrpcMessage]:
        """What the group's simple consumer gets at once, or else what comes first within `AWAIT_S`."""
        arguments = {"topic": topic, "group": group, "count": count, "invisible_s": invisible_s, "tags": tags}
        return [GrpcMessage(**one) for one in self._call("receive", **arguments)]

    def ack(self, message: GrpcMessage) -> None:
        """Tell that a received message is done."""
        self._call("ack", held=message.held)

    def change_invisible(self, message: GrpcMessage, invisible_s: int) -> None:
        """Have a received message come again after this time, from now on."""
        self._call("change", held=message.held, invisible_s=invisible_s)

    def push(self, topic: str, group: str, *, tags: str = "*") -> None:
        """Start a push consumer; whether it is orderly is the group's affair."""
        self._call("push", topic=topic, group=group, tags=tags)

    def pushed(self, topic: str) -> list[GrpcMessage]:
        """What the topic's push consumer has had so far."""
        return [GrpcMessage(**one) for one in self._call("pushed", topic=topic)]

    def close(self) -> None:
        """End it: whatever it holds becomes visible by and by."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout):
            pipe.close()

    def _call(self, call: str, **arguments: Any) -> Any:
        self._stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        self._stdin.flush()
        line = self._stdout.readline()
        if not line:
            raise ClientFailedError(self.name, "has ended", self._output.read_text("utf-8", "replace")[-4000:])
        answer = json.loads(line)
        if "error" in answer:
            raise GrpcCallError(answer["error"])
        return answer["answer"]

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
