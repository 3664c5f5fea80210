"""What a producer gets for a message: `SendReceipt`. Java: SendResult."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketline.errors import response_error
from rocketline.model.queue import MessageQueue
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import SendMessageResponseHeader

DEFAULT_REGION: Final = "DefaultRegion"


class SendStatus(Enum):
    """How safe a stored message is. Java: SendStatus."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored, and not on disk within the broker's time (flushDiskType=SYNC_FLUSH)."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored, and there is no slave to copy it to (brokerRole=SYNC_MASTER)."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored, and not on a slave within the broker's time."""


_STATUSES: Final[dict[int, SendStatus]] = {
    ResponseCode.SUCCESS.value: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT.value: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE.value: SendStatus.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT.value: SendStatus.FLUSH_SLAVE_TIMEOUT,
}


@dataclass(slots=True)
class SendReceipt:
    """The message is stored. Java: SendResult.

    Not frozen, because one is made for every message; by habit nobody changes it.
    """

    status: SendStatus
    message_id: str
    """What the message is known by from now on; of a batch, the ids of all, with commas between. Java: msgId."""
    offset_message_id: str
    """Where the broker keeps it: an id to ask that broker by. Java: offsetMsgId."""
    queue: MessageQueue
    queue_offset: int
    """Of a delayed message: where it waits, not where it will be consumed."""
    transaction_id: str | None = None
    recall_handle: str | None = None
    """By which a message for a later moment can be called back until then: `Producer.recall`."""
    region: str = DEFAULT_REGION
    is_traced: bool = True

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"offset {self.queue_offset} of {self.queue}"

    @property
    def is_ok(self) -> bool:
        """The message is as safe as the broker is set up to make it."""
        return self.status is SendStatus.SEND_OK

    @property
    def message_ids(self) -> list[str]:
        """The ids of all messages of a batch; the one of any other."""
        return self.message_id.split(",")


def read_receipt(
    answer: Command,
    message_id: str,
    batch_id: str | None,
    queue: MessageQueue,
    address: str,
    code: int = RequestCode.SEND_MESSAGE_V2,
) -> SendReceipt:
    """The receipt in a broker's answer, or the `ResponseError` in it, raised.

    `queue` is the one that was asked for, `batch_id` the id of a batch as a whole, `code` the request's. Raises
    `RemoteProtocolError` for an answer that lacks what a receipt has.
    """
    status = _STATUSES.get(answer.code)
    if status is None:
        raise response_error(answer.code, answer.remark, request=RequestCode(code).name, address=address)
    ext = answer.ext
    if batch_id is not None and "batchUniqId" in ext:
        message_id = batch_id  # the broker keeps the batch in one piece
    try:
        queue_id, queue_offset, offset_id = int(ext["queueId"]), int(ext["queueOffset"]), ext["msgId"]
    except (KeyError, ValueError):
        made = headers.decode(SendMessageResponseHeader, ext)  # says which field is wrong, or takes what int() does not
        queue_id, queue_offset, offset_id = made.queue_id, made.queue_offset, made.msg_id
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
    get = ext.get
    return SendReceipt(
        status,
        message_id,
        offset_id,
        queue,
        queue_offset,
        get("transactionId"),
        get("recallHandle"),
        get("MSG_REGION") or DEFAULT_REGION,
        get("TRACE_ON") != "false",
    )
