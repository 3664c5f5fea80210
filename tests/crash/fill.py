"""Fills a store and ends without closing it, as a kill would: `python -m crash.fill FOLDER BODY_BYTES LOG_BYTES`.

Through the store itself, without a broker before it, because a gigabyte of small messages is millions of them. Nothing
is flushed, so no checkpoint spares recovery any of the log. Prints how many messages there are.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rocketline.broker.config import load_settings
from rocketline.clock import SystemClock
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.settings import Flag
from rocketline.store.filesystem import DiskFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.wire.properties import encode_properties

TOPIC, QUEUES = "crash-filled", 4
_BATCH = 500
_LEFT_FREE = 1024 * 1024
_HOST = HostAddress.parse("127.0.0.1:10911")


def unique_key(number: int) -> str:
    return f"{number:032X}"


def fill(folder: Path, body_bytes: int, log_bytes: int) -> int:
    """Messages stored: as many as fit into the first `log_bytes` of the log, but for the last few."""
    settings, clock = load_settings(flags=[Flag("", "storePathRootDir", str(folder))]), SystemClock()
    store = MessageStore.open(lambda: settings.value.store, DiskFileSystem(), clock, _HOST, 1 << 30)
    body, number, born_ms = os.urandom(body_bytes), 0, clock.wall_ms()
    while store.max_log_offset < log_bytes - _LEFT_FREE:
        queue_id, place = number // _BATCH % QUEUES, (QueueOffset(0), LogOffset(0))
        batch = StoredMessage(TOPIC, b"", {}, 0, queue_id, *place, 0, born_ms, _HOST, 0, _HOST)
        numbers = range(number, number + _BATCH)
        store.append_members(
            batch, [(0, body, encode_properties({"UNIQ_KEY": unique_key(one), "WAIT": "true"})) for one in numbers]
        )
        number = numbers.stop
    store.write_behind()
    return number


def main() -> None:
    folder, body_bytes, log_bytes = sys.argv[1:]
    print(fill(Path(folder), int(body_bytes), int(log_bytes)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
