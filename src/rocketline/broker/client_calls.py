"""What the broker asks of its clients, in the background: a handler starts a call and answers when the client did."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final

from rocketline.broker.members import Client
from rocketline.errors import RequestTimeoutError, RocketlineError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.net.background import Background
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.wire import headers
from rocketline.wire.bodies import decode, encode
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


Call = Callable[[], Awaitable[Command]]
"""Asks clients, and makes the answer to whoever wanted to know."""


class ClientCalls:
    """Requests to clients on behalf of an administrator. Use it as `async with`. Java: Broker2Client.

    At most `calls_max` run at once; one more is answered SYSTEM_BUSY. Java has threads and a queue for them instead.
    """

    def __init__(self, *, calls_max: int, log: Throttle) -> None:
        self._calls, self._log = Background(calls_max), log

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
        return self._answer_later(channel, request, partial(self._relayed, client, call))

    def ask_status(
        self, channel: Channel, request: Command, clients: Iterable[Client], topic: str, group: str
    ) -> Outcome:
        """Ask each client for the offsets that it has of a topic; one that does not answer is left out."""
        return self._answer_later(channel, request, partial(self._status, list(clients), topic, group))

    def reset_offsets(self, clients: Iterable[Client], header: headers.ResetOffsetRequestHeader, body: bytes) -> bool:
        """Tell clients, one-way, from where to read on. False if too many calls run already. Java: resetOffset."""
        return self._calls.start(self._tell_offsets, list(clients), headers.encode(header), body)

    def _answer_later(self, channel: Channel, request: Command, call: Call) -> Outcome:
        if self._calls.start(self._answer, channel, request, call):
            return LATER
        return response(ResponseCode.SYSTEM_BUSY, f"{len(self._calls)} calls to clients run already: try again")

    async def _answer(self, channel: Channel, request: Command, call: Call) -> None:
        try:
            answer = await call()
        except Exception as error:  # noqa: BLE001  # a fault of ours: as in a handler, it ends nothing but this request
            self._log.error("call to client failed", f"request {request.code}", error=error, peer=channel.peer)
            answer = response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        channel.reply(request, answer)

    async def _relayed(self, client: Client, call: Command) -> Command:
        try:
            answer = await client.channel.request(call, RELAY_TIMEOUT_S)
        except RequestTimeoutError as error:
            return response(ResponseCode.CONSUME_MSG_TIMEOUT, f"client {client.client_id} at {error}")
        except RocketlineError as error:
            return response(ResponseCode.SYSTEM_ERROR, f"client {client.client_id} at {error}")
        return response(answer.code, answer.remark, ext=answer.ext, body=answer.body)

    async def _status(self, clients: list[Client], topic: str, group: str) -> Command:
        ext = headers.encode(headers.GetConsumerStatusRequestHeader(topic=topic, group=group))
        async with asyncio.TaskGroup() as asking:
            tasks = {client.client_id: asking.create_task(self._offsets_of(client, ext)) for client in clients}
        table = {client_id: offsets for client_id, task in tasks.items() if (offsets := task.result()) is not None}
        return response(ResponseCode.SUCCESS, body=encode(ConsumerStatus(consumer_table=table)))

    async def _offsets_of(self, client: Client, ext: dict[str, str]) -> dict[MessageQueue, int] | None:
        call = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(ext))
        try:
            answer = await client.channel.request(call, STATUS_TIMEOUT_S)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            return decode(ConsumerStatus, answer.body).message_queue_table
        except RocketlineError as error:
            self._log.warning("client status unknown", str(error), client=client.client_id)
            return None

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


def offset_list(offsets: Mapping[MessageQueue, int]) -> ResetOffsetList:
    """The form that C++ clients read."""
    return ResetOffsetList(
        [ResetOffsetItem(queue.topic, queue.broker_name, queue.queue_id, offset) for queue, offset in offsets.items()]
    )
