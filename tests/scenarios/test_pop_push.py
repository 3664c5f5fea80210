"""Push consumers on real servers that have their group pop."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

from rocketline.client.push.consume_result import ConsumeResult
from rocketline.client.push.options import PushKeywords
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.sync.producer import Producer
from rocketline.client.sync.pull_consumer import PullConsumer
from rocketline.client.sync.push_consumer import PushConsumer
from rocketline.client.sync.simple_consumer import SimpleConsumer
from rocketline.model.message import Message
from rocketline.model.names import DLQ_PREFIX
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere
from support.clients.clusters import ClientCluster, wait_until

PATIENCE_S = 30.0


def send(cluster: ClientCluster, topic: str, bodies: Sequence[bytes], *, tags: str | None = None) -> None:
    with Producer(cluster.name_server, group="senders", send_timeout_s=PATIENCE_S) as producer:
        for body in bodies:
            producer.send(Message(topic, body, tags=tags))


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@contextmanager
def member(
    cluster: ClientCluster, group: str, topic: str, handler: Callable[..., Any], **options: Unpack[PushKeywords]
) -> Iterator[PushConsumer]:
    options.setdefault("consume_from", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    options["client_rebalance"] = False
    with PushConsumer(cluster.name_server, group=group, **options) as consumer:
        consumer.subscribe(topic, "*", handler)
        yield consumer


def pops(consumer: PushConsumer, topic: str) -> set[tuple[str, int]]:
    return {(queue.broker_name, queue.queue_id) for queue in consumer.queues if queue.topic == topic}


def test_two_members_pop_all_brokers_and_share_the_messages(cluster: ClientCluster) -> None:
    """C195: and brokers never hear of an offset of these queues from them."""
    topic = cluster.topic(queues=2, brokers=2)
    group = cluster.popping_group(topic)
    seen: defaultdict[str, Counter[bytes]] = defaultdict(Counter)

    def handler(name: str) -> Callable[[ReceivedMessage], None]:
        return lambda message: seen[name].update([message.body])

    with (
        member(cluster, group, topic, handler("one")) as one,
        member(cluster, group, topic, handler("other"), instance_name="other") as other,
    ):
        every = {("broker-a", -1), ("broker-b", -1)}
        wait_until(lambda: pops(one, topic) == pops(other, topic) == every)
        send(cluster, topic, numbered(300))
        wait_until(lambda: (seen["one"] + seen["other"]).total() >= 300)
        time.sleep(1)
    assert seen["one"] + seen["other"] == Counter(numbered(300))
    assert not one.offsets().keys() & {MessageQueue(topic, name, number) for name, number in every}


def test_message_that_failed_comes_again_and_is_a_dead_letter_in_the_end(cluster: ClientCluster) -> None:
    """C196: the first time after ten seconds."""
    topic = cluster.topic(queues=1)
    group = cluster.popping_group(topic)
    times: list[tuple[int, float]] = []

    def handle(message: ReceivedMessage) -> ConsumeResult:
        times.append((message.reconsume_times, time.monotonic()))
        return ConsumeResult.RETRY_LATER

    with member(cluster, group, topic, handle, reconsume_times_max=1) as consumer:
        wait_until(lambda: bool(pops(consumer, topic)))
        send(cluster, topic, [b"bad"])
        wait_until(lambda: len(times) == 2)
        time.sleep(2)
    assert [failures for failures, _ in times] == [0, 1]
    assert 9 < times[1][1] - times[0][1] < 20
    with PullConsumer(cluster.name_server, group="undertaker") as undertaker:
        (queue,) = undertaker.queues(DLQ_PREFIX + group)
        assert [letter.body for letter in undertaker.pull(queue, 0).messages] == [b"bad"]


def test_push_and_simple_consumers_share_a_group(cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=2, brokers=2)
    group = cluster.popping_group(topic)
    pushed: list[bytes] = []
    received: list[bytes] = []

    def handle(message: ReceivedMessage) -> None:
        time.sleep(0.02)
        pushed.append(message.body)

    with (
        member(cluster, group, topic, handle, consume_threads=1, pop_batch_max=4, pop_count_max=4) as consumer,
        SimpleConsumer(cluster.name_server, group=group) as worker,
    ):
        worker.subscribe(topic)
        wait_until(lambda: bool(pops(consumer, topic)))
        send(cluster, topic, numbered(100))
        deadline_s = time.monotonic() + PATIENCE_S
        while len(pushed) + len(received) < 100 and time.monotonic() < deadline_s:
            messages = worker.receive(1, wait_s=0.2)
            received += [message.body for message in messages]
            worker.ack(messages)
            time.sleep(0.02)
    assert pushed
    assert received
    assert Counter(pushed + received) == Counter(numbered(100))


def test_group_goes_from_pulling_to_popping_without_a_loss(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=2), cluster.group()
    seen: Counter[bytes] = Counter()
    with member(cluster, group, topic, lambda message: seen.update([message.body])) as consumer:
        wait_until(lambda: pops(consumer, topic) == {("broker-a", 0), ("broker-a", 1)})
        send(cluster, topic, numbered(20))
        wait_until(lambda: seen.total() >= 20)
        cluster.let_pop(topic, group)
        wait_until(lambda: pops(consumer, topic) == {("broker-a", -1)}, patience_s=45)
        send(cluster, topic, numbered(20, 20))
        wait_until(lambda: len(seen) == 40)
    assert set(seen) == set(numbered(40))
