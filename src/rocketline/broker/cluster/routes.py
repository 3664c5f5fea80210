"""Where topics live in the whole cluster, as the name servers know it. Java: TopicRouteInfoManager."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model import names
from rocketline.model.queue import MessageQueue
from rocketline.model.route import PERM_READ, TopicRouteData
from rocketline.net.background import Background
from rocketline.wire import headers
from rocketline.wire.bodies.believed_routes import decode_route
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

Queues = tuple[MessageQueue, ...]
OnFound = Callable[[Queues | None], None]

_UNUSED_S = 120.0
"""A topic that nobody asked for during this time is forgotten."""
_QUESTIONS_MAX = 64
"""Topics that may be asked for at once; for one more the answer is that nothing is known."""
_KNOWN_MAX = 1_000_000
"""Queues that are remembered of all topics, at a hundred bytes each; those that were asked for longest ago give way.
Whoever can register at a name server can make topics with any number of them."""
_TOPIC_COST = 4
"""A topic takes as much as so many queues."""
_WAITERS_MAX = 1024
"""Requests that may wait for answers; one more is told that nothing is known."""


class Routes:
    """The queues of topics in use, asked for once and then with every `refresh`. Use it as `async with`."""

    def __init__(self, ask: Callable[[Command], Awaitable[Command | None]], *, clock: Clock, log: Throttle) -> None:
        self._ask, self._clock, self._log = ask, clock, log
        self._known: OrderedDict[str, Queues] = OrderedDict()
        """By topic; what was asked for last comes last."""
        self._cost = 0
        self._used_at_s: dict[str, float] = {}
        self._waiting: dict[str, list[OnFound]] = {}
        self._waiters = 0
        self._questions = Background(_QUESTIONS_MAX)

    async def __aenter__(self) -> Routes:
        await self._questions.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._questions.__aexit__()

    def find(self, topic: str, done: OnFound) -> None:
        """Call `done` with the queues that can be read from, at once if they are known, otherwise when they are.

        None: no name server knows the topic, or none answers; or nothing can be called so, or too many wait already.
        """
        if topic in self._known:
            self._used_at_s[topic] = self._clock.monotonic()
            self._known.move_to_end(topic)
            done(self._known[topic])
        elif len(topic) > names.RETRY_TOPIC_LENGTH_MAX or self._waiters >= _WAITERS_MAX:
            done(None)
        else:
            self._wait(topic, done)

    def _wait(self, topic: str, done: OnFound) -> None:
        self._waiters += 1
        is_asked = topic in self._waiting
        self._waiting.setdefault(topic, []).append(done)
        if not is_asked and not self._questions.start(self._look_up, topic):
            self._tell(topic, None)

    def refresh(self) -> None:
        """Ask again for every topic in use, and forget the others."""
        oldest_s = self._clock.monotonic() - _UNUSED_S
        for topic in [topic for topic, used_at_s in self._used_at_s.items() if used_at_s < oldest_s]:
            self._forget(topic)
        self._questions.start(self._look_up_all, list(self._known))

    async def _look_up_all(self, topics: list[str]) -> None:
        for topic in topics:
            await self._look_up(topic)

    async def _look_up(self, topic: str) -> None:
        queues = None
        try:
            header = headers.GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
            answer = await self._ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.encode(header)))
            queues = self._taken(topic, answer)
        except RocketlineError as error:
            self._log.warning("route not understood", str(error), topic=topic)
        finally:
            self._tell(topic, queues)

    def _taken(self, topic: str, answer: Command | None) -> Queues | None:
        """What the answer says, remembered. Where there is none, what was known before still holds."""
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            queues = _readable_queues(topic, decode_route(topic, answer.body))
            self._remember(topic, queues)
            return queues
        if answer is not None and answer.code == ResponseCode.TOPIC_NOT_EXIST:
            self._forget(topic)
        return self._known.get(topic)

    def _remember(self, topic: str, queues: Queues) -> None:
        self._cost += len(queues) - len(self._known.get(topic, ())) + (0 if topic in self._known else _TOPIC_COST)
        self._known[topic] = queues
        self._used_at_s.setdefault(topic, self._clock.monotonic())
        while self._cost > _KNOWN_MAX:
            self._forget(next(iter(self._known)))

    def _forget(self, topic: str) -> None:
        self._used_at_s.pop(topic, None)
        queues = self._known.pop(topic, None)
        if queues is not None:
            self._cost -= len(queues) + _TOPIC_COST

    def _tell(self, topic: str, queues: Queues | None) -> None:
        waiting = self._waiting.pop(topic, [])
        self._waiters -= len(waiting)
        for done in waiting:
            done(queues)


def _readable_queues(topic: str, route: TopicRouteData) -> Queues:
    """Java: MQClientInstance.topicRouteData2TopicSubscribeInfo."""
    return tuple(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    )
