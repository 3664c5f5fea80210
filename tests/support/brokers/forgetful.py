"""Brokers whose messages expire when a test wants it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketline import Message, Producer, PullConsumer
from rocketline.admin.sync import Admin
from rocketline.model.queue import MessageQueue
from support.clients.clusters import ClientCluster
from support.spark.reading import BROKER

_LOG_FILE_BYTES: Final = 256 * 1024
SMALL_LOG_FILES: Final = {"mappedFileSizeCommitLog": str(_LOG_FILE_BYTES)}
"""What such a broker is started with."""


@dataclass(frozen=True, slots=True)
class Forgetful:
    """A broker with small log files, which can be told to delete all but the last."""

    cluster: ClientCluster
    pass_time: Callable[[], None]
    """So that the broker looks for files to delete."""

    def forget(self, topic: str) -> int:
        """Fill log files until the first ones can be deleted, and delete them; the first offset that is left."""
        queue, address = MessageQueue(topic, BROKER, 0), self.cluster.name_server
        with Producer(address, group="fill") as producer:
            for _ in range(3 * _LOG_FILE_BYTES // 30_000):
                producer.send(Message(topic, os.urandom(30_000)), queue=queue)
        deadline_s = time.monotonic() + 120
        with Admin(address) as admin, PullConsumer(address, group="TOOLS_CONSUMER") as consumer:
            consumer.queues(topic)
            admin.brokers.set_config({"fileReservedTime": "0"})
            admin.brokers.delete_expired_logs()
            while not (low := consumer.min_offset(queue)):
                assert time.monotonic() < deadline_s, "nothing was deleted"
                self.pass_time()  # what is not on disk yet is not deleted
                time.sleep(0.05)
            admin.brokers.set_config({"fileReservedTime": "72"})  # else the next look of the broker takes more
        return low
