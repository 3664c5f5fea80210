"""The cluster as the driver sees it: which queues there are, where they begin and end, what was stored when.

What fails is asked again, as `fetchOffset.numRetries` says; what was asked a moment ago is not asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from rocketline.client.options import ClientOptions, make_options
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.clock import Clock, SystemClock
from rocketline.errors import NoPermissionError, ResponseError, RouteError, TransportError
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.queries import ClusterQueries, is_meant
from rocketline.spark.cluster.view import Look, QueueExtent
from rocketline.spark.options.source_and_sink import SourceOptions

T = TypeVar("T")
_ASK_AGAIN: Final = (TransportError, RouteError, ResponseError)

_log = Log(__name__)


class RocketMQCluster:
    """Asks name servers and brokers for one read, from its first question to `close`. Not for use by several threads.

    It is a `ClusterView`, which says what each question means.
    """

    def __init__(
        self, options: SourceOptions, *, clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._runtime: ClientRuntime | None = None
        self._surveyed: tuple[float, frozenset[MessageQueue]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A question after it opens new ones."""
        runtime, self._runtime, self._surveyed = self._runtime, None, None
        if runtime is not None:
            runtime.close()

    # --- what is there

    def look(self, known: Collection[MessageQueue] = ()) -> Look:
        """The list of queues counts for `partition.metadata.cache.ttl.ms`, unless something is wrong with it."""
        return self._ask(lambda ask: self._look(ask, known))

    async def _look(self, ask: ClusterQueries, known: Collection[MessageQueue]) -> Look:
        queues = self._surveyed_queues(known)
        if queues is not None:
            with suppress(*_ASK_AGAIN):  # else the list is too old
                return Look(await ask.bounds(queues))
        survey = await ask.survey(known)
        look = Look(await ask.bounds(sorted(survey.queues)), survey.gone)
        self._surveyed = (self._clock.monotonic(), survey.queues)
        return look

    def _surveyed_queues(self, known: Iterable[MessageQueue]) -> list[MessageQueue] | None:
        """The queues of the last survey, if it is new enough and has all that are known."""
        if self._surveyed is None:
            return None
        asked_s, queues = self._surveyed
        if self._clock.monotonic() - asked_s >= self._options.route_ttl_s:
            return None
        return sorted(queues) if all(queue in queues for queue in known if is_meant(self._options, queue)) else None

    def offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return self._ask(lambda ask: ask.offsets_at(times_ms))

    def committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        asked = list(queues)
        return self._ask(lambda ask: ask.committed(asked))

    def store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return self._ask(lambda ask: ask.store_times(offsets))

    # --- what they can, and are told

    def check_reading(self, bounds: Mapping[MessageQueue, QueueExtent]) -> None:
        one_of_each = {(queue.topic, queue.broker_name): queue for queue in bounds}
        offsets = {queue: bounds[queue].low for queue in one_of_each.values()}
        self._ask(lambda ask: ask.check_reading(offsets))

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        self._call(lambda ask: ask.commit(offsets))

    # --- asking

    def _ask(self, question: Callable[[ClusterQueries], Coroutine[Any, Any, T]]) -> T:
        attempt = 0
        while True:
            try:
                return self._call(question)
            except _ASK_AGAIN as error:
                self.close()  # brokers may come back elsewhere: nothing that was known counts any more
                if attempt >= self._options.fetch_retries or isinstance(error, NoPermissionError):
                    raise
                attempt += 1
                _log.warning("asking the cluster failed, next attempt follows", attempt=attempt, problem=error)
            self._sleep(self._options.fetch_retry_interval_s)

    def _call(self, question: Callable[[ClusterQueries], Coroutine[Any, Any, T]]) -> T:
        runtime = self._runtime
        if runtime is None:
            client = self._options.client
            runtime = ClientRuntime(make_options(ClientOptions, client.name_servers, client.keywords()))
            runtime.lease()
            self._runtime = runtime
        return runtime.portal.call(question(ClusterQueries(self._options, runtime.core)))
