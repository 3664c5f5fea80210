"""Brokers in one contest: they take turns, so that whatever else the machine does hits all alike."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from benchmarks import crash, loadgen, tables, timers
from benchmarks.broker_report import FEW, MANY, ONE, POPS, SINGLE, Measured, Work, Workload
from benchmarks.brokers import Questions, StartBroker
from benchmarks.loadgen import LoadError, LoadResult, Shape, Span
from benchmarks.servers import Server, cpu_s, rss_mb

_Item = TypeVar("_Item")

QUEUES = 4
"""What a client's first send to a new topic gets from a broker in its default configuration."""
_SEND_TOPIC = "bench-send"
_SETTLED = 0.95
"""A turn of the warm-up that costs more than this share of the best one before is no progress."""
_SETTLE_S = 1
_IDLE_S = 3
_STORED_TIMEOUT_S = 10
_FILL_SHAPE = Shape(8, 64)
_FILL_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int = 3
    measure_s: float = 4
    warm_up_s: float = 2
    """Load in each shape, once; a JVM is loaded again and again, until it gets no better at it."""
    compiling_s_min: float = 45
    compiling_s_max: float = 90
    """The least and the most time that it gets for that, for each kind of work."""
    shapes: tuple[Shape, ...] = (MANY, SINGLE, ONE)
    sync_shapes: tuple[Shape, ...] = (SINGLE,)
    pop_shapes: tuple[Shape, ...] = (FEW, SINGLE)
    bodies: tuple[int, ...] = (100, 1024)
    works: tuple[Work, ...] = tuple(Work)
    batch: int = 32
    pull_messages: int = 200_000
    crash_log_bytes: int = 1 << 30
    timers: int = 1_000_000
    timers_spread_s: int = 3600
    timers_watch_s: int = 60
    timers_burst: int = 20_000

    def workloads(self, work: Work) -> list[Workload]:
        """Everything to load a broker with that is work of this kind."""
        if work not in self.works:
            return []
        if work in POPS:  # what is noted of messages does not depend on their size
            return [Workload(work, shape, self.bodies[0]) for shape in self.pop_shapes]
        shapes = self.sync_shapes if work is Work.SYNC else self.shapes
        return [Workload(work, shape, body) for body in self.bodies for shape in shapes]


@dataclass(slots=True, kw_only=True)
class Contestant:
    """A broker that can be started, what was measured of it, and how deep its queues are filled for pulls."""

    start: StartBroker
    measured: Measured
    is_compiling: bool
    """It gets faster for a while: a JVM."""
    pull_depths: dict[int, int] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.measured.label


@dataclass(slots=True)
class Entrant:
    """A contestant whose server runs."""

    contestant: Contestant
    server: Server


@dataclass(slots=True)
class Contest:
    """The comparison. Its public methods may be called once each, in any order. Stores go to folders under `home`."""

    plan: Plan
    program: Path
    home: Path
    contestants: Sequence[Contestant]
    console: Console

    def measure_starts(self) -> None:
        """On an empty store, once in every round; and the memory of a broker that has nothing to do."""
        for number in range(self.plan.rounds):
            for contestant in _in_turn(self.contestants, number):
                with self._running([contestant], is_sync=False) as (entrant,):
                    start_s, start_cpu_s = entrant.server.start_s, cpu_s(entrant.server.pid)
                    time.sleep(_IDLE_S)
                    idle_mb = rss_mb(entrant.server.pid)
                contestant.measured.start_ms.append(start_s * 1e3)
                contestant.measured.start_cpu_ms.append(start_cpu_s * 1e3)
                contestant.measured.idle_rss_mb.append(idle_mb)
                shown = f"started in {start_s:.2f} s with {start_cpu_s:.2f} s of CPU, {idle_mb:.0f} MB"
                self._say(f"{contestant.label}: {shown}")

    def measure_loads(self) -> None:
        """All workloads. Those with sync flush get servers of their own, because it is a setting of a broker; so do
        pops, whose notes lie in the log."""
        for works in ((Work.PULL, Work.SEND), (Work.POP, Work.POP_BATCH), (Work.SYNC,)):
            groups = [workloads for work in works if (workloads := self.plan.workloads(work))]
            if not groups:
                continue
            # Pulls come first: after gigabytes of sends, a broker takes the messages to pull for cold.
            with self._running(self.contestants, is_sync=Work.SYNC in works) as entrants:
                for entrant in entrants:
                    self._say(f"{entrant.server.label}: port {entrant.server.port}, process {entrant.server.pid}")
                    self._prepare(entrant, groups)
                for workloads in groups:
                    self._warm_up(entrants, workloads)
                    self._measure(entrants, workloads)
                for entrant in entrants:
                    measured = entrant.contestant.measured
                    measured.loaded_rss_mb = max(measured.loaded_rss_mb, rss_mb(entrant.server.pid))

    def measure_restarts(self) -> None:
        """After a kill, with a log that one file just holds."""
        for body in self.plan.bodies:
            for contestant in self.contestants:
                with self._folder() as folder:
                    restart = crash.restart(
                        self.program, contestant.start, folder, body=body, log_bytes=self.plan.crash_log_bytes
                    )
                contestant.measured.restarts[body] = restart
                self._say(f"{contestant.label}, killed, bodies of {body} B: {restart}")

    def measure_timers(self) -> None:
        """Messages that wait for their time: many, and many at once."""
        plan = self.plan
        for contestant in self.contestants:
            with self._folder() as folder:
                contestant.measured.timers = timers.measure(
                    contestant.start,
                    folder,
                    pending=plan.timers,
                    spread_s=plan.timers_spread_s,
                    watch_s=plan.timers_watch_s,
                    burst=plan.timers_burst,
                )
            self._say(f"{contestant.label}: {contestant.measured.timers}")

    @contextmanager
    def _running(self, contestants: Sequence[Contestant], *, is_sync: bool) -> Iterator[list[Entrant]]:
        """All of them, started one after the other, on stores that nobody needs afterwards."""
        entrants: list[Entrant] = []
        with self._folder() as folder:
            try:
                for index, contestant in enumerate(contestants):
                    server = contestant.start(folder / str(index), is_sync=is_sync)
                    entrants.append(Entrant(contestant, server))
                yield entrants
            finally:
                for entrant in entrants:
                    entrant.server.process.kill()

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """An empty folder; whoever writes to it must have ended when it goes."""
        folder = self.home / "stores"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _prepare(self, entrant: Entrant, groups: Sequence[Sequence[Workload]]) -> None:
        read = {Work.PULL, *POPS}
        bodies = sorted({load.body for loads in groups for load in loads if load.work in read})
        with Questions(entrant.server.port) as questions:
            for topic in (_SEND_TOPIC, *map(_pull_topic, bodies)):
                questions.create_topic(topic, QUEUES)
        for body in bodies:
            topic, fill = _pull_topic(body), Span(0, _FILL_TIMEOUT_S, self.plan.pull_messages)
            self._send(entrant.server, topic, _FILL_SHAPE, body, fill)
            with Questions(entrant.server.port) as questions:
                entrant.contestant.pull_depths[body] = min(questions.depths(topic, QUEUES))

    def _warm_up(self, entrants: Sequence[Entrant], workloads: Sequence[Workload]) -> None:
        """Load without a measurement; with a JVM, until the CPU per message no longer falls."""
        span = Span(0, self.plan.warm_up_s)
        for entrant in entrants:
            began, best_us, is_settled = time.monotonic(), float("inf"), False
            while not is_settled:
                results = [self._load(entrant, workload, span) for workload in workloads]
                self._say(f"warming up, {workloads[0]}, {entrant.contestant.label}: {tables.summary(results[0])}")
                cost_us, lasted_s = sum(one.server_cpu_us_per_message for one in results), time.monotonic() - began
                is_best = cost_us <= best_us * _SETTLED
                is_long = lasted_s > (self.plan.compiling_s_max if is_best else self.plan.compiling_s_min)
                is_settled = is_long or not entrant.contestant.is_compiling
                best_us = min(best_us, cost_us)

    def _measure(self, entrants: Sequence[Entrant], workloads: Sequence[Workload]) -> None:
        for number in range(self.plan.rounds):
            for workload in workloads:
                for entrant in _in_turn(entrants, number):
                    result = self._load(entrant, workload, Span(_SETTLE_S, self.plan.measure_s))
                    entrant.contestant.measured.loads.setdefault(workload, []).append(result)
                    shown = f"{workload}, {entrant.contestant.label}: {tables.summary(result)}"
                    self._say(f"round {number + 1}, {shown}")

    def _load(self, entrant: Entrant, workload: Workload, span: Span) -> LoadResult:
        if workload.work in POPS:
            return self._pop(entrant.server, workload, span)
        if workload.work is not Work.PULL:
            return self._send(entrant.server, _SEND_TOPIC, workload.shape, workload.body, span)
        return loadgen.pull_messages(
            self.program,
            entrant.server.target,
            workload.shape,
            span,
            topic=_pull_topic(workload.body),
            queues=QUEUES,
            depth=entrant.contestant.pull_depths[workload.body],
            batch=self.plan.batch,
        )

    def _pop(self, server: Server, workload: Workload, span: Span) -> LoadResult:
        with Questions(server.port) as questions:
            broker = questions.broker_name()
        return loadgen.pop_messages(
            self.program,
            server.target,
            workload.shape,
            span,
            topic=_pull_topic(workload.body),
            broker=broker,
            batch=self.plan.batch,
            is_batch_ack=workload.work is Work.POP_BATCH,
        )

    def _send(self, server: Server, topic: str, shape: Shape, body: int, span: Span) -> LoadResult:
        """Send, and see that the queues have grown by as many messages as were acknowledged."""
        before = _stored(server, topic)
        result = loadgen.send_messages(self.program, server.target, shape, span, topic=topic, queues=QUEUES, body=body)
        deadline = time.monotonic() + _STORED_TIMEOUT_S
        while (stored := _stored(server, topic) - before) < result.succeeded:
            if time.monotonic() > deadline:
                raise LoadError(f"{server.label} acknowledged {result.succeeded} messages and has {stored}")
            time.sleep(0.01)
        if stored > result.succeeded and not result.refusals:
            raise LoadError(f"{server.label} has {stored} messages and acknowledged only {result.succeeded}")
        return result

    def _say(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False)


def _stored(server: Server, topic: str) -> int:
    """How many messages the topic has ever got."""
    with Questions(server.port) as questions:
        return sum(questions.depths(topic, QUEUES))


def _pull_topic(body: int) -> str:
    return f"bench-pull-{body}"


def _in_turn(items: Sequence[_Item], number: int) -> Iterator[_Item]:
    """All, each round beginning with the next one."""
    for index in range(len(items)):
        yield items[(number + index) % len(items)]
