"""Our broker beside Apache's, in one run: `python -m benchmarks.broker`, or `make bench-broker`.

Everything can be narrowed down, to look at one thing while working on it:

    python -m benchmarks.broker --only ours --work send --shape 8x64 --body 100 --seconds 5 --rounds 1
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import broker_report as report
from benchmarks import loadgen, tables
from benchmarks.broker_contest import Contest, Contestant, Plan
from benchmarks.broker_report import Measured, Work
from benchmarks.brokers import start_apache, start_rocketline
from benchmarks.loadgen import LoadError, Shape
from benchmarks.servers import CACHE, RESULTS, rocketline_label
from benchmarks.tables import Row
from rocketline.errors import RocketlineError
from rocketline.testing import apache

_NAMES = _APACHE, _OURS, _BARE = "apache", "ours", "bare"
_PARTS = ("starts", "loads", "crash", "timers")
QUICK = Plan(
    rounds=1,
    measure_s=1,
    warm_up_s=1,
    compiling_s_min=0,
    compiling_s_max=0,
    pull_messages=20_000,
    crash_log_bytes=64 << 20,
    timers=20_000,
    timers_spread_s=120,
    timers_watch_s=20,
    timers_burst=5_000,
)
"""To see that it works, not to quote from."""


def run(contest: Contest, parts: Sequence[str]) -> str | None:
    """Measure the `parts`. Why it ended early, if it did: what was measured before is still worth a look."""
    measure = {
        "starts": contest.measure_starts,
        "loads": contest.measure_loads,
        "crash": contest.measure_restarts,
        "timers": contest.measure_timers,
    }
    try:
        for part in parts:
            measure[part]()
    except (LoadError, RocketlineError, OSError) as error:
        return str(error)
    except KeyboardInterrupt:
        return "It was stopped."
    return None


def _contestant(name: str, home: Path, stack: ExitStack) -> Contestant:
    if name == _APACHE:
        release = apache.fetch()
        name_server = stack.enter_context(apache.ApacheNameServer(release, home / "name-server"))
        start = partial(start_apache, release, [name_server.address])
        return Contestant(start=start, measured=Measured(label=f"Apache {release.version}"), is_compiling=True)
    has_speed = name == _OURS
    measured = Measured(label=rocketline_label(has_speed=has_speed))
    return Contestant(start=partial(start_rocketline, has_speed=has_speed), measured=measured, is_compiling=False)


def _before(checkout: Path) -> Contestant:
    """Ours, as it is in another checkout."""
    start = partial(start_rocketline, has_speed=True, checkout=checkout.resolve(strict=True))
    return Contestant(start=start, measured=Measured(label=checkout.name), is_compiling=False)


def _shape(text: str) -> Shape:
    found = re.fullmatch(r"(\d+)[x×](\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"a shape is CONNECTIONSxIN_FLIGHT, such as 8x64, not {text!r}")
    return Shape(int(found[1]), int(found[2]))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our broker beside Apache's.")
    parser.add_argument("--only", action="append", choices=_NAMES, help="this broker; may be given again")
    parser.add_argument("--bare", action="store_true", help="also ours without any extra package")
    parser.add_argument(
        "--before",
        action="append",
        default=[],
        type=Path,
        metavar="CHECKOUT",
        help="ours beside the code in another checkout of it; may be given again",
    )
    parser.add_argument("--part", action="append", choices=_PARTS, help="this part; may be given again")
    parser.add_argument("--work", action="append", type=Work, choices=list(Work), help="this load only")
    parser.add_argument("--shape", action="append", type=_shape, help="CONNECTIONSxIN_FLIGHT only, such as 8x64")
    parser.add_argument("--body", action="append", type=int, help="bodies of this many bytes only")
    parser.add_argument("--rounds", type=int, help=f"that the medians are taken of (default {Plan().rounds})")
    parser.add_argument("--seconds", type=float, help=f"of each measurement (default {Plan().measure_s})")
    parser.add_argument("--quick", action="store_true", help="one short round of all, to see that it works")
    return parser.parse_args()


def _plan(asked: argparse.Namespace) -> Plan:
    plan = QUICK if asked.quick else Plan()
    shapes = tuple(asked.shape or plan.shapes)
    return replace(
        plan,
        rounds=asked.rounds or plan.rounds,
        measure_s=asked.seconds or plan.measure_s,
        works=tuple(asked.work or ([Work.SEND] if asked.shape else plan.works)),
        shapes=shapes,
        sync_shapes=shapes if asked.shape else plan.sync_shapes,
        pop_shapes=shapes if asked.shape else plan.pop_shapes,
        bodies=tuple(asked.body or plan.bodies),
    )


def main() -> None:
    """Measure, print the table; keep the figures if everything was measured."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # and so end what was started, like a Ctrl-C
    asked, console = _parse(), Console(width=None if sys.stdout.isatty() else 140)
    is_narrowed = any((asked.work, asked.shape, asked.body, asked.part, asked.only, asked.before))
    usual = (_OURS,) if asked.before else (_APACHE, _OURS)
    names = [name for name in _NAMES if name in (asked.only or usual) or (name == _BARE and asked.bare)]
    parts = asked.part or (["loads"] if any((asked.work, asked.shape, asked.body)) else _PARTS)
    plan = _plan(asked)
    with tempfile.TemporaryDirectory(prefix="rocketline-bench-") as folder, ExitStack() as stack:
        try:
            program = loadgen.build(CACHE)
            before = [_before(checkout) for checkout in asked.before]
            contestants = before + [_contestant(name, Path(folder), stack) for name in names]
        except (LoadError, RocketlineError, OSError) as error:
            sys.exit(f"The benchmark could not begin. {error}")
        problem = run(Contest(plan, program, Path(folder), contestants, console), parts)
    measured = [contestant.measured for contestant in contestants]
    lines, labels = list(report.rows(measured, plan.crash_log_bytes)), [broker.label for broker in measured]
    is_contest = _APACHE in names and len(names) > 1
    title = report.TITLE if is_contest else "Medians"
    console.print(tables.table(title, lines, labels, is_compared=is_contest or bool(asked.before)))
    if problem:
        sys.exit(f"The benchmark could not be finished. {problem}")
    if asked.quick:
        console.print("A quick run shows that everything works. It is too short to compare anything.")
        return
    for line in _closing_lines(measured, lines, labels, is_contest=is_contest):
        console.print(line, highlight=False)
    if not is_narrowed:
        date = dt.datetime.now(tz=dt.UTC).date().isoformat()
        path = RESULTS / f"broker-{date}.json"
        tables.save(path, report.document(date, asdict(plan), measured, lines))
        console.print(f"All figures: benchmarks/results/{path.name}", highlight=False)


def _closing_lines(
    measured: Sequence[Measured], lines: Sequence[Row], labels: Sequence[str], *, is_contest: bool
) -> Iterator[str]:
    if is_contest:
        yield from report.goal_lines(lines, labels)
    runs = [run for broker in measured for runs in broker.loads.values() for run in runs]
    if runs:
        yield tables.noise_line(runs)


if __name__ == "__main__":
    main()
