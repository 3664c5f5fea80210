"""Reading a broker's groups page by page, whatever becomes of them meanwhile."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketline.admin import groups
from rocketline.admin.calls import Calls
from rocketline.admin.groups import Groups
from rocketline.admin.views import BrokerAddress
from rocketline.wire.command import Command, response

BROKER = cast(BrokerAddress, SimpleNamespace(address="127.0.0.1:1"))
ASKED_MAX = 500
"""Whoever asks more often does so for ever."""


class Broker:
    """Has so many groups, of which it gives `page` at once to whoever asks for pages, and says that there are `total`.

    Like both brokers it begins anew if its table has changed since the page before.
    """

    def __init__(self, count: int, page: int, total: int | None = None) -> None:
        self.names = [f"g{number:04}" for number in range(count)]
        self.page, self.total = page, total
        self.version, self.asked = 1, 0
        self.is_changing = self.is_repeating = False

    async def ask(self, address: str, code: int, header: Any) -> Command:
        self.asked += 1
        assert self.asked <= ASKED_MAX
        self.version += self.is_changing
        is_on = header.data_version is not None and json.loads(header.data_version)["counter"] == self.version
        at = header.group_seq if is_on and not self.is_repeating else 0
        count = self.page if header.max_group_num else len(self.names)
        table = {name: {"groupName": name} for name in self.names[at : at + count]}
        version = {"counter": self.version, "stateVersion": 0, "timestamp": 0}
        body = json.dumps({"subscriptionGroupTable": table, "dataVersion": version}).encode()
        return response(0, ext={"totalGroupNum": str(self.total or len(self.names))}, body=body)


async def _found(broker: Broker) -> list[str]:
    return list(await Groups(cast(Calls, broker))._configs(BROKER))


async def test_pages_are_put_together() -> None:
    broker = Broker(10, 3)
    assert await _found(broker) == broker.names
    assert broker.asked == 4


async def test_groups_that_never_stop_changing_are_read_all_the_same() -> None:
    broker = Broker(10, 3)
    broker.is_changing = True
    assert await _found(broker) == broker.names
    assert broker.asked < 10


async def test_broker_that_repeats_itself_is_not_asked_for_ever() -> None:
    broker = Broker(3, 3, total=1000)
    broker.is_repeating = True
    assert await _found(broker) == broker.names


async def test_broker_that_lies_about_the_total_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_GROUPS_MAX", 10, raising=False)
    broker = Broker(3 * ASKED_MAX, 3, total=2**31 - 1)
    assert len(await _found(broker)) == 12
