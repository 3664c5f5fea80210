from __future__ import annotations

from rocketline.client.send_room import SendRoom


def test_message_bigger_than_all_the_room_goes_alone() -> None:
    room = SendRoom(count_max=10, bytes_max=100)
    assert room.take(500)
    assert not room.take(1)
    room.give(500)
    assert room.take(1)
    assert not room.take(500)
    assert room.count == 1
