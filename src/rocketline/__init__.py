"""Rocketline: Apache RocketMQ in Python.

The clients here block; `rocketline.aio` has the same for asyncio. Each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rocketline.admin.blocking import Admin as Admin
    from rocketline.client.options import Credentials as Credentials
    from rocketline.client.options import RpcHook as RpcHook
    from rocketline.client.options import Tls as Tls
    from rocketline.sync.runtime import ClientRuntime as ClientRuntime

_PLACES = {
    "Admin": "rocketline.admin.blocking",
    "ClientRuntime": "rocketline.sync.runtime",
    "Credentials": "rocketline.client.options",
    "RpcHook": "rocketline.client.options",
    "Tls": "rocketline.client.options",
}

__all__ = ["Admin", "ClientRuntime", "Credentials", "RpcHook", "Tls"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
