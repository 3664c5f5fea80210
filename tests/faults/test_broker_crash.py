"""A broker that is killed, or finds its files damaged: what it acknowledged stays, and it comes back.

Must hold 5 of the broker: five kills under load here, fifty in `make crash`.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from crash import requests
from crash.audit import Audit
from crash.campaign import Campaign
from crash.ledger import PLAIN, Ledger, Place, Sent, body_of
from rocketline.net.remote import Remote
from rocketline.testing.broker import BrokerProcess

pytestmark = pytest.mark.timeout(240)


THOROUGH = [pytest.mark.interop, pytest.mark.thorough]


@pytest.mark.parametrize(("flush", "kills"), [("SYNC_FLUSH", 5), pytest.param("ASYNC_FLUSH", 2, marks=THOROUGH)])
async def test_kills_under_load_lose_nothing_that_was_acknowledged(tmp_path: Path, flush: str, kills: int) -> None:
    """A kill takes the process and not the system's cache, so what was acknowledged without a sync stays, too."""
    seed = time.time_ns() % 2**32
    print(f"seed {seed}")
    campaign = Campaign(tmp_path / "broker", seed, flushDiskType=flush)
    await campaign.run(kills)
    assert campaign.ledger.acknowledged >= kills
    assert campaign.ledger.answers, "questions about transactions were under way"


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", pytest.param("ASYNC_FLUSH", marks=THOROUGH)])
async def test_sigterm_under_load_loses_nothing_and_ends_cleanly(tmp_path: Path, flush: str) -> None:
    """Status 0, no abort file, no traceback; what was acknowledged is there, and consumers go on where they were."""
    seed = time.time_ns() % 2**32
    print(f"seed {seed}")
    campaign = Campaign(tmp_path / "broker", seed, flushDiskType=flush)
    await campaign.run(0, stops=3)
    assert campaign.ledger.acknowledged >= 3


async def test_audit_notices_a_commit_that_is_gone(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.committed.add(7)
    with BrokerProcess(tmp_path, name_servers=()) as broker:
        async with Remote(broker.address) as remote:
            await Audit(remote, ledger, Random(0)).run([])
    assert ledger.problems == ["1 commits were acknowledged and are gone, such as that of 7"]


async def test_audit_notices_a_message_that_is_gone(tmp_path: Path) -> None:
    """The same audit, of a broker from whose log somebody has taken the last message."""
    ledger, settings = Ledger(), {"mappedFileSizeCommitLog": "65536"}
    with BrokerProcess(tmp_path, name_servers=(), settings=settings) as broker:
        async with Remote(broker.address) as remote:
            for number in range(1, 11):
                ledger.send(number, Sent(PLAIN, 0))
                answer = await remote.request(requests.send([requests.message_of(number, PLAIN)], 0, 0), 20)
                ledger.acknowledge(number, Place(PLAIN, 0, int(answer.ext["queueOffset"])), None)
            await Audit(remote, ledger, Random(0)).run([])
            assert not ledger.problems
        broker.kill()
    log = tmp_path / "store" / "commitlog" / f"{0:020}"
    data = log.read_bytes()
    log.write_bytes(data[: data.rindex(body_of(10)[:8])].ljust(len(data), b"\0"))
    with BrokerProcess(tmp_path, name_servers=(), settings=settings) as broker:
        async with Remote(broker.address) as remote:
            await Audit(remote, ledger, Random(0)).run([])
    assert ledger.problems[0] == f"message 10 was at {Place(PLAIN, 0, 9)}, and is gone"
