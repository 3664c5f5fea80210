"""Two masters and a name server for scenarios with clients: ours or Apache's, for the same test code.

Delays that clients wait for are short on both, as `DELAYS_S` says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from rocketline.model.subscription import MessageRequestMode
from rocketline.testing import Server, setting_up
from rocketline.testing.apache import ApacheBroker, ApacheNameServer, Release, fetch, running
from rocketline.testing.exchange import ask
from rocketline.testing.server_process import ServerProcess
from rocketline.wire import bodies
from rocketline.wire.bodies.pop import SetMessageRequestModeRequestBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

DELAYS_S: Final = (1, 2, 1, 1, 3, *[1] * 13)
"""Seconds of the delay levels 1 to 18. A message that failed for the n-th time waits for level n + 2."""
SHORT: Final = {
    "messageDelayLevel": " ".join(f"{seconds}s" for seconds in DELAYS_S),
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionOpBatchInterval": "500",
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
}

_APACHE: Final = pytest.param("apache", marks=[pytest.mark.interop, pytest.mark.timeout(func_only=True)])
"""The time limit is for the test alone: the first one is not to pay for the start of the servers, which has its own."""
_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class ClientCluster:
    """Where clients connect, and topics and groups that no other test uses."""

    whose: str
    """`ours` or `apache`."""
    name_server: str
    brokers: tuple[str, ...]
    """The addresses of `broker-a` and `broker-b`."""

    def topic(
        self,
        name: str = "topic",
        *,
        queues: int = 4,
        brokers: int = 1,
        order: bool = False,
        attributes: str | None = None,
    ) -> str:
        """Make a topic with so many queues on each of the first `brokers` masters."""
        topic = f"{name}-{next(_numbers)}"
        self.make_topic(topic, queues=queues, brokers=brokers, order=order, attributes=attributes)
        return topic

    def make_topic(
        self,
        topic: str,
        *,
        queues: int = 4,
        brokers: int = 1,
        perm: int = 6,
        order: bool = False,
        attributes: str | None = None,
    ) -> None:
        """Make or change a topic of this very name."""
        where = self.brokers[:brokers]
        setting_up.create_topic(
            self.name_server, where, topic, queues=queues, perm=perm, order=order, attributes=attributes
        )

    def group(self, name: str = "group", *, retry_max_times: int = 16, orderly: bool = False) -> str:
        """Make a consumer group on both masters, with the topic for its retries."""
        group = f"{name}-{next(_numbers)}"
        setting_up.create_group(self.name_server, self.brokers, group, retry_max_times=retry_max_times, orderly=orderly)
        return group

    def popping_group(self, topic: str, name: str = "group") -> str:
        """Make one whose members pop the topic, if they leave that to brokers."""
        group = self.group(name)
        self.let_pop(topic, group)
        return group

    def let_pop(self, topic: str, group: str) -> None:
        """Have the group's members pop the topic from now on, where it is."""
        body = bodies.encode(
            SetMessageRequestModeRequestBody(topic, group, MessageRequestMode.POP, pop_share_queue_num=-1)
        )
        for broker in self.brokers:
            answer = ask(broker, Command(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body))
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST), answer.remark


def wait_until(condition: Callable[[], object], patience_s: float = 30) -> None:
    """Return once it is so: brokers do some things a moment after they have answered."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < patience_s
        time.sleep(0.05)


@contextmanager
def our_cluster(settings: Mapping[str, str] = SHORT) -> Iterator[ClientCluster]:
    with Server(process=True, brokers=2, settings=settings) as server:
        yield ClientCluster("ours", server.address, server.broker_addresses)


@contextmanager
def apache_cluster(release: Release, home: Path) -> Iterator[ClientCluster]:
    with ApacheNameServer(release, home / "name-server") as name_server:
        brokers: list[ServerProcess] = [
            ApacheBroker(release, home / name, name_servers=(name_server.address,), broker_name=name, settings=SHORT)
            for name in ("broker-a", "broker-b")
        ]
        with running(*brokers):
            yield ClientCluster("apache", name_server.address, tuple(broker.address for broker in brokers))


@pytest.fixture(scope="session", params=["ours", _APACHE])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCluster]:
    """Ours in `make test`, Apache's in `make interop`. For whom it is imported."""
    if request.param == "ours":
        with our_cluster() as cluster:
            yield cluster
    else:
        with apache_cluster(fetch(), tmp_path_factory.mktemp("apache")) as cluster:
            yield cluster
