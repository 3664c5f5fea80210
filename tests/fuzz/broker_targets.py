"""A broker without sockets, for damaged bytes: whole connections, single requests, and the bodies of batches.

Whatever comes, every request is answered, no handler fails with an exception of its own, and the store stays whole.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import NamedTuple, NoReturn

from rocketline.broker.routing import RequestRouting
from rocketline.broker.server import wire_up
from rocketline.broker.services import Services
from rocketline.broker.storage import BrokerStorage
from rocketline.clock import SystemClock
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model.ids import HostAddress, QueueOffset
from rocketline.model.message import Message
from rocketline.model.subscription import MessageRequestMode
from rocketline.model.topic_config import TopicConfig
from rocketline.net.dispatch import Dispatcher, Handler
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.wire import frame
from rocketline.wire.batch import encode_batch
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.pop import SetMessageRequestModeRequestBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import ORDER_REVIVE_QUEUE_ID, PopHandle, TopicKind
from support.brokers.connections import broker_settings
from support.brokers.pops import BROKER, batch
from support.brokers.sends import send_v2
from support.golden import golden_frames
from support.net.doubles import MemoryTransport, RecordingOwner, connected, feed, turn

_LOG_BYTES_MAX = 64 * 1024 * 1024
_SETTINGS = {
    "storePathRootDir": "/store",
    "brokerIP1": "127.0.0.1",
    "listenPort": "10911",
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "maxHashSlotNum": "64",
    "maxIndexNum": "4096",
    "brokerFastFailureEnable": "false",
}
_KNOWN_CODES = frozenset(ResponseCode)


class _StrictLog(Throttle):
    """A fault of ours, which a running broker would log and answer, is a finding."""

    def error(self, cause: str, message: str, *, error: BaseException | None = None, **fields: object) -> NoReturn:
        raise AssertionError(f"{cause}: {message}") from error


class _Broker(NamedTuple):
    kept: BrokerStorage
    handlers: dict[int, Handler]
    owner: RecordingOwner

    async def receive(self, data: bytes) -> MemoryTransport:
        """A connection that brings these bytes and is closed again; what it was answered."""
        channel, transport = connected(self.owner)
        feed(channel, data)
        await turn()  # what was laid out is written now
        transport.close()
        await turn()
        self.check()
        return transport

    def check(self) -> None:
        store = self.kept.store
        assert store.problem is None, store.problem
        for queue in store.queues:
            assert 0 <= queue.min_offset <= queue.max_offset == queue.next_offset, queue


class BrokerDouble:
    """Made anew when its log has grown: inputs are many, and memory is not."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stack = AsyncExitStack()
        self._broker: _Broker | None = None

    def _run(self, work: Coroutine[None, None, object]) -> object:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """End what runs; the next input begins anew."""
        if self._loop is not None:
            self._loop.run_until_complete(self._stack.aclose())
            self._loop.close()
        self._loop = self._broker = None

    async def _current(self) -> _Broker:
        if self._broker is None or self._broker.kept.store.max_log_offset > _LOG_BYTES_MAX:
            await self._stack.aclose()
            self._stack = AsyncExitStack()
            self._broker = await self._opened()
        return self._broker

    async def _opened(self) -> _Broker:
        clock, settings = SystemClock(), broker_settings(**_SETTINGS)
        files, log = MemoryFileSystem(clock, capacity=2**30), _StrictLog(clock)
        kept = BrokerStorage(settings, files, clock, HostAddress.parse("127.0.0.1:10911"), log)
        self._stack.callback(kept.close)
        services = Services(kept, settings, "127.0.0.1:10911", clock, log)
        routing = RequestRouting(kept, services, settings, files, clock, log)
        wire_up(kept, services, routing)
        await self._stack.enter_async_context(services)
        handlers = routing.pulls | routing.others
        owner = RecordingOwner(clock, Dispatcher(handlers, log), hot_path=routing.hot_path(with_pulls=True))
        batched = TopicConfig("B", attributes={"+queue.type": "BatchCQ"})
        kept.topics.update(TopicConfig("T"), TopicConfig("TopicTest"), batched)
        return _Broker(kept, handlers, owner)

    def connection(self, data: bytes) -> object:
        """A stream of frames, as a peer sends it: framing, hot paths, decoders and handlers together."""
        return self._run(self._connection(data))

    async def _connection(self, data: bytes) -> object:
        transport = await (await self._current()).receive(data)
        return _answered(*sorted({command.code for command in transport.commands()}))

    def request(self, data: bytes) -> object:
        """One frame to its handler, past the hot paths."""
        return self._run(self._request(frame.decode(data)))

    async def _request(self, request: Command) -> object:
        broker = await self._current()
        handler = broker.handlers.get(request.code)
        if handler is None:
            return None
        channel, _ = connected(broker.owner)
        try:
            outcome = handler(channel, request)
        except RocketlineError as error:
            return _answered(request.code, type(error).__name__)
        await turn()
        broker.check()
        if isinstance(outcome, Command):
            assert outcome.code in _KNOWN_CODES, outcome
            assert outcome.code == ResponseCode.SUCCESS or outcome.remark, outcome
            return _answered(request.code, outcome.code)
        return _answered(request.code, type(outcome).__name__)

    def body(self, code: RequestCode, data: bytes) -> object:
        """The body of a request of this kind, to its handler."""
        return self._run(self._request(Command(code, body=data)))

    def batch(self, topic: str, data: bytes) -> object:
        """The body of a batch, for a topic of either kind."""
        return self._run(self._batch(topic, data))

    async def _batch(self, topic: str, data: bytes) -> object:
        fields = {"b": topic, "m": "true"}
        transport = await (await self._current()).receive(frame.encode(send_v2(data, fields, opaque=1)))
        (answer,) = transport.commands()
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL), answer
        return _answered(answer.code, answer.remark and answer.remark.translate(_WITHOUT_DIGITS))


@functools.cache
def _answered(*what: object) -> object:
    """The fuzzer tells answers apart by the names of their classes."""
    return type(" ".join(map(str, what)), (), {})()


_WITHOUT_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def broker_seeds() -> tuple[bytes, ...]:
    """Requests that real clients and administrators sent to a broker."""
    return tuple(golden.data for golden in golden_frames() if not frame.decode(golden.data).is_response)


def streams(frames: tuple[bytes, ...]) -> Iterable[bytes]:
    """Some requests in a row: many like ones make the hot paths run, unlike ones make them stop."""
    plain = [frame.encode(send_v2(b"x" * size, opaque=size)) for size in range(1, 5)]
    yield b"".join(plain)
    for at in range(0, len(frames), 4):
        yield b"".join((*frames[at : at + 4], *plain[:2]))


BATCHES = (
    encode_batch([Message.of("T", b"x", {"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "u"})]),
    encode_batch([Message.of("T", b"y" * size, {}) for size in range(20)]),
    encode_batch([Message.of("T", b"", {"X": "\0" * 100})]) * 3,
)


def ack_bodies() -> tuple[bytes, ...]:
    """Acknowledgements of one message, of three kinds, and of many."""
    handle = PopHandle(QueueOffset(0), 1_700_000_000_000, 60_000, 3, TopicKind.NORMAL, BROKER, 0, QueueOffset(0))
    again = replace(handle, kind=TopicKind.RETRY_V2, start_offset=QueueOffset(7), queue_offset=QueueOffset(38))
    orderly = replace(handle, revive_queue_id=ORDER_REVIVE_QUEUE_ID)
    return batch([handle]), batch([handle, again, orderly]), batch([replace(handle, queue_offset=QueueOffset(31))] * 8)


def mode_bodies() -> tuple[bytes, ...]:
    modes = (
        SetMessageRequestModeRequestBody("T", "g", MessageRequestMode.POP, -1),
        SetMessageRequestModeRequestBody("%RETRY%g", "g", MessageRequestMode.PULL),
        SetMessageRequestModeRequestBody("TopicTest", "other", MessageRequestMode.POP, 2**31 - 1),
    )
    return tuple(map(encode, modes))


class BrokerTarget(NamedTuple):
    """Name, what takes the bytes, and what to begin with; see `fuzz.targets.Target`."""

    name: str
    take: functools.partial[object]
    seeds: tuple[bytes, ...]


_DOUBLES: list[BrokerDouble] = []


def close_brokers() -> None:
    """To be called when the targets have done their work, or rest."""
    for double in _DOUBLES:
        double.close()


def broker_targets() -> Iterable[BrokerTarget]:
    _DOUBLES.append(double := BrokerDouble())
    frames = broker_seeds()
    yield BrokerTarget("broker: connection", functools.partial(double.connection), tuple(streams(frames)))
    yield BrokerTarget("broker: request", functools.partial(double.request), frames)
    yield BrokerTarget(
        "broker: acknowledgements", functools.partial(double.body, RequestCode.BATCH_ACK_MESSAGE), ack_bodies()
    )
    yield BrokerTarget(
        "broker: modes", functools.partial(double.body, RequestCode.SET_MESSAGE_REQUEST_MODE), mode_bodies()
    )
    yield BrokerTarget("broker: batch", functools.partial(double.batch, "T"), BATCHES)
    yield BrokerTarget("broker: batch in one record", functools.partial(double.batch, "B"), BATCHES)
