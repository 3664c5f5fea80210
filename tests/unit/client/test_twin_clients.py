"""The blocking and the asyncio form of a client offer the same, in the same words."""

from __future__ import annotations

import inspect
import pydoc
from concurrent.futures import Future
from typing import Any, assert_type

import pytest

import rocketline
from rocketline import aio
from rocketline.model.queue import MessageQueue

TWINS: dict[str, tuple[Any, Any]] = {
    "producer": (aio.Producer, rocketline.Producer),
    "transactions": (aio.TransactionProducer, rocketline.TransactionProducer),
    "push": (aio.PushConsumer, rocketline.PushConsumer),
    "lite pull": (aio.LitePullConsumer, rocketline.LitePullConsumer),
    "pull": (aio.PullConsumer, rocketline.PullConsumer),
    "admin": (aio.Admin, rocketline.Admin),
}
FOR_THE_TWIN = {
    "begin_close",
    "begin_half",
    "check_new",
    "check_running",
    "close_if_new",
    "end_transaction",
    "is_closed",
    "is_inside_handler",
    "is_over",
}
"""What asyncio clients have for the blocking ones alone."""
WITHOUT_TWIN = {
    (aio.Producer, "check_transaction"),
    (aio.Producer, "runtime_closed"),
    (aio.Producer, "topics"),
    (aio.TransactionProducer, "check_transaction"),
    (aio.TransactionProducer, "runtime_closed"),
    (aio.TransactionProducer, "topics"),
    (aio.Admin, "is_running"),
}
"""What the runtime asks, and what nobody has asked a blocking one."""
WITHOUT_LOOP = {"pull_raw_soon"}
"""What asyncio programs do by not awaiting at once."""
OTHER_PARAMETERS = {
    (aio.Producer, "send_soon"),
    (aio.PushConsumer, "subscribe"),
    (aio.TransactionProducer, "transaction"),
}
"""A blocking client calls back where the other gives a future, takes no coroutine functions, and has a `with` where the
other has an `async with`."""
OTHER_WORDS = {
    (aio.Admin, "start"),
    (aio.LitePullConsumer, "watch_queues"),
    (aio.Producer, "send_soon"),
    (aio.PullConsumer, "close"),
    (aio.PushConsumer, "close"),
    (aio.PushConsumer, "run"),
    (aio.PushConsumer, "subscribe"),
    (aio.TransactionProducer, "send_in_transaction"),
}
"""Where threads make a difference that must be told."""
CALLS = [
    pytest.param(one, other, name, id=f"{kind}.{name}")
    for kind, (one, other) in TWINS.items()
    for name in sorted(vars(one).keys() & set(dir(other)))
    if not name.startswith("_")
]
every_call = pytest.mark.parametrize(("asynchronous", "blocking", "name"), CALLS)
every_twin = pytest.mark.parametrize(("asynchronous", "blocking"), TWINS.values(), ids=TWINS)


def offered(client: type) -> set[str]:
    """Public methods and properties."""
    return {
        name
        for name, member in inspect.getmembers(client)
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


def function(client: type, name: str) -> Any:
    member = inspect.getattr_static(client, name)
    return member.fget if isinstance(member, property) else member


@every_twin
def test_twins_offer_the_same(asynchronous: type, blocking: type) -> None:
    own = {name for client, name in WITHOUT_TWIN if client is asynchronous} | FOR_THE_TWIN
    assert offered(asynchronous) - own == offered(blocking) - WITHOUT_LOOP


@every_twin
def test_twins_are_made_alike(asynchronous: type, blocking: type) -> None:
    assert inspect.signature(asynchronous) == inspect.signature(blocking)
    assert all(inspect.getdoc(inspect.getattr_static(client, "__init__")) for client in (asynchronous, blocking))


@every_call
def test_twins_are_called_alike(asynchronous: type, blocking: type, name: str) -> None:
    """Parameters, defaults, annotations and results; what one awaits, the other returns."""
    one, other = function(asynchronous, name), function(blocking, name)
    assert not inspect.iscoroutinefunction(other)
    if (asynchronous, name) in OTHER_PARAMETERS:
        shared = inspect.signature(one).parameters.keys() - {"handler"}
        assert {key: inspect.signature(one).parameters[key] for key in shared} == {
            key: inspect.signature(other).parameters[key] for key in shared
        }
    else:
        assert inspect.signature(one) == inspect.signature(other)


@every_call
def test_twins_are_explained_in_the_same_words(asynchronous: type, blocking: type, name: str) -> None:
    one, other = (inspect.getdoc(getattr(client, name)) for client in (asynchronous, blocking))
    assert one
    assert other
    assert (one == other) is ((asynchronous, name) not in OTHER_WORDS)


def test_what_goes_by_the_loop_shows_its_parameters_and_text() -> None:
    fetch_offset = rocketline.PullConsumer.fetch_offset
    assert list(inspect.signature(fetch_offset).parameters) == ["self", "queue"]
    told = pydoc.plain(pydoc.render_doc(fetch_offset))
    assert "fetch_offset(self, queue: 'MessageQueue') -> 'int'" in told
    assert "Java: fetchConsumeOffset" in told


def types_of_blocking_calls(
    producer: rocketline.Producer,
    push: rocketline.PushConsumer,
    lite: rocketline.LitePullConsumer,
    pull: rocketline.PullConsumer,
    admin: rocketline.Admin,
    queue: MessageQueue,
) -> None:
    """For type checkers: they know what calls return that are not written out. Nobody calls this."""
    assert_type(producer.queues("T"), list[MessageQueue])
    assert_type(producer.send_soon(rocketline.Message("T", b"")), Future[rocketline.SendReceipt])
    assert_type(push.offsets(), dict[MessageQueue, int])
    assert_type(push.queues, tuple[MessageQueue, ...])
    assert_type(push.start(), None)
    assert_type(lite.committed(queue), int)
    assert_type(lite.subscribe("T", "new || paid"), None)
    assert_type(lite.queues("T"), set[MessageQueue])
    assert_type(pull.fetch_offset(queue), int)
    assert_type(pull.pull(queue, 0), rocketline.PullResult)
    assert_type(admin.topics.names(), list[str])
