"""The blocking administrator has every operation of the other."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rocketline.admin import blocking, brokers, clients, groups, messages, name_servers, offsets, topics

AREAS = [
    (blocking.Topics, topics.Topics),
    (blocking.Groups, groups.Groups),
    (blocking.Offsets, offsets.Offsets),
    (blocking.Messages, messages.Messages),
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
