"""Asking brokers, before a consumer starts, whether they filter by its expressions. Java: checkClientInBroker.

Differs: every broker of the topic is asked, and not any one; and one that cannot be reached does not stop the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rocketline.client.consumer.subscriptions import TAG
from rocketline.errors import InvalidFilterError, ResponseError, TransportError
from rocketline.logs import Log
from rocketline.model.route import MASTER_ID
from rocketline.model.subscription import SubscriptionData
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_TIMEOUT_S: Final = 3.0
"""Java: mqClientApiTimeout."""
_log = Log(__name__)


async def check_filters(runtime: ClientRuntime, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
    """Raises `InvalidFilterError` if a broker refuses one of them. Costs nothing for subscriptions by tags."""
    for subscription in subscriptions:
        if subscription.expression_type != TAG:
            masters = _masters(runtime, subscription.topic)
            await asyncio.gather(*(_check(runtime, group, subscription, master) for master in masters))


def _masters(runtime: ClientRuntime, topic: str) -> list[str]:
    route = runtime.routes.route(topic)
    brokers = [] if route is None else route.broker_datas
    return [broker.broker_addrs[MASTER_ID] for broker in brokers if MASTER_ID in broker.broker_addrs]


async def _check(runtime: ClientRuntime, group: str, subscription: SubscriptionData, address: str) -> None:
    body = CheckClientRequestBody(runtime.client_id, group, runtime.namespace or None, subscription)
    try:
        await runtime.ask_ok(address, Command(RequestCode.CHECK_CLIENT_CONFIG, body=encode(body)), timeout_s=_TIMEOUT_S)
    except TransportError as error:
        _log.warning("filter not checked", topic=subscription.topic, address=address, problem=error)
    except ResponseError as error:
        problem = f"the broker at {address} refuses it: {error.remark or error}"
        if error.code == ResponseCode.SYSTEM_ERROR:
            problem += ". Brokers filter by SQL if enablePropertyFilter=true is set there; else subscribe by tags"
        raise InvalidFilterError(subscription.topic, subscription.sub_string, problem, code=error.code) from None
