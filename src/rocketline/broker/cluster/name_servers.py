"""The name servers of a broker: what each has yet to be told, and asking them."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack

from rocketline.broker.chores import in_turns
from rocketline.broker.cluster.registration import RegistrationCommands
from rocketline.broker.config import BrokerConfig
from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle
from rocketline.model.topic_config import TopicConfig
from rocketline.net.address import format_address, parse_address
from rocketline.net.background import Background
from rocketline.net.remote import Remote
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.lists import KVTable
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command

_SHORT_TIMEOUT_S = 3.0
"""For everything but a registration, which may be large."""
_FIRST_ROUND_S = 3.0
"""How long a start waits for the name servers: as long as a connection may take to come about."""
_TOLD_S = 1.0
"""How long an administrator's change waits for them: well below what `mqadmin` and clients wait for its answer."""


class NameServerLinks:
    """Keeps every name server informed. Use it as `async with`.

    Each is told in its own time and in order: one that is down or slow holds up none of the others. One that could not
    be told something is owed a whole registration, which it gets with the next turn. `on_order_topics` is told of the
    topics that a name server has an order configuration for.
    """

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        registration: RegistrationCommands,
        *,
        tls: ssl.SSLContext | None,
        clock: Clock,
        log: Throttle,
        on_order_topics: Callable[[Iterable[str]], None],
    ) -> None:
        self._settings, self._registration = settings, registration
        self._tls, self._clock, self._log = tls, clock, log
        self._on_order_topics = on_order_topics
        self._links: dict[str, _Link] = {}
        self._background = Background()
        self._silent_until_s = math.inf

    async def __aenter__(self) -> NameServerLinks:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._background)
            stack.push_async_callback(self._close_links)
            await self._reload()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def begin(self) -> None:
        """Register for the first time, and wait for it, though not for long. From now on changes are told."""
        self._silent_until_s = self._clock.monotonic() + self._settings.value.store.disappear_time_after_start / 1000
        self.register_all()
        try:
            async with asyncio.timeout(_FIRST_ROUND_S):
                for link in list(self._links.values()):
                    await link.is_idle.wait()
        except TimeoutError:
            pass

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(self._links)

    def register_all(self) -> None:
        """Tell every name server of all topics; where `forceRegister` is off, only those that do not know them."""
        if self._clock.monotonic() >= self._silent_until_s:
            for link in self._links.values():
                link.owe_all()

    def register_topics(self, topics: Sequence[TopicConfig]) -> None:
        """Tell every name server of new or changed topics, soon."""
        if self._clock.monotonic() >= self._silent_until_s:
            for link in self._links.values():
                link.owe_topics(topic.topic_name for topic in topics)

    def when_told(self, done: Callable[[], None]) -> None:
        """Call `done` when every name server has taken what is owed to it by now, or cannot be told; soon anyway.

        Whoever has the answer to a change may ask a name server next, and expects to find it there.
        """
        busy = [link for link in self._links.values() if not link.is_idle.is_set()]
        if not busy:
            done()
            return
        countdown = _Countdown(len(busy), done)
        for link in busy:
            link.when_paid(countdown.one)

    def reload(self) -> None:
        """Read the list of name servers anew."""
        self._background.start(self._reload)

    async def unregister(self) -> None:
        """Say farewell to every name server, and tell nobody anything from then on."""
        self._silent_until_s = math.inf
        async with asyncio.TaskGroup() as group:
            for link in self._links.values():
                link.owe_nothing()
                group.create_task(link.ask(self._registration.farewell(), _SHORT_TIMEOUT_S))

    async def ask(self, command: Command) -> Command | None:
        """The answer of the first name server that gives one; None if none does."""
        for link in list(self._links.values()):
            answer = await link.ask(command, _SHORT_TIMEOUT_S)
            if answer is not None:
                return answer
        return None

    async def _reload(self) -> None:
        config = self._settings.value
        named = config.name_servers
        if config.fetch_name_srv_addr_by_dns_lookup:
            named = tuple(dict.fromkeys([found for address in named for found in await _resolved(address)]))
        gone = [self._links.pop(address) for address in self._links.keys() - set(named)]
        new = [address for address in named if address not in self._links]
        self._links |= {address: self._link(address) for address in new}
        if new:
            self.register_all()
        for link in gone:
            await link.remote.close()

    def _link(self, address: str) -> _Link:
        config = self._settings.value
        remote = Remote(
            address,
            tls=self._tls,
            connect_timeout_s=config.connect_timeout_millis / 1000,
            serialize_type=config.network.serialize_type,
            clock=self._clock,
        )
        return _Link(remote, self._settings, self._registration, self._background, self._log, self._on_order_topics)

    async def _close_links(self) -> None:
        for link in self._links.values():
            await link.remote.close()


class _Countdown:
    """Calls `done` once: after so many calls of `one`, or when it has waited long enough."""

    def __init__(self, count: int, done: Callable[[], None]) -> None:
        self._left, self._done = count, done
        self._timer = asyncio.get_running_loop().call_later(_TOLD_S, self._end)

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._timer.cancel()
            self._done()

    def _end(self) -> None:
        self._left = 0
        self._done()


class _Link:
    """One name server."""

    def __init__(
        self,
        remote: Remote,
        settings: Settings[BrokerConfig],
        registration: RegistrationCommands,
        background: Background,
        log: Throttle,
        on_order_topics: Callable[[Iterable[str]], None],
    ) -> None:
        self.remote, self._settings, self._registration = remote, settings, registration
        self._background, self._log, self._on_order_topics = background, log, on_order_topics
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self._is_known = False
        """Whether our last word reached it: until then it is to be told everything."""
        self._owes_all = False
        self._owed: set[str] = set()
        self._unpaid: list[Callable[[], None]] = []
        """Who waits for what is owed, since what is being told was taken up."""

    def when_paid(self, done: Callable[[], None]) -> None:
        """Call `done` when what is owed by now was told, or could not be. Only while it is not idle."""
        self._unpaid.append(done)

    def owe_all(self) -> None:
        self._owes_all = True
        self._wake()

    def owe_topics(self, names: Iterable[str]) -> None:
        self._owed.update(names)
        self._wake()

    def owe_nothing(self) -> None:
        self._owes_all, self._owed = False, set()

    async def ask(self, command: Command, timeout_s: float) -> Command | None:
        """The answer, whatever its code; None, and a line in the log, if there is none."""
        try:
            return await self.remote.request(command, timeout_s)
        except (RocketlineError, OSError) as error:
            self._log.warning("name server does not answer", str(error), address=self.remote.address)
            return None

    def _wake(self) -> None:
        if self.is_idle.is_set():
            self.is_idle.clear()
            self._background.start(self._work)

    async def _work(self) -> None:
        try:
            while self._owes_all or self._owed:
                waiting, self._unpaid = self._unpaid, []
                try:
                    self._is_known = await self._pay()
                finally:
                    _call_all(waiting)
        except (RocketlineError, OSError) as error:  # an answer that nobody can read, an order that cannot be saved
            self._is_known = False
            self._log.warning("registration failed", str(error), address=self.remote.address)
        finally:
            self.is_idle.set()
            waiting, self._unpaid = self._unpaid, []
            _call_all(waiting)

    async def _pay(self) -> bool:
        """Tell what is owed by now; False if that did not succeed."""
        whole, names = self._owes_all or not self._is_known, self._owed
        self.owe_nothing()
        is_enough_to_check = self._is_known and not names and not self._settings.value.force_register
        if is_enough_to_check and await self._is_up_to_date():
            return True
        timeout_s = self._settings.value.register_broker_timeout_mills / 1000
        commands = self._registration.of_all() if whole else self._registration.of_topics(names)
        for command in await in_turns(commands):
            answer = await self.ask(command, timeout_s)
            if answer is None:
                return False
            if answer.code != ResponseCode.SUCCESS:
                remark = answer.remark or f"code {answer.code}"
                self._log.warning("registration refused", remark, address=self.remote.address)
                return False
            self._take_order_topics(answer)
        if not self._is_known:
            self._log.info("registered", self._registration.address, name_server=self.remote.address)
        return True

    async def _is_up_to_date(self) -> bool:
        answer = await self.ask(self._registration.version_query(), _SHORT_TIMEOUT_S)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return False
        return not headers.decode(headers.QueryDataVersionResponseHeader, answer.ext).changed

    def _take_order_topics(self, answer: Command) -> None:
        if answer.body:
            self._on_order_topics(decode(KVTable, answer.body).table)


def _call_all(waiting: Iterable[Callable[[], None]]) -> None:
    for done in waiting:
        done()


async def _resolved(address: str) -> list[str]:
    """Every IPv4 and IPv6 address behind a name, with the port; the name itself if it cannot be looked up now."""
    host, port = parse_address(address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return [address]
    return [format_address(str(place[0]), port) for *_, place in found]
