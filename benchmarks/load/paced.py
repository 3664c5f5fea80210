"""Messages at a steady pace, by our producer.

python -m benchmarks.load.paced NAMESERVERS TOPIC RATE SECONDS BYTES
"""

from __future__ import annotations

import sys
import time

from rocketline.client.sync.producer import Producer
from rocketline.model.message import Message


def main(name_servers: str, topic: str, rate: str, seconds: str, body_bytes: str) -> None:
    body = bytes(int(body_bytes))
    with Producer(name_servers, group="paced") as producer:
        began_s = time.perf_counter()
        for number in range(int(rate) * int(seconds)):
            early_s = began_s + number / int(rate) - time.perf_counter()
            if early_s > 0:
                time.sleep(early_s)
            producer.send(Message(topic, body, keys=f"key-{number}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
