"""A command that runs a server, as a user starts it: in a child process that is gone after the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`rocketline ARGUMENTS` for a user whose home is `home`; warnings are errors."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("ROCKETLINE_", "XDG_"))}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "rocketline", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"HOME": str(home)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()
