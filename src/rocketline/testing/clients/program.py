"""A foreign client as a program that sends numbered messages and consumes them; the same commands for every client."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rocketline.errors import RocketlineError

GRACE_S = 30
"""How much longer than it was told a program may take: to start, to say goodbye, on a busy machine."""


class ClientFailedError(RocketlineError):
    """A client's program ended with an error or not at all; what it wrote is part of the text."""

    def __init__(self, client: str, problem: str, output: str) -> None:
        self.client, self.problem, self.output = client, problem, output
        super().__init__(f"The {client} client {problem}. The end of its output:\n{output or '(it wrote nothing)'}")


@dataclass(frozen=True, slots=True)
class Portion:
    """Messages with the numbers `first` to `first + count - 1`, sent in one of the ways that a client has.

    Each asks its consumer to fail until it was redelivered `failures` times.
    """

    kind: str
    first: int
    count: int
    failures: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.first}:{self.count}:{self.failures}"

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


class Sent(NamedTuple):
    """What became of the messages of a `send`, as the client told it."""

    sent: int
    failed: int
    problem: str


class Delivered(NamedTuple):
    """One call of a consumer's listener."""

    number: int
    queue_id: int
    queue_offset: int
    reconsume_times: int
    lag_ms: int
    """Store time less born time: a delayed message shows its delay here."""


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """How to call a client, and what it can do. Each call is a process of its own."""

    name: str
    command: Sequence[str]
    home: Path
    """The HOME of its processes: some clients write logs and offsets there."""
    kinds: frozenset[str]
    """The ways it can send: `sync`, `async`, `oneway`, `batch`, `ordered`, `delayed`, and compressed: `lz4`, `zstd`."""
    modes: frozenset[str]
    """The ways it can consume: `concurrent`, `orderly`, `broadcast`, `pull`; Java's client and ours also by `pop`, if
    brokers have the group do so."""
    fails_in_batches: bool = False
    """A message that fails takes those along that were pulled with it."""

    def send(self, name_servers: str, topic: str, *portions: Portion, timeout_s: float = 120) -> Sent:
        """Send the portions one after the other."""
        return Sent(**self._call("send", name_servers, topic, *map(str, portions), timeout_s=timeout_s))

    def gather(self, name_servers: str, topic: str, count: int) -> dict[int, tuple[int, int]]:
        """Send so many messages, which the producer gathers to batches by itself: the queue and the offset that each of
        their callers was told, by number. Java alone."""
        result = self._call("send", name_servers, topic, f"gathered:0:{count}:0", timeout_s=120)
        if result["problem"]:
            raise ClientFailedError(self.name, "could not send all", result["problem"])
        return {number: (queue_id, offset) for number, queue_id, offset in result["places"]}

    def consume(
        self,
        name_servers: str,
        topic: str,
        group: str,
        count: int,
        *,
        mode: str = "concurrent",
        expression: str = "*",
        timeout_s: int = 120,
    ) -> list[Delivered]:
        """Consume until `count` deliveries came and a moment passed, or until the time is up; in order of arrival.

        `expression` has tags, or is in SQL with `sql:` before it, which Java, Go and our client understand."""
        arguments = (name_servers, topic, group, mode, expression, str(count), str(timeout_s))
        result = self._call("consume", *arguments, timeout_s=timeout_s)
        return [Delivered(*values) for values in result["deliveries"]]

    def transact(
        self, name_servers: str, topic: str, group: str, *transactions: str, checks: int, timeout_s: int = 60
    ) -> list[str]:
        """Make transactions, and wait until brokers have asked so often; the bodies that they asked about. Java and Go.

        A transaction is `body:local:check`, where the last two are commit, rollback or unknown. One whose local part
        is `none` is not sent: it is another's, and only asked about.
        """
        arguments = (name_servers, topic, group, str(checks), str(timeout_s), *transactions)
        result = self._call("transact", *arguments, timeout_s=timeout_s)
        return list(result["checked"])

    def _call(self, *arguments: str, timeout_s: float) -> Any:
        environment = {**os.environ, "HOME": str(self.home)}
        self.home.mkdir(parents=True, exist_ok=True)
        with subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, error = process.communicate(timeout=timeout_s + GRACE_S)
            except BaseException as problem:
                process.kill()
                if isinstance(problem, subprocess.TimeoutExpired):
                    raise ClientFailedError(self.name, f"did not end: {arguments}", "") from None
                raise
        if process.returncode or not out.strip():
            what = f"ended with code {process.returncode}: {' '.join(arguments)}"
            raise ClientFailedError(self.name, what, (out + error)[-4000:])
        return json.loads(out.splitlines()[-1])
