"""Feeds damaged bytes to every decoder for a while: `make fuzz`, or `python -m fuzz --seconds 60 --only frame`.

An input that is answered in a new way (another kind of value, another refusal) joins the inputs that are damaged next,
so the search works its way inwards. Whatever a decoder raises besides a refusal, takes too long over, or needs too
much memory for, is a finding: it is made smaller, printed as hex, and ends the run with status 1.
"""

from __future__ import annotations

import argparse
import re
import resource
import signal
import sys
import time
from random import Random
from types import FrameType
from typing import NamedTuple

from fuzz.broker_targets import close_brokers
from fuzz.mutation import mutate
from fuzz.targets import REFUSALS, Target, all_targets

INPUT_SECONDS_MAX = 2.0
MEMORY_BYTES_MAX = 2 * 1024**3
TURN_SECONDS_MAX = 0.25
CORPUS_MAX = 2000
FINDINGS_MAX = 20


class Finding(NamedTuple):
    """An input that a decoder neither read nor refused."""

    target: str
    problem: str
    data: bytes


class Campaign:
    """One decoder, the inputs worth damaging, and what came of them."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.corpus = list(target.seeds)
        self.answers: set[str] = set()
        self.inputs = 0
        self.findings: dict[str, Finding] = {}
        for seed in target.seeds:
            self.try_input(seed)

    def run(self, random: Random, until: float) -> None:
        while time.monotonic() < until and len(self.findings) < FINDINGS_MAX:
            for _ in range(20):
                self.try_input(mutate(random, random.choice(self.corpus), random.choice(self.corpus)))

    def try_input(self, data: bytes) -> None:
        self.inputs += 1
        answer, is_bug = outcome(self.target, data)
        if is_bug and answer not in self.findings:
            self.findings[answer] = Finding(self.target.name, answer, smaller(self.target, data, answer))
        elif answer not in self.answers and len(self.corpus) < CORPUS_MAX:
            self.answers.add(answer)
            self.corpus.append(data)


def outcome(target: Target, data: bytes) -> tuple[str, bool]:
    """How the decoder answers, in words that leave out the input's own; and whether that is a bug."""
    signal.setitimer(signal.ITIMER_REAL, INPUT_SECONDS_MAX)
    try:
        return type(target.decode(data)).__name__, False
    except REFUSALS as error:
        return re.sub(r"['\"].*|0x[0-9a-f]+|[0-9A-F]{8,}|[0-9]+", "_", str(error), flags=re.DOTALL), False
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what we look for
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = f"{at.tb_frame.f_code.co_filename.rpartition('/')[2]}:{at.tb_lineno}" if at is not None else "?"
        return f"{type(error).__name__} at {place}", True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def smaller(target: Target, data: bytes, problem: str) -> bytes:
    """Pieces that do not matter for `problem` are taken out, large ones first."""
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if outcome(target, shorter) == (problem, True):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def stop_input(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"one input took more than {INPUT_SECONDS_MAX} s")


def report(campaigns: list[Campaign]) -> int:
    findings = [finding for campaign in campaigns for finding in campaign.findings.values()]
    print(f"\n{'decoder':28}{'inputs':>10}{'ways to answer':>16}{'findings':>10}")
    for campaign in campaigns:
        counts = f"{campaign.inputs:>10}{len(campaign.answers):>16}{len(campaign.findings):>10}"
        print(f"{campaign.target.name:28}{counts}")
    for finding in findings:
        print(f"\n{finding.target}: {finding.problem}\n  {finding.data[:2000].hex() or '(no bytes)'}")
    inputs = sum(campaign.inputs for campaign in campaigns)
    print(f"\n{inputs} inputs at {len(campaigns)} decoders: {len(findings)} findings")
    return 1 if findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long, for all decoders together (60)")
    parser.add_argument("--only", default="", metavar="NAME", help="only decoders whose names contain this")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="repeats a run's random choices")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, stop_input)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    campaigns = [Campaign(target) for target in all_targets() if options.only in target.name]
    random, end = Random(options.seed), time.monotonic() + options.seconds
    print(f"{len(campaigns)} decoders, {options.seconds:g} s, --seed {options.seed}", flush=True)
    turn = min(TURN_SECONDS_MAX, options.seconds / (2 * len(campaigns) or 1))  # everyone has two turns at least
    while campaigns and (left := end - time.monotonic()) > 0:
        for campaign in campaigns:
            campaign.run(random, min(end, time.monotonic() + turn))
        findings = sum(len(campaign.findings) for campaign in campaigns)
        inputs = sum(campaign.inputs for campaign in campaigns)
        print(f"{left:6.0f} s left  {inputs:>10} inputs  {findings} findings", flush=True)
    close_brokers()
    return report(campaigns)


if __name__ == "__main__":
    sys.exit(main())
