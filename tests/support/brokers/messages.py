"""Messages as producers send them, and the topics they go to."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.properties import format_properties
from support.brokers.running import Peer


async def create_topic(peer: Peer, topic: str, *, queues: int = 4, perm: int = 6) -> None:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
    }
    answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
    assert answer.code == 0, answer.remark


async def try_send(
    peer: Peer,
    body: bytes = b"x",
    properties: Mapping[str, str] | None = None,
    *,
    topic: str = "T",
    queue_id: int = 0,
    reconsume_times: int = 0,
    max_reconsume_times: int | None = None,
) -> Command:
    """The answer, whatever it says."""
    ext = {
        "producerGroup": "p",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(queue_id),
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": format_properties(properties or {}),
        "reconsumeTimes": str(reconsume_times),
    }
    if max_reconsume_times is not None:
        ext["maxReconsumeTimes"] = str(max_reconsume_times)
    return await peer.ask(RequestCode.SEND_MESSAGE, ext, body)


async def send(peer: Peer, body: bytes = b"x", *, topic: str = "T", queue_id: int = 0, **properties: str) -> Command:
    """The answer to a message that was stored."""
    answer = await try_send(peer, body, properties, topic=topic, queue_id=queue_id)
    assert answer.code == 0, answer.remark
    return answer
