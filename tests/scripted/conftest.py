"""What the tests against scripted peers share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.scripted_peer import ScriptedPeer


@pytest.fixture
async def peer(clock: FakeClock) -> AsyncIterator[ScriptedPeer]:
    """A name server and broker in one, which has the topic T."""
    async with ScriptedPeer(clock=clock) as peer:
        peer.route("T")
        yield peer
