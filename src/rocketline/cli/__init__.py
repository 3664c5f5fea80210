"""The command `rocketline`. Needs the extra `cli`."""

from rocketline.cli.entry import main

__all__ = ["main"]
