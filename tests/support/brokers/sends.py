"""Messages as producers send them, and the handlers with their fast twin to take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketline.broker.clients.locks import LockTable
from rocketline.broker.long_work import LongWork
from rocketline.broker.sends.handler import SendHandlers
from rocketline.broker.sends.hot_path import SendPath
from rocketline.broker.storing.admission import Admission
from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.storing.put import MessagePut
from rocketline.net.channel import Channel, Outcome
from rocketline.store.store_hooks import StoreHooks
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.properties import format_properties
from support.brokers.tables import Tables

USUAL_PROPERTIES = {
    "KEYS": "order-1 order-2",
    "UNIQ_KEY": "0A000001162E0102030400A1B2C30000",
    "WAIT": "true",
    "TAGS": "A",
}


def send_v2(
    body: bytes = b"x",
    fields: Mapping[str, str] | None = None,
    *,
    opaque: int = 0,
    flag: int = 0,
    properties: str | None = None,
) -> Command:
    """A SEND_MESSAGE_V2 to queue 0 of T; `fields` are the wire's letters."""
    ext = {
        "a": "producers",
        "b": "T",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": format_properties(USUAL_PROPERTIES) if properties is None else properties,
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return Command(
        RequestCode.SEND_MESSAGE_V2, {**ext, **(fields or {})}, body, opaque=opaque, flag=flag, language="JAVA"
    )


class Sends:
    """What takes messages, put together as the broker does."""

    def __init__(self, tables: Tables) -> None:
        self.flusher = Flusher(tables.store, lambda: tables.settings.value.store, tables.clock)
        self.locks = LockTable(tables.clock)
        self.halves: list[str] = []
        puts = MessagePut(tables.store, self.flusher, tables.settings)
        self.admission = Admission(tables.store, lambda: self.flusher.waiting, tables.settings, tables.clock)
        self.soon: list[Callable[[], None]] = []
        handlers = SendHandlers(
            puts,
            tables.topics,
            tables.groups,
            self.locks,
            tables.stats,
            tables.settings,
            tables.store.store_host,
            tables.clock,
            LongWork(lambda _, action: self.soon.append(action), tables.log),
            on_half=self.halves.append,
            choose_queue=lambda count: count - 1,
        )
        self._by_code = self.admission.guarded(handlers.by_code())
        self.path = SendPath(
            tables.store,
            self.flusher,
            tables.topics,
            tables.stats,
            self.admission,
            tables.settings,
            tables.clock,
            self.soon.append,
        )
        tables.store.connect(StoreHooks(settle=self.path.settle, on_written=self.flusher.flush))

    def take(self, data: bytes, read_s: float) -> tuple[int, bytes]:
        """How many bytes the hot path takes of what was read, and what it answers until the end of the turn."""
        peer = Peer(read_s)
        end, replies, later = self.path(peer, data, 0, 1 << 20)
        self.end_turn()
        assert peer.answered == later
        return end, replies + peer.replies

    def end_turn(self) -> None:
        for action in self.soon:
            action()
        self.soon.clear()

    def handle(self, channel: Channel, request: Command) -> Outcome:
        return self._by_code[request.code](channel, request)


class Peer:
    """A connection that remembers what it was answered."""

    peer = "127.0.0.1:50000"

    def __init__(self, read_s: float) -> None:
        self.read_s = read_s
        self.replies = b""
        self.answered = 0

    def reply_bytes(self, replies: bytes, count: int) -> None:
        self.replies += replies
        self.answered += count
