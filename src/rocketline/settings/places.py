"""Default places of files, which depend on who runs the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path


def home() -> Path:
    """The user's home directory; where we are, for a user of a container that has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path.cwd()


def at_home(place: str) -> Callable[[], Path]:
    """A path below the user's home directory, looked up when a configuration is made."""
    return lambda: home() / place


def data_folder() -> Path:
    """Where a user's programs keep their data."""
    if named := os.environ.get("XDG_DATA_HOME"):
        return Path(named)
    return home() / ("Library/Application Support" if sys.platform == "darwin" else ".local/share")
