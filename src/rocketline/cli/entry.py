"""Where the command starts, with or without the packages that it needs."""

from __future__ import annotations

import gc
import io
import os
import sys
from pathlib import Path

from rocketline.errors import MissingExtraError

INTERRUPTED = 130
"""The status that shells give a command ended by Ctrl-C."""
_GC_THRESHOLDS = (100_000, 50, 100)
"""A server makes many objects and hardly a cycle among them, and what is imported stays. To look for cycles after every
700, as Python does by itself, took a tenth of its start and of its work."""
_PACKAGES = {"click": "Click", "rich": "Rich"}


def main() -> None:
    """Run the command line; without the extra `cli`, say in one line how to install it."""
    gc.set_threshold(*_GC_THRESHOLDS)
    _prepare_streams()
    try:
        import rich  # noqa: F401  # named here rather than in the middle of a command

        from rocketline.cli.commands import rocketline
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        sys.exit(str(MissingExtraError("The rocketline command", _PACKAGES[error.name], "cli")))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)  # before any command had begun
    try:
        rocketline()
    finally:
        gc.freeze()  # to look for cycles among what is left would take a second of a large server's end


def _prepare_streams() -> None:
    """Give a program that was started without standard streams some, and print what a terminal cannot show as "?".

    The number of a missing stream would go to a socket, and the loop of uvloop aborts when it is to close such a one.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # open as long as the process is
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
