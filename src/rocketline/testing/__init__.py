"""Tools to test against Rocketline and against the real Apache RocketMQ. Shipped, and imported by no other part.

    from rocketline.testing import Server

`Server` is a whole server for tests; `rocketline.testing.pytest_plugin` has fixtures around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketline.testing.server import Server

__all__ = ["Server"]


def __getattr__(name: str) -> object:
    # Not before it is needed: every run of pytest imports this package, for its plugin.
    if name == "Server":
        from rocketline.testing.server import Server

        return Server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
