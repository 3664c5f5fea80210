"""Running an event loop: uvloop's where it is installed (extra `speed`), asyncio's otherwise."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from rocketline.errors import ConfigError, MissingExtraError, RocketlineError

Result = TypeVar("Result")

LOOP_VARIABLE = "ROCKETLINE_LOOP"


def loop_factory(environ: Mapping[str, str]) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop; None is asyncio's own. ROCKETLINE_LOOP=asyncio or =uvloop forces one of them.

    >>> loop_factory({"ROCKETLINE_LOOP": "asyncio"}) is None
    True
    """
    wanted = environ.get(LOOP_VARIABLE, "")
    if wanted not in ("", "asyncio", "uvloop"):
        raise ConfigError([f"{LOOP_VARIABLE}={wanted}: the loops are asyncio and uvloop"])
    if wanted == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if wanted:
            raise MissingExtraError(f"{LOOP_VARIABLE}=uvloop", "uvloop", "speed") from None
        return None
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end on the best loop there is."""
    try:
        factory = loop_factory(os.environ)
    except RocketlineError:
        main.close()  # it will never run; unclosed it would warn of that
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
