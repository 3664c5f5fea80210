from __future__ import annotations

import pytest

from rocketline.client.producer.receipts import read_receipt
from rocketline.errors import NoPermissionError, RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import response

QUEUE = MessageQueue("T", "b", 1)
PLACE = {"msgId": "PLACE", "queueId": "1", "queueOffset": "9"}


def test_receipt_has_all_that_the_answer_says() -> None:
    answer = response(
        0, ext={**PLACE, "transactionId": "ID", "recallHandle": "H", "MSG_REGION": "R", "TRACE_ON": "false"}
    )
    receipt = read_receipt(answer, "ID", None, QUEUE, "b:1")
    assert receipt.queue is QUEUE
    assert (receipt.message_id, receipt.offset_message_id, receipt.queue_offset) == ("ID", "PLACE", 9)
    assert (receipt.transaction_id, receipt.recall_handle) == ("ID", "H")
    assert (receipt.region, receipt.is_traced, receipt.is_ok) == ("R", False, True)


def test_refusal_says_what_was_asked_and_where() -> None:
    with pytest.raises(NoPermissionError, match="SEND_BATCH_MESSAGE at b:1: code 16: no"):
        read_receipt(response(16, "no"), "ID", "BATCH", QUEUE, "b:1", RequestCode.SEND_BATCH_MESSAGE)


@pytest.mark.parametrize("missing", sorted(PLACE))
def test_answer_that_lacks_a_field_is_the_brokers_fault(missing: str) -> None:
    ext = {name: value for name, value in PLACE.items() if name != missing}
    with pytest.raises(RemoteProtocolError, match=missing):
        read_receipt(response(0, ext=ext), "ID", None, QUEUE, "b:1")


def test_number_that_is_none_is_the_brokers_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="queueOffset"):
        read_receipt(response(0, ext={**PLACE, "queueOffset": "nine"}), "ID", None, QUEUE, "b:1")
