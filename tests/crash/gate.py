"""Holds all who produce, or all who consume, while somebody looks."""

from __future__ import annotations

import asyncio


class Gate:
    """Lets everybody through, or holds them and knows when all are held."""

    def __init__(self, visitors: int) -> None:
        self._visitors, self._held = visitors, 0
        self._open, self._full = asyncio.Event(), asyncio.Event()

    async def passage(self) -> None:
        if self._open.is_set():
            return
        self._held += 1
        if self._held == self._visitors:
            self._full.set()
        await self._open.wait()

    def open(self) -> None:
        self._held = 0
        self._full.clear()
        self._open.set()

    async def shut(self) -> None:
        """Return once nobody is on his way any more."""
        self._open.clear()
        await self._full.wait()
