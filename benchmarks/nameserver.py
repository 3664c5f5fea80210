"""Our name server beside Apache's, in one run: `python -m benchmarks.nameserver`, or `make bench`.

All servers stay up for the whole run and take turns: every round loads each of them in each shape, in an order that
moves on with the round. What else the machine does thus hits all alike, and the medians of the rounds compare.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from benchmarks import loadgen, tables
from benchmarks import nameserver_report as report
from benchmarks.loadgen import LoadError, LoadResult, Shape, Span
from benchmarks.nameserver_report import Measured, Registration
from benchmarks.registration import Registrar, topic_names
from benchmarks.servers import CACHE, RESULTS, Server, rss_mb, start_apache, start_rocketline
from rocketline.errors import RocketlineError
from rocketline.testing import apache

Start: TypeAlias = Callable[[Path], Server]
"""Starts a server whose files go to the folder handed in."""

_PREFIX = "bench"
_SETTLED = 0.95
"""A turn of the warm-up that costs more than this share of the best one before was the last."""
_SETTLE_S = 1
"""Load before each measurement, so that it begins with everything connected and running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int = 3
    measure_s: float = 5
    warm_up_s: float = 5
    """Load in each shape, again and again, until a server gets no better at it."""
    warm_up_turns_min: int = 3
    warm_up_turns_max: int = 12
    shapes: tuple[Shape, ...] = (Shape(16, 8), Shape(64, 1), Shape(1, 64))
    topics: int = 1_000
    registered_topics: int = 10_000
    registration_warm_ups: int = 5


QUICK = Plan(rounds=1, measure_s=2, warm_up_s=2, warm_up_turns_min=1, warm_up_turns_max=1, registration_warm_ups=1)
"""To see that it works, not to quote from."""


@dataclass(slots=True)
class Contestant:
    """A server, the broker that registered its topics with it, and what was measured."""

    server: Server
    broker: Registrar
    measured: Measured


@dataclass(slots=True)
class Contest:
    """The comparison. Its public methods are called once each, in the order in which they stand here."""

    plan: Plan
    program: Path
    console: Console
    contestants: list[Contestant] = field(default_factory=list)

    def measure_starts(self, starts: Sequence[Start], home: Path, stack: ExitStack) -> None:
        """Start all servers, Apache's first, once in every round. Those of the last take part; `stack` ends them."""
        start_ms: list[list[float]] = [[] for _ in starts]
        for number in range(self.plan.rounds):
            for index, start in enumerate(starts):
                server = start(home / f"{index}-{number}")
                start_ms[index].append(server.start_s * 1e3)
                self._say(f"{server.label}: first answer after {server.start_s * 1e3:.0f} ms")
                if number + 1 < self.plan.rounds:
                    server.process.close()
                else:
                    self._enter(server, start_ms[index], stack)

    def _enter(self, server: Server, start_ms: list[float], stack: ExitStack) -> None:
        stack.callback(server.process.close)
        broker = stack.enter_context(Registrar(server.port))
        broker.register(topic_names(_PREFIX, self.plan.topics), version=1)
        measured = Measured(label=server.label, start_ms=start_ms, idle_rss_mb=server.idle_rss_mb)
        self.contestants.append(Contestant(server, broker, measured))

    def check_answers(self) -> None:
        """Only the same answer may be compared in speed: look at a few routes, field by field."""
        for topic in (f"{_PREFIX}-0", f"{_PREFIX}-{self.plan.topics - 1}"):
            routes = [contestant.broker.route(topic) for contestant in self.contestants]
            if None in routes or any(route != routes[0] for route in routes):
                raise LoadError(f"the servers give different routes for {topic}: {routes}")

    def warm_up(self) -> None:
        """Load without a measurement, until the CPU per query no longer falls: a JVM is still compiling before that."""
        for contestant in self.contestants:
            best_us = float("inf")
            for turn in range(self.plan.warm_up_turns_max):
                results = [self._load(contestant.server, shape, self.plan.warm_up_s) for shape in self.plan.shapes]
                cost_us = results[0].server_cpu_us_per_request
                self._say(f"warming up, {contestant.server.label}: {tables.summary(results[0])}")
                if turn + 1 >= self.plan.warm_up_turns_min and cost_us > best_us * _SETTLED:
                    break
                best_us = min(best_us, cost_us)

    def measure_loads(self) -> None:
        """Route queries, all shapes, all servers in turn."""
        for number in range(self.plan.rounds):
            for shape in self.plan.shapes:
                for contestant in self._in_turn(number):
                    result = self._load(contestant.server, shape, self.plan.measure_s)
                    contestant.measured.loads.setdefault(shape, []).append(result)
                    self._say(f"round {number + 1}, {shape}, {contestant.server.label}: {tables.summary(result)}")
        for contestant in self.contestants:
            contestant.measured.loaded_rss_mb = rss_mb(contestant.server.pid)

    def measure_registrations(self) -> None:
        """A broker with many topics, all servers in turn."""
        for number in range(-self.plan.registration_warm_ups, self.plan.rounds):
            for contestant in self._in_turn(number):
                result = self._register(contestant)
                if number < 0:
                    continue
                contestant.measured.registrations.append(result)
                contestant.measured.longest_query_ms.append(self._longest_query_ms(contestant.server))
                self._say(f"round {number + 1}, registering, {contestant.server.label}: {result.first_ms:.0f} ms")

    def _in_turn(self, number: int) -> Iterator[Contestant]:
        for index in range(len(self.contestants)):
            yield self.contestants[(number + index) % len(self.contestants)]

    def _load(self, server: Server, shape: Shape, measure_s: float) -> LoadResult:
        for contestant in self.contestants:
            contestant.broker.heartbeat()
        return loadgen.ask_routes(
            self.program,
            server.target,
            shape,
            Span(_SETTLE_S, measure_s),
            prefix=_PREFIX,
            topics=self.plan.topics,
        )

    def _register(self, contestant: Contestant) -> Registration:
        """A broker comes with many topics, says the same again, then something new, and is lost."""
        topics = topic_names("many", self.plan.registered_topics)
        witness = contestant.broker
        with Registrar(contestant.server.port, broker_name="many", broker_port=20911) as broker:
            first_s = broker.register(topics, version=1)
            served_s = first_s + _seconds_until(witness, topics[-1], is_known=True)
            unchanged_s = broker.register(topics, version=1)
            changed_s = broker.register(topics, version=2)
        gone_s = _seconds_until(witness, topics[-1], is_known=False)
        return Registration(
            first_ms=first_s * 1e3,
            served_ms=served_s * 1e3,
            unchanged_ms=unchanged_s * 1e3,
            changed_ms=changed_s * 1e3,
            gone_ms=gone_s * 1e3,
        )

    def _longest_query_ms(self, server: Server) -> float:
        """What a few clients notice of a registration with many topics."""
        topics = topic_names("many", self.plan.registered_topics)
        with (
            Registrar(server.port, broker_name="many", broker_port=20911) as broker,
            ThreadPoolExecutor(max_workers=1) as pool,
        ):
            load = pool.submit(self._load, server, Shape(4, 1), 1)
            time.sleep(_SETTLE_S + 0.5)
            broker.register(topics, version=1)
            return load.result().max_us / 1e3

    def _say(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False)


def _seconds_until(witness: Registrar, topic: str, *, is_known: bool) -> float:
    began = time.perf_counter()
    while (witness.route(topic) is not None) != is_known:
        if time.perf_counter() - began > 30:
            raise LoadError(f"after 30 s the route of {topic} is still {'missing' if is_known else 'there'}")
    return time.perf_counter() - began


def run(plan: Plan, console: Console) -> list[Measured]:
    """Start the servers, measure, end them."""
    program = loadgen.build(CACHE)
    release = apache.fetch()
    contest = Contest(plan, program, console)
    with tempfile.TemporaryDirectory(prefix="rocketline-bench-") as folder, ExitStack() as stack:
        ours = [partial(start_rocketline, has_speed=has_speed) for has_speed in (True, False)]
        contest.measure_starts([partial(start_apache, release), *ours], Path(folder), stack)
        contest.check_answers()
        contest.warm_up()
        contest.measure_loads()
        contest.measure_registrations()
    return [contestant.measured for contestant in contest.contestants]


def main() -> None:
    """Measure, print the table, keep the figures."""
    parser = argparse.ArgumentParser(description="Our name server beside Apache's.")
    parser.add_argument("--quick", action="store_true", help="one short round, and no file")
    parser.add_argument("--rounds", type=int, help="how many rounds the medians are taken of (default 3)")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan()
    plan = replace(plan, rounds=asked.rounds or plan.rounds)
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        measured = run(plan, console)
    except (LoadError, RocketlineError, OSError) as error:
        sys.exit(f"The benchmark could not be finished. {error}")
    except KeyboardInterrupt:
        sys.exit("Stopped.")
    lines = list(report.rows(measured, plan.registered_topics))
    console.print(tables.table(report.TITLE, lines, [server.label for server in measured]))
    if asked.quick:
        console.print("A quick run shows that everything works. It is too short to compare anything.")
    else:
        runs = (run for server in measured for runs in server.loads.values() for run in runs)
        for line in (*report.goal_lines(measured), tables.noise_line(runs)):
            console.print(line, highlight=False)
        date = dt.datetime.now(tz=dt.UTC).date().isoformat()
        path = RESULTS / f"nameserver-{date}.json"
        tables.save(path, report.document(date, asdict(plan), measured, lines))
        console.print(f"All figures: benchmarks/results/{path.name}", highlight=False)


if __name__ == "__main__":
    main()
