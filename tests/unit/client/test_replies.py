"""Replies as handlers make them."""

from __future__ import annotations

import pytest

from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.client.replies import reply
from rocketline.errors import InvalidMessageError, NotARequestError
from rocketline.model import property_names as names
from rocketline.wire.message_codec import encode_record
from support.brokers.tables import message

ASKED = {
    names.CLUSTER: "north",
    names.CORRELATION_ID: "id-1",
    names.REPLY_TO_CLIENT: "me@1",
    names.TTL: "3000",
    "color": "red",
}


def received(properties: dict[str, str]) -> ReceivedMessage:
    stored = message("T", b"2+2")
    stored.properties = properties
    (made,) = decode_messages(encode_record(stored), broker_name="broker-a")
    return made


def test_a_reply_goes_to_the_reply_topic_of_the_cluster_that_had_the_request() -> None:
    """C117."""
    made = reply(received(ASKED), b"4", tags="sum", keys=["k"], properties={"shape": "round"}, flag=3)
    assert (made.topic, made.body, made.flag) == ("north_REPLY_TOPIC", b"4", 3)
    assert made.properties == {
        "shape": "round",
        names.TAGS: "sum",
        names.KEYS: "k",
        names.MSG_TYPE: "reply",
        names.CORRELATION_ID: "id-1",
        names.REPLY_TO_CLIENT: "me@1",
        names.TTL: "3000",
    }


@pytest.mark.parametrize("missing", [names.CLUSTER, names.CORRELATION_ID, names.REPLY_TO_CLIENT])
def test_a_message_that_asks_for_nothing_cannot_be_replied_to(missing: str) -> None:
    """C117."""
    with pytest.raises(NotARequestError, match=missing) as caught:
        reply(received({name: value for name, value in ASKED.items() if name != missing}), b"4")
    assert (caught.value.code, caught.value.missing) == (10007, (missing,))


def test_a_reply_without_ttl_or_body() -> None:
    """C117: the TTL is only passed on."""
    assert names.TTL not in reply(received({name: ASKED[name] for name in ASKED if name != names.TTL}), b"4").properties
    with pytest.raises(InvalidMessageError, match="empty"):
        reply(received(ASKED), b"")
