"""The blocking administrator has every operation of the other."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rocketline.admin import brokers, clients, groups, messages, name_servers, offsets, pops, topics, transactions
from rocketline.admin import sync as blocking
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.errors import ClosedError, ConnectError, NotStartedError

AREAS = [
    (blocking.Topics, topics.Topics),
    (blocking.Groups, groups.Groups),
    (blocking.Offsets, offsets.Offsets),
    (blocking.Messages, messages.Messages),
    (blocking.Transactions, transactions.Transactions),
    (blocking.GroupPops, pops.GroupPops),
    (blocking.Clients, clients.Clients),
    (blocking.Brokers, brokers.Brokers),
    (blocking.NameServers, name_servers.NameServers),
]


@pytest.mark.parametrize(("waiting", "core"), AREAS)
def test_every_operation_waits_under_the_same_name_and_signature(waiting: Any, core: Any) -> None:
    operations = {
        name: operation
        for name, operation in inspect.getmembers(core, inspect.iscoroutinefunction)
        if not name.startswith("_") and name != "close"
    }
    assert operations
    for name, operation in operations.items():
        twin = getattr(waiting, name)
        assert twin.__wrapped__ is operation
        assert inspect.signature(twin) == inspect.signature(operation)
        assert twin.__doc__, f"{name} is not explained"


def test_administrator_that_was_not_started_says_so_and_opens_nothing() -> None:
    admin = blocking.Admin("127.0.0.1:1")
    with pytest.raises(NotStartedError, match="this Admin is not started"):
        admin.topics.names()
    admin.close()
    with pytest.raises(ClosedError, match="make a new one"):
        admin.start()


def test_administrator_that_was_closed_says_so_and_closes_again() -> None:
    with blocking.Admin("127.0.0.1:1") as admin:
        pass
    with pytest.raises(ClosedError, match="this Admin is closed"):
        admin.topics.names()
    admin.close()


def test_administrator_in_a_runtime_of_others_leaves_it_open() -> None:
    with ClientRuntime.at("127.0.0.1:1") as runtime:
        with blocking.Admin(runtime=runtime):
            pass
        with blocking.Admin(runtime=runtime) as admin, pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
            admin.topics.names()
