"""A broker that is killed, or finds its files damaged: what it acknowledged stays, and it comes back.

Must hold 5 of the broker: five kills under load here, fifty in `make crash`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from crash.campaign import Campaign

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(("flush", "kills"), [("SYNC_FLUSH", 5), ("ASYNC_FLUSH", 2)])
async def test_kills_under_load_lose_nothing_that_was_acknowledged(tmp_path: Path, flush: str, kills: int) -> None:
    """A kill takes the process and not the system's cache, so what was acknowledged without a sync stays, too."""
    seed = time.time_ns() % 2**32
    print(f"seed {seed}")
    campaign = Campaign(tmp_path / "broker", seed, flushDiskType=flush)
    await campaign.run(kills)
    assert campaign.ledger.acknowledged >= kills
