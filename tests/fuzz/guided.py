"""Feeds every decoder what atheris makes of its seeds, guided by coverage: `python -m fuzz.guided --seconds 60`.

One process per decoder, because libFuzzer ends its process; two at a time. A finding is printed as hex with its
traceback, and ends the run with status 1.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

PROCESSES = 2
INPUT_BYTES_MAX = 1 << 16
_EXECUTED = re.compile(r"stat::number_of_executed_units: *(\d+)")
_COVERED = re.compile(r"cov: (\d+)")


class Run(NamedTuple):
    """What became of one decoder."""

    name: str
    inputs: int
    covered: int
    problem: str


def fuzz_one(name: str, seconds: float, folder: Path) -> None:
    """Fuzz the decoder of this name in this process, which then ends."""
    import atheris

    with atheris.instrument_imports(include=["rocketline"]):
        from fuzz.targets import REFUSALS, all_targets
    (target,) = [target for target in all_targets() if target.name == name]
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / f"{number}").write_bytes(seed)

    def try_input(data: bytes) -> None:
        with contextlib.suppress(*REFUSALS):
            target.decode(data)

    limits = [f"-max_total_time={max(1, round(seconds))}", "-timeout=5", "-rss_limit_mb=2048"]
    output = [f"-max_len={INPUT_BYTES_MAX}", "-print_final_stats=1", f"-artifact_prefix={folder}/found-"]
    atheris.Setup([sys.argv[0], *limits, *output, str(corpus)], try_input)
    atheris.Fuzz()


def run_one(name: str, seconds: float) -> Run:
    with tempfile.TemporaryDirectory(prefix="rocketline-fuzz-") as folder:
        command = [sys.executable, "-m", "fuzz.guided", "--one", name, "--seconds", str(seconds), "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        found = [path.read_bytes().hex() for path in Path(folder).glob("found-*")]
    text = done.stdout + done.stderr
    inputs, covered = _EXECUTED.findall(text), _COVERED.findall(text)
    problem = "" if done.returncode == 0 else "\n".join([*text.splitlines()[-30:], *found])
    run = Run(name, int(inputs[-1]) if inputs else 0, int(covered[-1]) if covered else 0, problem)
    print(f"{name:28}{run.inputs:>10}{run.covered:>10}{'  FOUND' if problem else ''}", flush=True)
    return run


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.guided", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long, for all decoders together (60)")
    parser.add_argument("--only", default="", metavar="NAME", help="only decoders whose names contain this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        fuzz_one(options.one, options.seconds, options.folder)
    from fuzz.targets import all_targets  # only now: the process of one decoder imports it watched

    names = [target.name for target in all_targets() if options.only in target.name]
    each_s = options.seconds * PROCESSES / (len(names) or 1)
    print(f"{len(names)} decoders, {each_s:.0f} s each\n{'decoder':28}{'inputs':>10}{'branches':>10}", flush=True)
    with ThreadPoolExecutor(PROCESSES) as pool:
        runs = list(pool.map(lambda name: run_one(name, each_s), names))
    findings = [run for run in runs if run.problem]
    for run in findings:
        print(f"\n{run.name}\n{run.problem}")
    print(f"\n{sum(run.inputs for run in runs)} inputs at {len(runs)} decoders: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
