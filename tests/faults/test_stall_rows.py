"""Every row of `make stalls` at small counts: it can be prepared, it gets the answers it is about, and no callback of
the broker's loop does more than so much in one go, counted in calls.

Rows of the name server have bounds of their own in its tests.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from benchmarks import stall_rows
from benchmarks.stall_peers import ask, crowd, is_parked, is_refusal, park, prepare
from benchmarks.stall_rows import PROBED, ROWS, Row, send

from rocketline.wire import frame
from support.brokers.running import broker
from support.effort import Effort

CALLS_MAX = 200_000
"""Of one callback: some twenty milliseconds."""
BATCH_CALLS_MAX = 600_000
"""A batch is stored in one go: so many for 32,767 messages."""
ASKED = 3
PARKED = 200

BROKER_ROWS = [row for row in ROWS if not row.at_name_server]


@pytest.mark.parametrize("row", BROKER_ROWS, ids=lambda row: row.name)
async def test_row_is_answered_and_no_callback_does_much(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_rows, "QUEUES", 1024)
    monkeypatch.setattr(stall_rows, "NARROW", 1000)
    monkeypatch.setattr(stall_rows, "CROWD", 100)
    told = str(row.joined is not None).lower()
    async with broker(mappedFileSizeCommitLog=str(2**25), notifyConsumerIdsChangedEnable=told) as running:
        port = int(running.address.rpartition(":")[2])
        await asyncio.to_thread(prepare, few(row), port)
        with efforts(monkeypatch) as found:
            refused = await asyncio.to_thread(misbehave, row, port)
        assert all(refused) if row.is_refused and not row.is_oneway else not any(refused)
        assert max(found) < (BATCH_CALLS_MAX if "batches" in row.name else CALLS_MAX)


def few(row: Row) -> Row:
    """What takes thousands of messages is about what follows them."""
    return Row(name=row.name, prepared=lambda: itertools.islice(row.prepared(), 8000))


def misbehave(row: Row, port: int) -> list[bool]:
    """Whether each of a few requests was refused."""
    with crowd(row, port), socket.create_connection(("127.0.0.1", port), 60) as connection:
        park(connection, itertools.islice(row.parked(0), PARKED))
        if row.is_oneway:
            for command in itertools.islice(row.asked(0), 1000):
                command.flag |= 2
                connection.sendall(frame.encode(command))
            next(ask(connection, [send(PROBED)]))  # which is answered after all of them
            return []
        asked = list(itertools.islice(row.asked(0), ASKED)) or [send(PROBED)]
        refused = []
        for answer in ask(connection, asked):
            if not is_parked(answer):
                refused.append(is_refusal(answer))
            elif not row.is_bounded:
                assert not is_refusal(answer), "it is to be held, and to do its worst then"
            if len(refused) == len(asked):
                return refused
        raise ConnectionError("not all was answered")


@contextmanager
def efforts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many calls each callback of the loop has made."""
    found, effort, run = [0], Effort(), asyncio.Handle._run

    def measured(handle: Any) -> None:
        effort.taken()
        run(handle)
        found.append(effort.taken())

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.Handle, "_run", measured)
        with effort.measured():
            yield found
