"""The command `rocketline`. Needs the extra `cli`.

It starts in `entry`, which says what to install if that is missing; `commands` finds the command's module when it is
called for. A command parses, calls `admin`, a client or a server, and prints: what it does is done below. Above
everything else, imported by nobody.
"""

from rocketline.cli.entry import main

__all__ = ["main"]
