"""The blocking and the asyncio form of a consumer offer the same."""

from __future__ import annotations

import inspect

import pytest

from rocketline.client import lite_pull_consumer, pull_consumer
from rocketline.sync import lite_pull_consumer as blocking_lite
from rocketline.sync import pull_consumer as blocking_pull

LITE = (lite_pull_consumer.LitePullConsumer, blocking_lite.LitePullConsumer)
PULL = (pull_consumer.PullConsumer, blocking_pull.PullConsumer)
FOR_THE_TWIN = {"query", "timeout_s", "check_new", "check_running", "close_if_new"}
"""What the asyncio pull consumer has for the blocking one alone."""
WITHOUT_LOOP = {"pull_raw_soon"}
"""What asyncio programs do by not awaiting at once."""


def offered(consumer: type) -> dict[str, list[tuple[str, object]]]:
    """Public methods with the names and defaults of their parameters."""
    return {
        name: [(each.name, each.default) for each in inspect.signature(method).parameters.values()]
        for name, method in inspect.getmembers(consumer, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(("asynchronous", "blocking"), [LITE, PULL], ids=["lite pull", "pull"])
def test_twins_have_the_same_methods(asynchronous: type, blocking: type) -> None:
    one, other = offered(asynchronous), offered(blocking)
    assert one.keys() - FOR_THE_TWIN == other.keys() - WITHOUT_LOOP
    assert all(one[name] == other[name] for name in one.keys() & other.keys())
    for name in one.keys() & other.keys():
        assert inspect.getdoc(getattr(asynchronous, name)), name


@pytest.mark.parametrize(("asynchronous", "blocking"), [LITE, PULL], ids=["lite pull", "pull"])
def test_twins_are_made_alike(asynchronous: type, blocking: type) -> None:
    one, other = inspect.signature(asynchronous), inspect.signature(blocking)
    assert list(one.parameters) == list(other.parameters)
