from __future__ import annotations

from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage


def stored(**properties: str) -> StoredMessage:
    host = HostAddress.parse("127.0.0.1:10911")
    return StoredMessage("T", b"", properties, 0, 0, QueueOffset(0), LogOffset(4096), 0, 0, host, 0, host)


def test_message_id_is_the_producers_own_if_there_is_one() -> None:
    assert stored(UNIQ_KEY="mine").message_id == "mine"
    assert stored().message_id == stored().offset_message_id == "7F00000100002A9F0000000000001000"


def test_tag_and_keys_come_from_properties() -> None:
    assert (stored().tag, stored().keys) == (None, [])
    message = stored(TAGS="TagA", KEYS=" k1  k2\tk3 ")
    assert (message.tag, message.keys) == ("TagA", ["k1", "k2\tk3"])


def test_messages_do_not_share_properties() -> None:
    one, other = Message("T", b""), Message("T", b"")
    one.properties["a"] = "b"
    assert other.properties == {}
