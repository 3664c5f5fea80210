"""What a consumer tells an administrator about itself. Java: DefaultMQPushConsumerImpl.consumerRunningInfo."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from rocketline.client.consumer.offset_store import OffsetStore
from rocketline.client.consumer.process_queue import Queue
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.wire.bodies.running import ConsumerRunningInfo, ConsumeStatus

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime


def running_info(
    runtime: ClientRuntime,
    properties: dict[str, str],
    subscriptions: Collection[SubscriptionData],
    queues: Mapping[MessageQueue, Queue],
    offsets: OffsetStore,
    statuses: Mapping[str, ConsumeStatus],
    *,
    is_with_stacks: bool,
) -> ConsumerRunningInfo:
    """For GET_CONSUMER_RUNNING_INFO (307). Offsets are those in memory."""
    now_s, now_ms = runtime.clock.monotonic(), runtime.clock.wall_ms()
    return ConsumerRunningInfo(
        properties=properties,
        subscription_set=list(subscriptions),
        mq_table={
            queue: process_queue.info(offsets.cached(queue), now_s=now_s, now_ms=now_ms)
            for queue, process_queue in queues.items()
        },
        status_table=dict(statuses),
        jstack=all_stacks() if is_with_stacks else None,
    )


def all_stacks() -> str:
    """What every thread of this process, and every task of this loop, is doing. Java: jstack."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(identity, identity)}\n{''.join(traceback.format_stack(frame))}"
        for identity, frame in sys._current_frames().items()
    ]
    for task in asyncio.all_tasks():
        stack = "".join("".join(traceback.format_stack(frame, 1)) for frame in task.get_stack())
        parts.append(f"task {task.get_name()}\n{stack}")
    return "\n".join(parts)
