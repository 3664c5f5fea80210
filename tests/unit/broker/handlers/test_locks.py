"""Locks, as strangers ask for them."""

from __future__ import annotations

import pytest

from rocketline.broker.clients.locks import LockTable
from rocketline.broker.handlers.locks import LockHandlers
from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.long_steps import AtOnce

CODE = RequestCode.LOCK_BATCH_MQ


@pytest.mark.parametrize(("group", "client"), [("g" * 256, "c"), ("g", "c" * 256)], ids=["group", "client"])
async def test_names_that_no_client_has_hold_no_locks(clock: FakeClock, group: str, client: str) -> None:
    locks = LockTable(clock)
    handler = LockHandlers(locks, AtOnce(clock)).by_code()[CODE]
    body = LockBatchRequestBody(consumer_group=group, client_id=client, mq_set=[MessageQueue("T", "B", 0)])
    with pytest.raises(RemoteProtocolError, match="at most 255 characters"):
        handler(channel(clock)[0], Command(CODE, body=encode(body)))
    assert not locks.holds_any(group)


async def test_one_connection_leaves_locks_to_others(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketline.broker.clients.locks.LOCKS_OF_ONE_MAX", 2)
    handler = LockHandlers(LockTable(clock), AtOnce(clock)).by_code()[CODE]
    greedy, modest = channel(clock)[0], channel(clock)[0]
    counts = []
    for connection, group in ((greedy, "g"), (greedy, "h"), (modest, "h")):
        queues = [MessageQueue("T", "B", number) for number in range(3)]
        body = LockBatchRequestBody(consumer_group=group, client_id="c", mq_set=queues)
        answer = handler(connection, Command(CODE, body=encode(body)))
        assert isinstance(answer, Command)
        counts.append(len(decode(LockBatchResponseBody, answer.body).lock_ok_mq_set))
    assert counts == [2, 0, 2]
