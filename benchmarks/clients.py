"""Our clients beside Apache's, in one run on the same broker: `python -m benchmarks.clients`, or `make bench-clients`.

Everything can be narrowed down, to look at one thing while working on it:

    python -m benchmarks.clients --broker ours --only rocketline --row "one caller" --rounds 1
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks import brokers, client_programs, loadgen, tables
from benchmarks.broker_contest import QUEUES
from benchmarks.brokers import Questions
from benchmarks.client_programs import Outcome, Program, ProgramError
from benchmarks.loadgen import LoadError, Shape, Span, Target
from benchmarks.servers import CACHE, RESULTS
from benchmarks.tables import Goal, Row
from rocketline.errors import RocketlineError
from rocketline.testing import apache
from rocketline.testing.server_process import LOOPBACK, free_port

_SEND_TOPIC, _FULL_TOPIC = "load-send", "load-full"
_CONSUME_TIMEOUT_S = 60
_NOT_THERE = float("nan")


@dataclass(frozen=True, slots=True)
class Load:
    """One line of the table: what our client is told, and what the others are."""

    name: str
    own: tuple[object, ...]
    others: tuple[object, ...]
    """A word that is None stands for the name of a new group."""
    goal: float | None = None
    """The multiple of the Java client's rate, on Apache's broker."""
    pops: bool = False
    """The broker is told that the group pops."""
    is_for_all: bool = True
    """If not, ours are compared with Java's alone: what the others do is in another line already."""


def _loads(plan: Plan) -> list[Load]:
    def send(name: str, own: str, others: str, callers: int, goal: float | None = None) -> Load:
        rest = callers, plan.measure_s, plan.body_bytes
        return Load(name, ("send", _SEND_TOPIC, own, *rest), ("send", _SEND_TOPIC, others, *rest), goal)

    def consume(name: str, own: str, batch: int, goal: float) -> Load:
        words = _FULL_TOPIC, None, batch, plan.full_messages, _CONSUME_TIMEOUT_S
        return Load(name, (own, *words), ("consume", *words), goal, is_for_all=own == "consume")

    def pop(name: str, own: str, batch: int) -> Load:
        words = _FULL_TOPIC, None, batch, plan.popped_messages, _CONSUME_TIMEOUT_S
        return Load(name, (own, *words), ("pop", *words), pops=True, is_for_all=False)

    return [
        send("one caller", "sync", "sync", 1, 1.3),
        send("8 threads", "sync", "sync", 8),
        send("64 threads", "sync", "sync", 64),
        send("64 asyncio tasks (others: threads)", "tasks", "sync", 64, 1.5),
        send("1,000 in flight", "async", "async", 1000, 1.5),
        consume("push, up to 32 messages a call", "consume", 32, 1.0),
        consume("push, one message a call", "consume", 1, 0.5),
        consume("push on asyncio, up to 32 a call (Java: threads)", "consume-on-loop", 32, 1.0),
        consume("push on asyncio, one a call (Java: threads)", "consume-on-loop", 1, 0.5),
        pop("POP push, up to 32 messages a call", "pop", 32),
        pop("POP push, one message a call", "pop", 1),
        pop("simple, 8 workers with 32 messages each (Java: POP push)", "simple", 32),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int = 3
    measure_s: float = 3
    body_bytes: int = 100
    full_messages: int = 300_000
    popped_messages: int = 100_000
    warm_ups: int = 1


@dataclass(slots=True)
class Client:
    """One that is compared, and what was measured of it: for each broker and line the outcomes of all rounds."""

    label: str
    start: Callable[[str, Path], Program]
    is_own: bool = False
    is_measure: bool = False
    """The others are shown as multiples of this one."""
    outcomes: dict[tuple[str, str], list[Outcome]] = field(default_factory=dict)

    def values(self, broker: str, name: str) -> tuple[float, float]:
        found = self.outcomes.get((broker, name))
        if not found:
            return _NOT_THERE, _NOT_THERE
        return median(outcome.rate for outcome in found), median(outcome.cpu_us for outcome in found)


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the clients work: its name servers, its port and its process."""

    label: str
    name_servers: str
    target: Target


class Contest:
    """Clients take turns at every load, so that whatever else the machine does hits all alike."""

    def __init__(self, plan: Plan, loads: Sequence[Load], clients: Sequence[Client], console: Console) -> None:
        self._plan, self._loads, self._clients, self._console = plan, loads, clients, console
        self._groups = 0

    def run(self, broker: Broker, generator: Path, home: Path) -> None:
        """Everything on one broker."""
        self._fill(broker, generator)
        with ExitStack() as stack:
            running = [
                (
                    client,
                    stack.enter_context(client.start(broker.name_servers, home / f"{broker.label}-{client.label}")),
                )
                for client in self._clients
            ]
            for round_number in range(-self._plan.warm_ups, self._plan.rounds):
                turns = running if round_number % 2 else running[::-1]
                for load in self._loads:
                    for client, program in turns:
                        if not (load.is_for_all or client.is_own or client.is_measure):
                            continue
                        self._measure(broker, load, client, program, round_number + 1)

    def _fill(self, broker: Broker, generator: Path) -> None:
        with Questions(broker.target.port) as questions:
            for topic in (_SEND_TOPIC, _FULL_TOPIC):
                questions.create_topic(topic, QUEUES)
        span = Span(0, 120, self._plan.full_messages)
        body = self._plan.body_bytes
        loadgen.send_messages(generator, broker.target, Shape(8, 64), span, topic=_FULL_TOPIC, queues=QUEUES, body=body)

    def _measure(self, broker: Broker, load: Load, client: Client, program: Program, round_number: int) -> None:
        self._groups += 1
        group = f"load-{os.getpid()}-{self._groups}"
        words = [group if word is None else word for word in (load.own if client.is_own else load.others)]
        where = f"{broker.label}, {load.name}, {client.label}"
        if load.pops:
            with Questions(broker.target.port) as questions:
                questions.let_pop(_FULL_TOPIC, group)
        try:
            outcome = program.run(*words)
        except ProgramError as error:
            if client.is_own:
                raise ProgramError(f"{where}: {error}") from error
            self._console.print(f"{where}: {error}", highlight=False)  # one that ends by itself is not measured
            return
        if outcome.failures and client.is_own:
            raise ProgramError(f"{where}: {outcome.failures} failures, such as: {outcome.problem}")
        told = f"{outcome.rate:,.0f}/s, {outcome.cpu_us:.1f} µs of the client's CPU"
        if outcome.failures:
            told += f", {outcome.failures} failures, such as: {outcome.problem}"
        if round_number < 1:
            self._console.print(f"warm-up, {where}: {told}", highlight=False)
            return
        client.outcomes.setdefault((broker.label, load.name), []).append(outcome)
        self._console.print(f"round {round_number}, {where}: {told}", highlight=False)


def rows(loads: Sequence[Load], labels: Sequence[str], clients: Sequence[Client]) -> list[Row]:
    """Of every load the rate and the cost; goals count on the first broker, which is Apache's."""
    lines = []
    for label in labels:
        for load in loads:
            rates, costs = zip(*(client.values(label, load.name) for client in clients), strict=True)
            has_goal = load.goal is not None and label == labels[0] and label != _OURS
            goal = Goal(limit=load.goal or 0, is_ratio=True, is_more_better=True) if has_goal else None
            section = f"{load.name}\non {label}"
            lines.append(Row(section=section, name="messages per second", values=rates, is_more_better=True, goal=goal))
            lines.append(Row(section=section, name="client CPU per message, µs", values=costs))
    return lines


_APACHE_BROKER, _OURS = "Apache's broker", "our broker"
_BROKERS = {"apache": _APACHE_BROKER, "ours": _OURS}
_CLIENTS = ("java", "rocketline", "plain", "go", "cpp")
_DEFAULT_CLIENTS = ("java", "rocketline", "go", "cpp")


def _client(name: str, release: apache.Release) -> Client:
    match name:
        case "java":
            return Client(f"Java {release.version}", partial(client_programs.start_java, release), is_measure=True)
        case "go":
            return Client("Go 2.1.2", client_programs.start_go)
        case "cpp":
            return Client("C++ binding 0.4.4", client_programs.start_cpp)
    has_speed = name == "rocketline"
    label = "Rocketline" if has_speed else "Rocketline, no extra"
    return Client(label, partial(client_programs.start_own, has_speed=has_speed), is_own=True)


def _before(checkout: Path) -> Client:
    """Ours, as it is in another checkout."""
    start = partial(client_programs.start_own, has_speed=True, checkout=checkout.resolve(strict=True))
    return Client(checkout.name, start, is_own=True)


def _start_broker(name: str, release: apache.Release, home: Path, stack: ExitStack) -> Broker:
    if name == "apache":
        name_server = stack.enter_context(apache.ApacheNameServer(release, home / "name-server"))
        server = brokers.start_apache(release, [name_server.address], home / "apache")
        address = name_server.address
    else:
        port = free_port()
        server = brokers.start_rocketline(home / "ours", has_speed=True, name_server_port=port)
        address = f"{LOOPBACK}:{port}"
    stack.callback(server.process.close)
    return Broker(_BROKERS[name], address, server.target)


def _parse() -> argparse.Namespace:
    names = [load.name for load in _loads(Plan())]
    parser = argparse.ArgumentParser(description="Our clients beside Apache's.")
    parser.add_argument("--broker", action="append", choices=list(_BROKERS), help="on this broker only")
    parser.add_argument("--only", action="append", choices=_CLIENTS, help="this client; may be given again")
    parser.add_argument("--bare", action="store_true", help="also ours without any extra package")
    parser.add_argument(
        "--before",
        action="append",
        default=[],
        type=Path,
        metavar="CHECKOUT",
        help="ours beside the code in another checkout of it; may be given again",
    )
    parser.add_argument("--row", action="append", choices=names, help="this load only; may be given again")
    parser.add_argument("--rounds", type=int, default=Plan().rounds, help="that the medians are taken of")
    parser.add_argument("--seconds", type=float, default=Plan().measure_s, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="one short round of all, to see that it works")
    return parser.parse_args()


def main() -> None:
    """Measure, print the table; keep the figures if everything was measured."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # and so end what was started, like a Ctrl-C
    asked, console = _parse(), Console(width=None if sys.stdout.isatty() else 160)
    plan = Plan(rounds=asked.rounds, measure_s=asked.seconds)
    if asked.quick:
        plan = Plan(rounds=1, measure_s=1, full_messages=30_000, popped_messages=30_000, warm_ups=0)
    loads = [load for load in _loads(plan) if not asked.row or load.name in asked.row]
    usual = ("rocketline",) if asked.before else _DEFAULT_CLIENTS
    wanted = asked.only or (*usual, *(["plain"] if asked.bare else []))
    names = asked.broker or list(_BROKERS)
    problem = None
    with tempfile.TemporaryDirectory(prefix="rocketline-bench-") as folder:
        try:
            generator, release = loadgen.build(CACHE), apache.fetch()
            before = [_before(checkout) for checkout in asked.before]
            clients = before + [_client(name, release) for name in _CLIENTS if name in wanted]
            contest = Contest(plan, loads, clients, console)
            for name in names:
                with ExitStack() as stack:
                    contest.run(_start_broker(name, release, Path(folder), stack), generator, Path(folder))
        except (LoadError, RocketlineError, OSError) as error:
            problem = str(error)
    labels = [_BROKERS[name] for name in names]
    lines = rows(loads, labels, clients) if not problem else []
    if problem:
        sys.exit(f"The benchmark could not be finished. {problem}")
    is_compared = bool(asked.before or "java" in wanted) and len(clients) > 1
    measure = asked.before[0].name if asked.before else "the Java client"
    title = f"Clients: medians, and as a multiple of those of {measure}"
    console.print(tables.table(title, lines, [client.label for client in clients], is_compared=is_compared))
    if not (asked.quick or asked.row or asked.only or asked.broker or asked.before):
        _save(plan, lines, clients, console)


def _save(plan: Plan, lines: Sequence[Row], clients: Sequence[Client], console: Console) -> None:
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    path = RESULTS / f"clients-{date}.json"
    labels = [client.label for client in clients]
    document: dict[str, Any] = {
        "date": date,
        "rounds": plan.rounds,
        "seconds": plan.measure_s,
        "body_bytes": plan.body_bytes,
        "medians": [tables.row_values(line, labels) for line in lines],
    }
    tables.save(path, document)
    console.print(f"All figures: benchmarks/results/{path.name}", highlight=False)


if __name__ == "__main__":
    main()
