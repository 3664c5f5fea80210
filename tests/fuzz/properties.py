"""Has the property tests look for new examples: `make fuzz`, or `python -m fuzz.properties --seconds 60 --only store`.

In `make test` they try the same examples every time. Here they run in rounds until the time is over, each with another
seed, which is printed, and with more examples. A round that fails ends the run with status 1 and with the command that
finds the same again.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).parents[2]
PROFILE = "explore"
"""Of Hypothesis; `tests/conftest.py` has it."""
TEST_SECONDS_MAX = 1800
_SUMMARY = re.compile(r"^=*\s*(\d+ (?:passed|failed).*?)\s*=*$", re.MULTILINE)


def command(seed: int, only: str) -> list[str]:
    """One round. It tries the same examples as any other with this seed."""
    explore = [f"--hypothesis-profile={PROFILE}", f"--hypothesis-seed={seed}", f"--timeout={TEST_SECONDS_MAX}"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-n2", "--show-capture=no"]
    return [*pytest, *explore, *(["-k", only] if only else []), "tests/property"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.properties", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="no round begins after them (60)")
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose names match this, as pytest's -k")
    parser.add_argument("--seed", type=int, help="of the first round; repeats it")
    options = parser.parse_args()
    end_s = time.monotonic() + options.seconds
    for number in count(1):
        seed = options.seed if options.seed is not None and number == 1 else SystemRandom().getrandbits(32)
        print(f"property tests, round {number}: --hypothesis-seed={seed}", flush=True)
        words = command(seed, options.only)
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            print(f"{done.stdout}\nThe same again: {shlex.join(words)}")
            return 1
        print(f"  {''.join(_SUMMARY.findall(done.stdout)[-1:])}", flush=True)
        if time.monotonic() > end_s:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
