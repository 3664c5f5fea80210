"""Push consumers on real brokers: what comes, how often, in which order, and what becomes of what fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from rocketline import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeResult,
    Message,
    MessageModel,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from rocketline.errors import RocketlineError
from support.clients.clusters import ClientCluster

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
_SOON_S = 30.0


def eventually(is_so: Callable[[], bool]) -> None:
    """Return once it is so: it happens in other threads and processes."""
    until_s = time.monotonic() + _SOON_S
    while not is_so():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.01)


def send(cluster: ClientCluster, topic: str, bodies: Iterable[bytes], *, queue_id: int | None = None) -> None:
    queue = None if queue_id is None else MessageQueue(topic, "broker-a", queue_id)
    with Producer(cluster.name_server, group="scenario-producers", send_timeout_s=_SOON_S) as producer:
        for body in bodies:
            producer.send(Message(topic, body), queue=queue)


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(first, first + count)]


class Seen:
    """A handler that notes what it gets, and fails as it is told."""

    def __init__(self, fails: Callable[[ReceivedMessage], bool] = lambda message: False) -> None:
        self._fails = fails
        self.messages: list[ReceivedMessage] = []

    def __call__(self, message: ReceivedMessage) -> ConsumeResult | None:
        self.messages.append(message)
        return ConsumeResult.RETRY_LATER if self._fails(message) else None

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


def dead_letters(cluster: ClientCluster, group: str) -> list[bytes]:
    """The bodies in the group's dead letter queue."""
    found: list[bytes] = []
    with PullConsumer(cluster.name_server, group="scenario-pullers") as consumer:
        topic = f"%DLQ%{group}"
        try:
            for queue in consumer.queues(topic):
                found += [message.body for message in consumer.pull(queue, consumer.min_offset(queue)).messages]
        except RocketlineError:
            return []  # the topic is made with the first dead letter
    return found


def test_every_message_is_consumed_once(cluster: ClientCluster) -> None:
    topic, group, seen = cluster.topic(brokers=2), cluster.group(), Seen()
    with PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
        consumer.subscribe(topic, "*", seen)
        send(cluster, topic, numbers(500))
        eventually(lambda: len(seen.messages) >= 500)
    assert sorted(seen.bodies) == sorted(numbers(500))
    assert {message.reconsume_times for message in seen.messages} == {0}


def test_a_restarted_consumer_goes_on_where_it_was(cluster: ClientCluster) -> None:
    """C167: nothing below the saved offset comes again, nothing above is skipped."""
    topic, group = cluster.topic(), cluster.group()
    seen = [Seen(), Seen()]
    for part, first in zip(seen, (0, 100), strict=True):
        send(cluster, topic, numbers(100, first))
        with PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
            consumer.subscribe(topic, "*", part)
            eventually(lambda part=part: len(part.messages) >= 100)  # type: ignore[misc]
    assert [sorted(part.bodies) for part in seen] == [sorted(numbers(100)), sorted(numbers(100, 100))]


def test_what_failed_comes_again_with_its_own_topic(cluster: ClientCluster) -> None:
    """C176: the handler sees the original topic and the number of failures."""
    topic, group, seen = cluster.topic(), cluster.group(), Seen(lambda message: message.reconsume_times < 2)
    with PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
        consumer.subscribe(topic, "*", seen)
        send(cluster, topic, [b"x"])
        eventually(lambda: len(seen.messages) == 3)
    assert [(message.topic, message.reconsume_times) for message in seen.messages] == [
        (topic, 0),
        (topic, 1),
        (topic, 2),
    ]
    assert len({message.message_id for message in seen.messages}) == 1


def test_what_failed_too_often_is_a_dead_letter(cluster: ClientCluster) -> None:
    """C177, with a maximum of 2: three deliveries, and no further one."""
    topic, group, seen = cluster.topic(), cluster.group(), Seen(lambda message: True)
    with PushConsumer(cluster.name_server, group=group, consume_from=FIRST, reconsume_times_max=2) as consumer:
        consumer.subscribe(topic, "*", seen)
        send(cluster, topic, [b"x"])
        eventually(lambda: dead_letters(cluster, group) == [b"x"])
    assert len(seen.messages) == 3


def test_a_handler_says_when_a_message_comes_again_or_that_it_never_should(cluster: ClientCluster) -> None:
    """C174: level -1 is the dead letters; level 5 is three seconds here."""
    topic, group = cluster.topic(), cluster.group()
    at_s: defaultdict[bytes, list[float]] = defaultdict(list)

    def handle(message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult | None:
        at_s[message.body].append(time.monotonic())
        context.delay_level = -1 if message.body == b"dead" else 5
        return None if message.reconsume_times else ConsumeResult.RETRY_LATER

    with PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
        consumer.subscribe(topic, "*", handle)
        eventually(lambda: any(queue.topic == f"%RETRY%{group}" for queue in consumer.queues))
        send(cluster, topic, [b"dead", b"later"])
        eventually(lambda: len(at_s[b"later"]) == 2)
        eventually(lambda: dead_letters(cluster, group) == [b"dead"])
    assert len(at_s[b"dead"]) == 1
    first_s, second_s = at_s[b"later"]
    assert second_s - first_s >= 2.9


def test_in_order_each_queue_is_consumed_one_by_one(cluster: ClientCluster) -> None:
    """C184."""
    topic, group = cluster.topic(queues=2), cluster.group()
    seen: defaultdict[int, list[int]] = defaultdict(list)
    failed: set[int] = set()

    def handle(message: ReceivedMessage, context: ConsumeContext) -> ConsumeResult | None:
        number = int(message.body)
        if number % 40 == 0 and number not in failed:
            failed.add(number)
            context.suspend_s = 0.05
            return ConsumeResult.SUSPEND
        seen[message.queue.queue_id].append(number)
        return None

    for queue_id in (0, 1):
        send(cluster, topic, numbers(100, 100 * queue_id), queue_id=queue_id)
    with PushConsumer(cluster.name_server, group=group, consume_from=FIRST, orderly=True) as consumer:
        consumer.subscribe(topic, "*", handle)
        eventually(lambda: sum(map(len, seen.values())) == 200)
    assert dict(seen) == {0: list(range(100)), 1: list(range(100, 200))}


def test_in_order_a_message_that_always_fails_makes_way_after_a_while(cluster: ClientCluster) -> None:
    """C187: after 4 deliveries with a maximum of 3 it is a dead letter, and the next one comes."""
    topic, group, seen = cluster.topic(queues=1), cluster.group(), Seen(lambda message: message.body == b"bad")
    send(cluster, topic, [b"bad", b"good"])
    with PushConsumer(
        cluster.name_server, group=group, consume_from=FIRST, orderly=True, reconsume_times_max=3, suspend_s=0.05
    ) as consumer:
        consumer.subscribe(topic, "*", seen)
        eventually(lambda: b"good" in seen.bodies)
        assert seen.bodies == [b"bad"] * 4 + [b"good"]
        eventually(lambda: dead_letters(cluster, group) == [b"bad"])


def test_each_broadcasting_consumer_gets_everything_and_goes_on_where_it_was(
    cluster: ClientCluster, tmp_path: Path
) -> None:
    """C192, C194: offsets are in `<folder>/<client id>/<group>/offsets.json`, or else in its `.bak`."""
    topic, group = cluster.topic(), cluster.group()

    def consume(name: str, bodies: list[bytes]) -> None:
        seen = Seen()
        consumer = PushConsumer(
            cluster.name_server,
            group=group,
            consume_from=FIRST,
            instance_name=name,
            client_ip="127.0.0.1",
            message_model=MessageModel.BROADCASTING,
            offset_folder=tmp_path,
        )
        consumer.subscribe(topic, "*", seen)
        with consumer:
            eventually(lambda: len(seen.messages) >= len(bodies))
            eventually(lambda: sum(consumer.offsets().values()) >= len(bodies))
        assert sorted(seen.bodies) == sorted(bodies)

    send(cluster, topic, numbers(20))
    for name in ("one", "two"):
        consume(name, numbers(20))
    send(cluster, topic, numbers(20, 20))
    consume("one", numbers(20, 20))
    file = tmp_path / "127.0.0.1@one" / group / "offsets.json"
    file.write_text("{broken")
    consume("one", numbers(20, 20))  # the backup is one write older


def test_a_handler_may_send_and_close(cluster: ClientCluster) -> None:
    """C230: no deadlock; the rest of the program goes on when the consumer is closed."""
    topic, echo, group, seen = cluster.topic(), cluster.topic(), cluster.group(), Seen()
    send(cluster, topic, [b"x"])
    with (
        Producer(cluster.name_server, group="scenario-producers", send_timeout_s=_SOON_S) as producer,
        PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer,
    ):

        def handle(message: ReceivedMessage) -> None:
            seen(message)
            producer.send(Message(echo, message.body))
            consumer.close()

        consumer.subscribe(topic, "*", handle)
        consumer.run()
    assert seen.bodies == [b"x"]
    again = Seen()
    with PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
        consumer.subscribe(topic, "*", again)
        consumer.subscribe(echo, "*", seen)
        eventually(lambda: len(seen.messages) == 2)
    assert again.messages == []


def _is_waiting_in_run(thread: int) -> bool:
    """It is inside `run`, and there at the event that ends it."""
    called = set()
    for frame, _ in traceback.walk_stack(sys._current_frames()[thread]):
        if frame.f_code is PushConsumer.run.__code__:
            return threading.Event.wait.__code__ in called
        called.add(frame.f_code)
    return False


def _press_ctrl_c(thread: int) -> None:
    """Not before this thread is inside `run`: anywhere else it would be the end of all tests."""
    eventually(lambda: _is_waiting_in_run(thread))
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_run(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    with PushConsumer(cluster.name_server, group=group) as consumer:
        consumer.subscribe(topic, "*", Seen())
        user = threading.Thread(target=_press_ctrl_c, args=(threading.get_ident(),), name="user")
        user.start()
        consumer.run()
        user.join()
        assert consumer.queues is not None  # it is still open: the end of the block closes it


def test_coroutines_are_for_the_other_consumer(cluster: ClientCluster) -> None:
    async def handle(message: ReceivedMessage) -> None: ...

    consumer = PushConsumer(cluster.name_server, group=cluster.group())
    with pytest.raises(TypeError, match=r"rocketline\.aio"):
        consumer.subscribe("any", "*", handle)  # type: ignore[arg-type]
