"""What every area of administration works with: requests whose answers are successes, and whom to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketline.admin import placement
from rocketline.admin.views import BrokerAddress, Outcome
from rocketline.errors import (
    BrokerNotFoundError,
    RocketlineError,
    TopicNotExistError,
    TopicNotFoundError,
    response_error,
)
from rocketline.model.queue import MessageQueue
from rocketline.model.route import TopicRouteData
from rocketline.wire import headers
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.believed_routes import decode_route
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import GetRouteInfoRequestHeader, Header

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

T = TypeVar("T")

TIMEOUT_S: Final = 6.0
"""Java: MQAdminImpl.timeoutMillis."""


class Calls:
    """Requests over a runtime's connections, each with the same time limit."""

    def __init__(self, runtime: ClientRuntime, timeout_s: float = TIMEOUT_S) -> None:
        self.runtime, self.timeout_s = runtime, timeout_s

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
    ) -> Command:
        """The successful answer of the broker at `address`. Raises `ResponseError` and `TransportError`."""
        command = _command(code, header, body)
        return await self.runtime.ask_ok(address, command, timeout_s=timeout_s or self.timeout_s, vip=True)

    # --- name servers

    async def ask_name_server(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        """The successful answer of one name server."""
        answer = await self.runtime.ask_name_server(_command(code, header, body), timeout_s=self.timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise response_error(answer.code, answer.remark, request=code.name, address="the name server")
        return answer

    async def tell_name_servers(
        self, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> dict[str, Command]:
        """The successful answers of all name servers by address; each has tables of its own."""
        addresses = self.runtime.name_servers
        answers = await together(
            self.runtime.ask_ok(address, _command(code, header, body), timeout_s=self.timeout_s)
            for address in addresses
        )
        return dict(zip(addresses, answers, strict=True))

    async def cluster_info(self) -> ClusterInfo:
        answer = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        return decode_answer(ClusterInfo, answer.body)

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic is now. Raises `TopicNotFoundError` or `RouteRefusedError`."""
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        try:
            answer = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except TopicNotExistError:
            raise TopicNotFoundError(topic, self.runtime.name_servers) from None
        return decode_route(topic, answer.body)

    # --- brokers

    async def brokers(
        self, *, cluster: str | None = None, broker: str | None = None, with_slaves: bool = False
    ) -> list[BrokerAddress]:
        """Masters, or all; of one cluster, of one name or address, or of everything. Raises `BrokerNotFoundError`."""
        return placement.choose(await self.cluster_info(), cluster=cluster, broker=broker, with_slaves=with_slaves)

    async def holders(
        self, topic: str, *, cluster: str | None = None, with_slaves: bool = False
    ) -> list[BrokerAddress]:
        """The masters that hold a topic, or all that do. Raises `TopicNotFoundError` and `BrokerNotFoundError`."""
        known = placement.holders(await self.route(topic), with_slaves=with_slaves)
        found = [broker for broker in known if cluster in (None, broker.cluster)]
        if not found:
            raise BrokerNotFoundError(f"any with topic {topic}", "no master of the topic is registered")
        return found

    async def master(self, queue: MessageQueue) -> str:
        """The address of a queue's master, after one look at the route if it is not known. Raises `RouteError`."""
        routes = self.runtime.routes
        address = routes.master(routes.broker_of(queue))
        if address is None:
            await self.runtime.update_route(queue.topic)
            address = routes.master(routes.broker_of(queue))
        if address is None:
            raise BrokerNotFoundError(queue.broker_name, f"the route of topic {queue.topic} has no master of this name")
        return address

    async def each(
        self, brokers: Iterable[BrokerAddress], ask: Callable[[BrokerAddress], Coroutine[Any, Any, T]]
    ) -> dict[BrokerAddress, T]:
        """Ask all at once; the first failure is raised, so that no figure is told without a part of it."""
        asked = list(brokers)
        return dict(zip(asked, await together(ask(broker) for broker in asked), strict=True))

    async def change(
        self, brokers: Iterable[BrokerAddress], ask: Callable[[BrokerAddress], Coroutine[Any, Any, object]]
    ) -> Outcome:
        """Ask all at once; raises the first failure if no broker made the change."""
        asked = list(brokers)
        results = dict(zip(asked, await settled(ask(broker) for broker in asked), strict=True))
        failed = {broker: result for broker, result in results.items() if isinstance(result, RocketlineError)}
        if len(failed) == len(asked):
            raise next(iter(failed.values()))
        return Outcome(tuple(broker for broker in asked if broker not in failed), failed)


# --- several at the same time


async def settled(work: Iterable[Coroutine[Any, Any, T]]) -> list[T | RocketlineError]:
    """The result of each, in order; the error itself where one failed."""

    async def result(each: Coroutine[Any, Any, T]) -> T | RocketlineError:
        try:
            return await each
        except RocketlineError as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(result(each)) for each in work]
    return [task.result() for task in tasks]


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The result of each, in order. Raises the first failure, after all have ended."""
    results: list[T] = []
    for result in await settled(work):
        if isinstance(result, RocketlineError):
            raise result
        results.append(result)
    return results


def _command(code: RequestCode, header: Header | None, body: bytes) -> Command:
    return Command(code, headers.encode(header) if header else {}, body)
