"""Pulls as consumers send them, and a handler with its fast twin to answer them."""

from __future__ import annotations

from collections.abc import Callable

from rocketline.broker.long_work import LongWork
from rocketline.broker.pulls.checks import PullChecks
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.broker.pulls.handler import PullHandlers
from rocketline.broker.pulls.hot_path import PullPath
from rocketline.broker.pulls.long_poll import HeldPulls
from rocketline.broker.pulls.reading import PullReading
from rocketline.hot.pure import pull_request
from rocketline.net.channel import Channel, Outcome
from rocketline.store.store_hooks import StoreHooks
from rocketline.wire import header_json
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from support.brokers.tables import Tables

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


def pull(offset: int = 0, *, code: int = RequestCode.PULL_MESSAGE, flags: int = SUBSCRIPTION, **fields: str) -> Command:
    """A pull of queue 0 of T for the group g, which says itself what it wants; `fields` are the wire's names."""
    ext = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return Command(code, ext | fields)


def bodies(answer: Outcome) -> list[bytes]:
    """The bodies of the messages in an answer that found some."""
    assert isinstance(answer, Command)
    assert answer.code == 0, answer.remark
    return [message.body for message in decode_records(answer.body)]


class Pulls:
    """What answers pulls, put together as the broker does."""

    def __init__(self, tables: Tables) -> None:
        self.soon: list[Callable[[], None]] = []
        filter_work = FilterWork(self.soon.append)
        self.held = HeldPulls(tables.store, tables.clock, self.soon.append, filter_work)
        tables.store.connect(StoreHooks(on_arrival=self.held.on_arrival))
        checks = PullChecks(tables.topics, tables.groups, tables.consumers, tables.filters, tables.settings)
        reading = PullReading(tables.store, tables.offsets, tables.stats, filter_work, tables.settings, tables.clock)
        work = LongWork(lambda _, action: self.soon.append(action), tables.log)
        handlers = PullHandlers(
            checks, reading, self.held, tables.settings, tables.clock, tables.log, work, tables.filters.expressions
        )
        self._by_code = handlers.by_code()
        self.path = PullPath(checks, reading, tables.topics, tables.groups, tables.consumers, tables.settings)

    def answer(self, channel: object, ext: dict[str, str], opaque: int) -> bytes | None:
        """What the fast way makes of a pull; None if it leaves it to the handler."""
        header = pull_request.read(header_json.encode(Command(RequestCode.PULL_MESSAGE, ext, opaque=opaque)))
        return None if header is None else self.path.answer(channel, header)

    def handle(self, channel: Channel, request: Command) -> Outcome:
        return self._by_code[request.code](channel, request)
