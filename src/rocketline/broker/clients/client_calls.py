"""What the broker asks of its clients, in the background: a handler starts a call and answers when the client did."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from rocketline.broker.chores import in_turns
from rocketline.broker.clients.memberships import Client
from rocketline.broker.long_work import answered
from rocketline.broker.request_body import read_body
from rocketline.errors import RemoteProtocolError, RequestTimeoutError, RocketlineError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.net.background import Background
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.wire import headers
from rocketline.wire.bodies.offsets import ConsumerStatus, ResetOffsetItem, ResetOffsetList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

RELAY_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
RESET_TIMEOUT_S = 5.0

VERSION_OF_STATUS: Final = 28
"""From here on (3.0.7) a client can be asked for its offsets, and told others."""
VERSION_OF_RELAYS: Final = 62
"""From here on (3.1.8) a client can be asked for its state, and to consume a message."""
CALLS_BYTES_MAX: Final = 64 * 1024 * 1024
"""What all calls keep in memory at once."""
_STATUS_FACTOR: Final = 4
"""So many times its text a client's status takes once it is read."""

Call = Callable[[], Awaitable[Command]]
"""Asks clients, and makes the answer to whoever wanted to know."""


class ClientCalls:
    """Requests to clients on behalf of an administrator. Use it as `async with`. Java: Broker2Client.

    At most `calls_max` run at once, and what they keep in memory is bounded; one more is answered SYSTEM_BUSY. Java has
    threads and a queue for them instead.
    """

    def __init__(self, *, calls_max: int, log: Throttle) -> None:
        self._calls, self._log = Background(calls_max), log
        self._reading = asyncio.Lock()
        self.bytes = 0
        """What calls that run keep: what clients are asked, and what they have told of their status."""

    async def __aenter__(self) -> ClientCalls:
        await self._calls.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Give up the calls that run."""
        await self._calls.__aexit__()

    def relay(self, channel: Channel, request: Command, client: Client, call: Command) -> Outcome:
        """Pass `call` on to a client; what it answers is the answer to `request`. Java: callConsumer.

        No answer in 10 s is CONSUME_MSG_TIMEOUT.
        """
        if client.channel.is_congested:
            return response(ResponseCode.SYSTEM_BUSY, f"client {client.client_id} takes nothing now: try again")
        size = len(call.body) + sum([len(key) + len(value) for key, value in call.ext.items()])
        if self.bytes + size > CALLS_BYTES_MAX:
            return response(ResponseCode.SYSTEM_BUSY, f"calls to clients keep {self.bytes} bytes already: try again")
        return self._answer_later(channel, request, partial(self._relayed, client, call, size))

    def ask_status(
        self, channel: Channel, request: Command, clients: Iterable[Client], topic: str, group: str
    ) -> Outcome:
        """Ask each client for the offsets that it has of a topic; one that does not answer is left out."""
        return self._answer_later(channel, request, partial(self._status, list(clients), topic, group))

    def reset_offsets(self, clients: Iterable[Client], header: headers.ResetOffsetRequestHeader, body: bytes) -> bool:
        """Tell clients, one-way, from where to read on. False if too many calls run already. Java: resetOffset."""
        return self._calls.start(self._tell_offsets, list(clients), headers.encode(header), body)

    def _answer_later(self, channel: Channel, request: Command, call: Call) -> Outcome:
        asked = replace(request, ext={}, body=b"")  # it waits, and nobody reads it any more
        if self._calls.start(self._answer, channel, asked, call):
            return LATER
        return response(ResponseCode.SYSTEM_BUSY, f"{len(self._calls)} calls to clients run already: try again")

    async def _answer(self, channel: Channel, request: Command, call: Call) -> None:
        try:
            answer = await call()
        except Exception as error:  # noqa: BLE001  # a fault of ours: as in a handler, it ends nothing but this request
            self._log.error("call to client failed", f"request {request.code}", error=error, peer=channel.peer)
            answer = response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if channel.is_congested and answer.body:
            answer = response(ResponseCode.SYSTEM_BUSY, "there is an answer, and those before it are not taken yet")
        channel.reply(request, answer)

    async def _relayed(self, client: Client, call: Command, size: int) -> Command:
        with self._keeping() as kept:
            kept.add(size)
            return await self._asked(client, call)

    async def _asked(self, client: Client, call: Command) -> Command:
        try:
            answer = await client.channel.request(call, RELAY_TIMEOUT_S)
        except RequestTimeoutError as error:
            return response(ResponseCode.CONSUME_MSG_TIMEOUT, f"client {client.client_id} at {error}")
        except RocketlineError as error:
            return response(ResponseCode.SYSTEM_ERROR, f"client {client.client_id} at {error}")
        return response(answer.code, answer.remark, ext=answer.ext, body=answer.body)

    async def _status(self, clients: list[Client], topic: str, group: str) -> Command:
        ext = headers.encode(headers.GetConsumerStatusRequestHeader(topic=topic, group=group))
        with self._keeping() as kept:
            async with asyncio.TaskGroup() as asking:
                tasks = {c.client_id: asking.create_task(self._offsets_of(c, ext, kept)) for c in clients}
            table = {client_id: offsets for client_id, task in tasks.items() if (offsets := task.result()) is not None}
            return await in_turns(answered(ConsumerStatus(consumer_table=table)))

    async def _offsets_of(self, client: Client, ext: dict[str, str], kept: _Kept) -> dict[MessageQueue, int] | None:
        call = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(ext))
        try:
            answer = await client.channel.request(call, STATUS_TIMEOUT_S)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            kept.add(_STATUS_FACTOR * len(answer.body))
            async with self._reading:
                await asyncio.sleep(0)  # one answer in a turn of the loop: they may take fifty milliseconds each
                return read_body(ConsumerStatus, answer.body).message_queue_table
        except RocketlineError as error:
            self._log.warning("client status unknown", str(error), client=client.client_id)
            return None

    @contextmanager
    def _keeping(self) -> Iterator[_Kept]:
        """What is added to it counts until the call has ended."""
        kept = _Kept(self)
        try:
            yield kept
        finally:
            self.bytes -= kept.bytes

    async def _tell_offsets(self, clients: list[Client], ext: dict[str, str], body: bytes) -> None:
        async with asyncio.TaskGroup() as telling:
            for client in clients:
                command = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(ext), body)
                telling.create_task(self._tell(client, command))

    async def _tell(self, client: Client, command: Command) -> None:
        try:
            await client.channel.send_oneway(command, RESET_TIMEOUT_S)
        except RocketlineError as error:
            self._log.warning("offset reset not delivered", str(error), client=client.client_id)


class _Kept:
    """What one call keeps in memory."""

    def __init__(self, calls: ClientCalls) -> None:
        self._calls, self.bytes = calls, 0

    def add(self, size: int) -> None:
        """Raises `RemoteProtocolError` if that is too much."""
        if self._calls.bytes + size > CALLS_BYTES_MAX:
            raise RemoteProtocolError(f"an answer takes {size} bytes, and {self._calls.bytes} are kept already")
        self.bytes += size
        self._calls.bytes += size


def offset_list(offsets: Mapping[MessageQueue, int]) -> ResetOffsetList:
    """The form that C++ clients read."""
    return ResetOffsetList(
        [ResetOffsetItem(queue.topic, queue.broker_name, queue.queue_id, offset) for queue, offset in offsets.items()]
    )
