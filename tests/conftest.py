"""House rules that every test is held to: it leaves no task, no socket and no thread behind."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.server_process import free_port
from support.running_threads import running_threads

_SETTLED_S = 2.0
"""A server in another thread needs a moment to see that its client has hung up."""

# Hypothesis tries the same examples every time, however busy the machine. `make fuzz` looks for new ones, and more.
settings.register_profile("rocketline", deadline=None, derandomize=True)
settings.register_profile(
    "explore",
    deadline=None,
    derandomize=False,  # which it would be by default where CI is set
    max_examples=200,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rocketline")

_LONGEST = (
    "spark",
    "cluster of scenarios",
    "test_client_mixed_groups",
    "test_foreign_clients",
    "cluster of cli",
    "cluster of interop",
    "test_client_chaos",
)
"""The groups of tests (see `_group`) that take longest."""

AsyncTest = Callable[..., Coroutine[Any, Any, None]]


def pytest_configure() -> None:
    free_port()  # the first call takes the socket that marks this process's ports, and keeps it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, for us and all that we start
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_sockets() -> set[str]:
    """The sockets of this process, by their kernel names; nothing where there is no /proc."""
    names = set()
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            names.add(os.readlink(entry))  # noqa: PTH115  # a socket's link is a name, no path
        except OSError:
            continue  # the descriptor of this very listing
    return {name for name in names if name.startswith("socket:")}


def _is_spark_running() -> bool:
    """In this process. It dials its JVM whenever it likes, to tell it what Python's collector has taken away."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    if "spark" in request.fixturenames or _is_spark_running():
        from support.spark.sessions import leaving_nothing  # the only tests that pay for importing Spark

        with leaving_nothing():
            yield
        return
    sockets, threads = _open_sockets(), running_threads()
    yield
    deadline_s = time.monotonic() + _SETTLED_S
    while (_open_sockets() - sockets or running_threads() - threads) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not (left := _open_sockets() - sockets), f"sockets left open: {left}"
    assert not (alive := running_threads() - threads), f"threads left running: {alive}"


def _leaving_no_task(test: AsyncTest) -> AsyncTest:
    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        before = asyncio.all_tasks()
        await test(*args, **kwargs)
        left = {task for task in asyncio.all_tasks() - before if not task.done()}
        assert not left, f"tasks left running: {left}"

    return checked


def pytest_itemcollected(item: pytest.Item) -> None:
    if not isinstance(item, pytest.Function):
        return
    if inspect.iscoroutinefunction(item.obj):
        item.obj = _leaving_no_task(item.obj)
    if any(_has_values(item, mark.kwargs) for mark in item.iter_markers("thorough_with")):
        item.add_marker(pytest.mark.thorough)
    if (group := _group(item)) is not None:
        item.add_marker(pytest.mark.xdist_group(group))


def _has_values(item: pytest.Function, values: Mapping[str, object]) -> bool:
    """Whether it is the variant of its test with these values for parameters."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return all(given.get(name) == value for name, value in values.items())


def _group(item: pytest.Function) -> str | None:
    """Tests that share servers, or a session of Spark, are one worker's: in two they would start them twice."""
    if item.get_closest_marker("spark") is not None:
        return "spark"
    if item.get_closest_marker("interop") is None:
        return None
    return f"cluster of {item.path.parent.name}" if "cluster" in item.fixturenames else item.path.stem


@pytest.hookimpl(trylast=True)  # after pytest itself has brought together what shares parameters
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups first, so that none of them is left alone at the end."""

    def rank(item: pytest.Item) -> int:
        group = item.get_closest_marker("xdist_group")
        return _LONGEST.index(group.args[0]) if group is not None and group.args[0] in _LONGEST else len(_LONGEST)

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tests log what hostile peers send; half a surrogate pair in it would keep xdist from passing the report on."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
