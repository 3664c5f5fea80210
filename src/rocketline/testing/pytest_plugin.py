"""Fixtures for tests of programs that use RocketMQ. Installing Rocketline is enough: pytest finds them by itself.

    def test_orders_arrive(rocketmq):
        topic = rocketmq.topic("orders")                       # made for this test, and found by clients
        with Producer(rocketmq.address, group="shop") as producer:
            producer.send(Message(topic, b"one"))

`rocketmq_server` is the server itself, one for the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from rocketline.testing.faults import Faults
    from rocketline.testing.server import Server

_numbers: Final = count(1)


class RocketMQ:
    """A test's own part of a server that it shares with other tests: names that no other test has."""

    def __init__(self, server: Server) -> None:
        self.server, self._suffix = server, f"-{next(_numbers)}"

    @property
    def address(self) -> str:
        """Of the name server: all that a client needs to know."""
        return self.server.address

    def topic(self, name: str = "topic", *, queues: int = 4) -> str:
        """Make a topic; the same name gives the same topic within a test, and another one in every other."""
        topic = name + self._suffix
        self.server.create_topic(topic, queues=queues)
        return topic

    def group(self, name: str = "group", *, retry_max_times: int = 16) -> str:
        """Make a consumer group, likewise."""
        group = name + self._suffix
        self.server.create_group(group, retry_max_times=retry_max_times)
        return group

    def advance(self, seconds: float) -> None:
        """Let time pass for the server: delayed messages and retries that came due are delivered."""
        self.server.advance(seconds)

    @property
    def faults(self) -> Faults:
        """What goes wrong on demand. Cleared at the end of the test."""
        return self.server.faults


@pytest.fixture(scope="session")
def rocketmq_server() -> Iterator[Server]:
    """A name server and a broker in memory, in this process, for the whole run."""
    from rocketline.testing.server import Server

    with Server() as server:
        yield server


@pytest.fixture
def rocketmq(rocketmq_server: Server) -> Iterator[RocketMQ]:
    """The server with topics and groups of this test's own."""
    own = RocketMQ(rocketmq_server)
    yield own
    own.faults.clear()
