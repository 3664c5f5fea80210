"""Keeping routes up to date: asking name servers, and telling the members what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from rocketline.client.runtime.members import Members
from rocketline.client.runtime.requests import checked, command_of
from rocketline.client.runtime.routes import ClientRoutes, limit_queues
from rocketline.errors import ClosedError, NameServerNotReadyError, RocketlineError, one_more
from rocketline.logs import Log
from rocketline.model.names import AUTO_CREATE_TOPIC
from rocketline.model.route import TopicRouteData
from rocketline.wire import headers
from rocketline.wire.bodies.believed_routes import decode_route
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command

_log = Log(__name__)
_NOT_NOW: Final = (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY)
_AT_ONCE_MAX: Final = 16
"""Routes that are asked for at the same time, of the topics whose turn it is."""


class AskNameServer(Protocol):
    def __call__(self, command: Command, /) -> Coroutine[Any, Any, Command]: ...


class SpawnUpdate(Protocol):
    def __call__(
        self, work: Coroutine[Any, Any, bool | RocketlineError], *, name: str
    ) -> asyncio.Task[bool | RocketlineError]: ...


class RouteUpdates:
    """Asks for routes. Any number of callers that want the same route at the same time share one question."""

    def __init__(self, routes: ClientRoutes, members: Members, ask: AskNameServer, spawn: SpawnUpdate) -> None:
        self._routes, self._members, self._ask, self._spawn = routes, members, ask, spawn
        self._under_way: dict[tuple[str, int | None], asyncio.Task[bool | RocketlineError]] = {}

    async def update(self, topic: str, default_topic_queue_nums: int | None = None) -> bool:
        """See `ClientRuntime.update_route`."""
        wanted = (topic, default_topic_queue_nums)
        asking = self._under_way.get(wanted)
        if asking is None:
            asking = self._under_way[wanted] = self._spawn(self._question(*wanted), name=f"route of {topic}")
        try:
            outcome = await asyncio.shield(asking)  # a caller that gives up takes nothing from the others
        except asyncio.CancelledError:
            if asking.cancelled():
                raise ClosedError(f"the client was closed while it asked for the route of {topic}") from None
            raise
        if isinstance(outcome, RocketlineError):
            raise one_more(outcome)
        return outcome

    async def update_all(self) -> None:
        """The routes of all topics that the members use. One that fails is logged."""
        slots = asyncio.Semaphore(_AT_ONCE_MAX)

        async def one(topic: str) -> None:
            async with slots:
                try:
                    await self.update(topic)
                except RocketlineError as error:
                    _log.warning("route not updated", topic=topic, problem=str(error))

        await asyncio.gather(*map(one, self._members.topics()))

    async def _question(self, topic: str, default_topic_queue_nums: int | None) -> bool | RocketlineError:
        """What became of it; an error is a value here, because several may wait for it."""
        try:
            route = await self._route(topic, default_topic_queue_nums)
            return route is not None and self._routes.apply(topic, route)
        except RocketlineError as error:
            return error
        finally:
            del self._under_way[topic, default_topic_queue_nums]

    async def _route(self, topic: str, default_topic_queue_nums: int | None) -> TopicRouteData | None:
        asked = topic if default_topic_queue_nums is None else AUTO_CREATE_TOPIC
        question = command_of(headers.GetRouteInfoRequestHeader(topic=asked, accept_standard_json_only=True))
        answer = await self._ask(question)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            # Whoever cannot go on without it says so; a topic's first message makes the topic.
            _log.info("topic has no route", topic=asked, remark=answer.remark)
            return None
        if answer.code in _NOT_NOW:
            refusal = NameServerNotReadyError(topic, answer.code, answer.remark)
            if self._routes.route(topic) is None:
                raise refusal
            _log.warning("the route that is known stays", topic=topic, problem=refusal)
            return None
        route = decode_route(topic, checked(answer, question, "the name server").body)
        return route if default_topic_queue_nums is None else limit_queues(route, default_topic_queue_nums)
