"""Where the command starts, with or without the packages that it needs."""

from __future__ import annotations

import sys

from rocketline.errors import MissingExtraError

_INTERRUPTED = 130
"""The status that shells give a command ended by Ctrl-C: here, one that had not begun."""
_PACKAGES = {"click": "Click", "rich": "Rich"}


def main() -> None:
    """Run the command line; without the extra `cli`, say in one line how to install it."""
    try:
        import rich  # noqa: F401  # named here rather than in the middle of a command

        from rocketline.cli.commands import rocketline
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        sys.exit(str(MissingExtraError("The rocketline command", _PACKAGES[error.name], "cli")))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    rocketline()
