"""Transactions as a producer's requests make them."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.clock import SystemClock
from rocketline.model.ids import OffsetMessageId
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.properties import format_properties
from support.brokers.connections import heartbeat
from support.brokers.running import Peer

COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"


async def join(peer: Peer, group: str = "p", client_id: str = "c") -> None:
    """A producer's heartbeat."""
    answer = await peer.request(heartbeat(client_id, producers=[group]), 20)
    assert answer.code == 0, answer.remark


async def try_half(
    peer: Peer,
    body: bytes = b"x",
    properties: Mapping[str, str] | None = None,
    *,
    topic: str = "T",
    queue_id: int = 0,
    group: str = "p",
    born_ms: int | None = None,
    sys_flag: int = 4,
    reconsume_times: int = 0,
    flag: int = 0,
) -> Command:
    """The answer to half a transaction, whatever it says."""
    named = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": f"K{body.hex()[:40]}", **(properties or {})}
    ext = {
        "producerGroup": group,
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(queue_id),
        "sysFlag": str(sys_flag),
        "bornTimestamp": str(SystemClock().wall_ms() if born_ms is None else born_ms),
        "flag": str(flag),
        "properties": format_properties(named),
        "reconsumeTimes": str(reconsume_times),
    }
    return await peer.ask(RequestCode.SEND_MESSAGE, ext, body)


async def half(
    peer: Peer, body: bytes = b"x", *, queue_id: int = 0, group: str = "p", **properties: str
) -> dict[str, str]:
    """The fields of END_TRANSACTION for a half message that was stored."""
    answer = await try_half(peer, body, properties, queue_id=queue_id, group=group)
    assert answer.code == 0, answer.remark
    return end_fields(answer, group)


def end_fields(answer: Command, group: str = "p") -> dict[str, str]:
    """What END_TRANSACTION carries, but for the decision."""
    return {
        "producerGroup": group,
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(OffsetMessageId.parse(answer.ext["msgId"]).log_offset),
        "msgId": answer.ext["transactionId"],
        "fromTransactionCheck": "false",
    }


def answer_fields(question: Command, group: str = "p") -> dict[str, str]:
    """The same for the answer to a check."""
    return {
        "producerGroup": group,
        "tranStateTableOffset": question.ext["tranStateTableOffset"],
        "commitLogOffset": question.ext["commitLogOffset"],
        "msgId": question.ext["msgId"],
        "fromTransactionCheck": "true",
    }


async def end(peer: Peer, fields: dict[str, str], state: str = COMMIT) -> Command:
    return await peer.ask(RequestCode.END_TRANSACTION, {**fields, "commitOrRollback": state})
