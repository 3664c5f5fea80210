"""Where an ordered topic's queues are said to be, whatever brokers are there at the moment: a text in all name servers.

Producers of an ordered topic take its queues from this text (`broker-a:4;broker-b:4`), so that a message's queue stays
the same while a broker is away. Java: MQAdminExt.createOrUpdateOrderConf.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rocketline.admin.calls import Calls
from rocketline.errors import ResponseError
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import (
    DeleteKvConfigRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    PutKvConfigRequestHeader,
)

NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


async def extend(calls: Calls, topic: str, queue_counts: Mapping[str, int]) -> None:
    """Say how many queues these brokers have; what was said of others stays."""
    await _write(calls, topic, {**await read(calls, topic), **queue_counts})


async def remove(calls: Calls, topic: str, brokers: Collection[str]) -> None:
    """Say nothing of these brokers any more."""
    known = await read(calls, topic)
    left = {broker: count for broker, count in known.items() if broker not in brokers}
    if left != known:
        await _write(calls, topic, left)


async def read(calls: Calls, topic: str) -> dict[str, int]:
    """The queues of each broker; nothing if the topic is not ordered."""
    try:
        answer = await calls.ask_name_server(
            RequestCode.GET_KV_CONFIG, GetKvConfigRequestHeader(namespace=NAMESPACE, key=topic)
        )
    except ResponseError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        raise
    return parse(headers.decode(GetKvConfigResponseHeader, answer.ext).value or "")


async def _write(calls: Calls, topic: str, queue_counts: Mapping[str, int]) -> None:
    if queue_counts:
        text = ";".join(f"{broker}:{count}" for broker, count in sorted(queue_counts.items()))
        put = PutKvConfigRequestHeader(namespace=NAMESPACE, key=topic, value=text)
        await calls.tell_name_servers(RequestCode.PUT_KV_CONFIG, put)
    else:
        delete = DeleteKvConfigRequestHeader(namespace=NAMESPACE, key=topic)
        await calls.tell_name_servers(RequestCode.DELETE_KV_CONFIG, delete)


def parse(text: str) -> dict[str, int]:
    """What can be read of a text that anybody may have written.

    >>> parse("broker-a:4;broker-b:2;nonsense")
    {'broker-a': 4, 'broker-b': 2}
    """
    pairs = (entry.rpartition(":") for entry in text.split(";"))
    return {broker: int(count) for broker, _, count in pairs if broker and count.isascii() and count.isdigit()}
