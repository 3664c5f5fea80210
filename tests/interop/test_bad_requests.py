"""Must hold 8 of the broker: to thousands of bad requests ours and Apache's answer with the same code.

Where they do not, `EXPECTED` has the reason, and `docs/differences.md` tells it to users. A difference that is not
expected fails, and so does an expected one that is gone.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketline.model.message import Message
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.exchange import Exchange
from rocketline.testing.server_process import ServerProcess
from rocketline.wire.command import Command
from support.brokers.bad_requests import SERVED, bad_requests, usual_fields
from support.brokers.questions import BrokerQuestions

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]


class Case(NamedTuple):
    """A request code, what is bad about the request, and how Apache's broker and ours answer it."""

    code: int
    what: str
    theirs: int
    ours: int


EXPECTED = {
    # Nobody can say whose offset, lock, name or client it would be: a null would become one.
    Case(34, "body", 0, 1): 4,
    Case(41, "body", 0, 1): 4,
    Case(314, "no destGroup", 0, 1): 1,
    Case(353, "no topic", 0, 1): 1,
    # All queues would be reset, or to another place than was meant.
    Case(222, "no timestamp", 0, 1): 1,
    Case(222, "bad timestamp", 0, 1): 6,
    Case(222, "bad queueId", 0, 1): 9,
    Case(222, "bad offset", 0, 1): 6,
    # Offsets of queues that no topic can have, and of groups that may not be made, would stay for ever.
    Case(15, "bad queueId", 0, 29): 3,
    Case(314, "bad destGroup", 0, 26): 11,
    # To ask for the bounds of a queue makes it.
    Case(321, "bad queueId", 0, 1): 1,
    Case(321, "bad topic", 0, 1): 1,
    # Its requests make groups that do not exist.
    Case(222, "bad group", 0, 26): 6,
    # Bodies that are nothing, or refer to themselves, or have an object for a text.
    Case(46, "body", 0, 1): 2,
    Case(200, "body", 0, 1): 1,
    Case(200, "body", 29, 1): 1,
    Case(401, "body", 17, 1): 1,
    # A batch whose first message has no bytes at all is stored, and cannot be read.
    Case(10, "bad batch, m", 0, 1): 1,
    Case(310, "bad batch, m", 0, 1): 1,
    Case(320, "bad batch, m", 0, 1): 1,
    # Numbers of queues that no broker can have.
    Case(17, "bad readQueueNums", 0, 29): 3,
    Case(17, "bad writeQueueNums", 0, 29): 3,
    # Parts of lists without a sequence number are an exception; so is what lacks a topic that is not needed.
    Case(21, "bad dataVersion", 1, 0): 17,
    Case(21, "bad maxTopicNum", 1, 0): 3,
    Case(201, "bad dataVersion", 1, 0): 17,
    Case(201, "bad maxGroupNum", 1, 0): 3,
    Case(36, "bad delayLevel", 1, 0): 2,
    Case(36, "bad maxReconsumeTimes", 1, 0): 2,
    Case(345, "no topic", 1, 0): 1,
    # A pop would be of no message, or of one that comes again at once; none of the others would say what it does.
    Case(200050, "bad initMode", 210, 1): 8,
    Case(200050, "bad invisibleTime", 210, 1): 6,
    Case(200050, "bad maxMsgNums", 210, 1): 8,
    Case(200050, "bad queueId", 210, 1): 8,
    Case(200050, "no initMode", 210, 1): 1,
    Case(200050, "no invisibleTime", 210, 1): 1,
    Case(200050, "no maxMsgNums", 210, 1): 1,
    Case(200050, "no pollTime", 210, 1): 1,
    Case(200050, "no queueId", 210, 1): 1,
    Case(200051, "no consumerGroup", 0, 1): 1,
    Case(200052, "bad maxMsgNums", 19, 1): 8,
    Case(200052, "bad queueId", 0, 1): 8,
    Case(200052, "no maxMsgNums", 19, 1): 1,
    Case(200052, "no queueId", 0, 1): 1,
    Case(200053, "no consumerGroup", 0, 1): 1,
    Case(200054, "bad queueId", 0, 1): 8,
    Case(200054, "no queueId", 0, 1): 1,
    Case(200055, "bad queueId", 0, 1): 8,
    Case(200055, "no queueId", 0, 1): 1,
    Case(200151, "body", 208, 1): 2,
    # Messages that would never come again, and memory.
    Case(200050, "bad attemptId", 210, 29): 1,
    Case(200050, "bad invisibleTime", 210, 29): 3,
    Case(200052, "bad maxMsgNums", 1, 0): 1,
    Case(200053, "bad invisibleTime", 0, 1): 1,
    # No record can note what became of messages of such a group.
    Case(200051, "bad consumerGroup", 0, 1): 3,
    Case(200053, "bad consumerGroup", 0, 1): 3,
    # A required field that is missing is told as such; for replies alone it counts as a topic without characters.
    Case(324, "no topic", 29, 1): 1,
    Case(325, "no b", 29, 1): 1,
}


def what_is_bad(request: Command) -> str:
    usual = usual_fields(request.code)
    missing = [name for name in usual if name not in request.ext]
    odd = [name for name, text in request.ext.items() if usual.get(name) != text]
    return f"no {', '.join(missing)}" if missing else f"bad {', '.join(odd)}" if odd else "body"


def prepare(address: str, code: int) -> None:
    """Each kind of request finds a topic, two groups and a message. A connection of its own: it becomes a client's."""
    with BrokerQuestions(address, timeout_s=20) as broker:
        broker.create_topic("T", queues=2)
        broker.create_group("g", retry_max_times=3)
        broker.create_group("h", retry_max_times=3)
        broker.send(Message.of("T", b"good", {"UNIQ_KEY": f"{code:032X}", "KEYS": "k"}), 0)


def answers(process: ServerProcess) -> list[tuple[int, str, int]]:
    """Of every bad request its code, what was bad, and the code of the answer."""
    found: list[tuple[int, str, int]] = []
    with process, Exchange(process.address, timeout_s=20) as broker:
        for code in SERVED:
            prepare(process.address, code)
            found += [(code, what_is_bad(request), broker.ask(request).code) for request in bad_requests(code)]
        process.close(timeout_s=60)
    return found


def test_bad_requests_get_the_code_that_apache_gives(release: Release, tmp_path: Path) -> None:
    """S5, and whatever else may be wrong with a request."""
    theirs = answers(ApacheBroker(release, tmp_path / "apache", name_servers=()))
    ours = answers(BrokerProcess(tmp_path / "ours", name_servers=()))
    assert len(theirs) == len(ours) > 7000
    differing = Counter(
        Case(code, what, their_code, our_code)
        for (code, what, their_code), (_, _, our_code) in zip(theirs, ours, strict=True)
        if their_code != our_code
    )
    assert dict(differing) == EXPECTED
