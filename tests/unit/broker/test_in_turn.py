"""Things that wait for their turn by connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from rocketline.broker.in_turn import InTurn
from rocketline.net.channel import Channel


@dataclass
class Thing:
    channel: Channel
    name: str


def test_connections_take_turns_and_each_keeps_its_order() -> None:
    line = InTurn[Thing]()
    first, second = (cast("Channel", name) for name in ("first", "second"))
    for channel, name in ((first, "a"), (first, "b"), (first, "c"), (second, "x"), (second, "y")):
        line.add(Thing(channel, name))
    assert len(line) == 5
    assert [line.next().name for _ in range(5)] == ["a", "x", "b", "y", "c"]
    assert (len(line), line._lines) == (0, {})
