"""Load a broker, end it in the midst of it, start it again, look closely; many times over.

    load ... SIGKILL [start, SIGKILL before it is up] start, audit, load ... SIGTERM start, audit, load ...

At the end the load stops, delayed messages come, the broker asks about transactions that are open, consumers read to
the end, and one more audit looks at everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from crash import requests, transactions
from crash.audit import Audit
from crash.ledger import DELAY_LEVELS_MS, PLAIN, QUEUES, Ledger, Place
from crash.traffic import REQUEST_S, Traffic
from rocketline.errors import TransportError
from rocketline.net.remote import Remote
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerFailedError, free_port
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

_POLL_S = 0.01
_START_S = 60.0
_END_S = 30.0
_DRAIN_S = 60.0
_LONG_LOAD_S = 11.0
"""Offsets are first saved ten seconds after a start."""

SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(512 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 500),
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "messageDelayLevel": " ".join(f"{ms // 1000}s" for ms in DELAY_LEVELS_MS.values()),
    "flushConsumerOffsetInterval": "200",
    "flushDelayOffsetInterval": "200",
    "mappedFileSizeTimerLog": "4096",
    "timerFlushIntervalMs": "200",
    "recallMessageEnable": "true",
    **transactions.SETTINGS,
}
"""Files so small that kills meet the end of one."""


@dataclass(frozen=True, slots=True)
class Round:
    """How long to load the broker and how to end it then."""

    load_s: float
    is_sudden: bool = False
    """The time counts from the first request, not from the first acknowledgement."""
    is_kill: bool = True
    kills_in_recovery: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """What a round came to."""

    round: Round
    serving_s: float
    """From the start of the process to its first answer."""
    messages: int
    log_bytes: int
    audit_s: float


def stops_among(kills: int) -> int:
    """How many clean stops there are besides."""
    return max(1, kills // 6)


def rounds(random: Random, kills: int, stops: int) -> list[Round]:
    """`kills` under load, among them every third followed by a kill or two during recovery; and clean `stops`."""
    plan: list[Round] = []
    for n in range(kills):
        load_s = _LONG_LOAD_S + random.random() if n % 12 == 9 else random.uniform(0.1, 1.2)
        is_sudden = n % 3 == 2
        recovery = 1 + n // 3 % 2 if n % 3 == 1 else 0
        plan.append(Round(random.uniform(0, 0.2) if is_sudden else load_s, is_sudden, kills_in_recovery=recovery))
    plan += [Round(random.uniform(0.1, 1.2), is_kill=False) for _ in range(stops)]
    random.shuffle(plan)
    return plan


class Campaign:
    """A broker and its store in `home`, in many lives. The same `seed` makes the same plan, not the same races."""

    def __init__(self, home: Path, seed: int, **settings: str) -> None:
        self._home, self._settings = home, SETTINGS | settings
        self._port = free_port()
        self._random = Random(seed)
        self.ledger = Ledger()
        self._broker: BrokerProcess | None = None
        self._start_s = 1.0

    async def run(
        self, kills: int, tell: Callable[[Restart], None] = lambda restart: None, *, stops: int | None = None
    ) -> None:
        """Raises `AssertionError` with what is wrong, `ServerFailedError` if the broker does not come back."""
        plan = rounds(self._random, kills, stops_among(kills) if stops is None else stops)
        try:
            await self._start()
            address = self._process.address
            async with Remote(address) as remote, Traffic(address, self.ledger, self._random) as traffic:
                for topic, queues in QUEUES.items():
                    assert (await remote.request(requests.create_topic(topic, queues), REQUEST_S)).code == 0
                    self.ledger.topics.add(topic)
                for number, round_ in enumerate(plan):
                    tell(await self._run_round(number, round_, remote, traffic))
                await self._finish(remote, traffic)
        finally:
            if self._broker is not None:
                self._broker.kill()

    @property
    def _process(self) -> BrokerProcess:
        assert self._broker is not None
        return self._broker

    async def _run_round(self, number: int, round_: Round, remote: Remote, traffic: Traffic) -> Restart:
        await self._join(remote, f"crash-group-{number}")
        traffic.resume()
        await self._load(round_, traffic)
        if round_.is_kill:
            self._process.kill()
        else:
            await self._terminate()
        await traffic.hold()
        for reader in traffic.readers:
            reader.offset = None
            if not round_.is_kill:
                reader.safe_commit = reader.known_commit
            reader.known_commit = reader.safe_commit
        for _ in range(round_.kills_in_recovery):
            self._broker = self._new_process()
            await asyncio.sleep(self._random.uniform(0.3, 1.1) * self._start_s)
            self._process.kill()
        serving_s = await self._start()
        began = time.perf_counter()
        messages = await self._audit(remote, traffic)
        return Restart(round_, serving_s, messages, self._log_bytes(), time.perf_counter() - began)

    async def _load(self, round_: Round, traffic: Traffic) -> None:
        if not round_.is_sudden:
            async with asyncio.timeout(REQUEST_S):
                await traffic.answered.wait()
        await asyncio.sleep(round_.load_s)

    # --- the broker's lives

    def _new_process(self) -> BrokerProcess:
        return BrokerProcess(self._home, name_servers=(), port=self._port, settings=self._settings)

    async def _start(self) -> float:
        """Start it; seconds until its first answer."""
        began = time.perf_counter()
        self._broker = self._new_process()
        async with Remote(self._process.address) as remote:
            while True:
                try:
                    await remote.request(Command(RequestCode.GET_BROKER_RUNTIME_INFO), REQUEST_S)
                    break
                except TransportError:
                    self._check_alive(time.perf_counter() - began)
                    await asyncio.sleep(_POLL_S)
        self._start_s = time.perf_counter() - began
        return self._start_s

    def _check_alive(self, waited_s: float) -> None:
        process = self._process
        if not process.is_running or waited_s > _START_S:
            raise ServerFailedError(process.name, f"did not come back within {waited_s:.1f} s", process.tail())

    async def _terminate(self) -> None:
        self._process.terminate()
        began = time.perf_counter()
        while self._process.is_running:
            if time.perf_counter() - began > _END_S:
                problem = f"did not end {_END_S:g} s after SIGTERM"
                raise ServerFailedError(self._process.name, problem, self._process.tail())
            await asyncio.sleep(_POLL_S)
        if (status := self._process.close()) != 0:
            self.ledger.report(f"SIGTERM ended it with {status}")
        if (self._home / "store" / "abort").exists():
            self.ledger.report("a clean stop left the abort file")

    def _log_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self._home / "store" / "commitlog").glob("*"))

    # --- looking

    async def _join(self, remote: Remote, group: str) -> None:
        """A group that nobody knew pulls, and exists from then on."""
        await remote.request(requests.pull(group, Place(PLAIN, 0, 0)), REQUEST_S)
        self.ledger.groups.add(group)

    async def _audit(self, remote: Remote, traffic: Traffic) -> int:
        audit = Audit(remote, self.ledger, self._random)
        await audit.run(traffic.readers)
        self._check_problems()
        return audit.messages

    def _check_problems(self) -> None:
        output = self._process.log()
        if "Traceback" in output:
            self.ledger.report(f"the broker logged a traceback:\n{output[output.index('Traceback') :][:4000]}")
        if self.ledger.problems:
            raise AssertionError("\n".join(self.ledger.problems))

    async def _finish(self, remote: Remote, traffic: Traffic) -> None:
        """Nobody sends any more: delayed messages come, and consumers have it all in the end."""
        traffic.consuming.open()
        deadline_s = time.monotonic() + _DRAIN_S
        while missing := await self._missing(remote, traffic):
            if time.monotonic() > deadline_s:
                self.ledger.report(missing)
                break
            await asyncio.sleep(_POLL_S * 10)
        await traffic.consuming.shut()
        await self._audit(remote, traffic)

    async def _missing(self, remote: Remote, traffic: Traffic) -> str:
        if self.ledger.waiting:
            return (
                f"{len(self.ledger.waiting)} delayed or timed messages never came, such as {min(self.ledger.waiting)}"
            )
        if self.ledger.open:
            return f"{len(self.ledger.open)} half messages were never committed, such as {min(self.ledger.open)}"
        for reader in traffic.readers:
            answer = await remote.request(requests.max_offset(reader.topic, reader.queue_id), REQUEST_S)
            end = int(answer.ext["offset"])
            if lost := set(range(end)) - reader.seen:
                return f"{reader} never got {len(lost)} of {end} messages, such as {min(lost)}"
        return ""
