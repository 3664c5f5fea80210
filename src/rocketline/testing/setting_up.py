"""Topics and groups on any servers, Apache's or ours, made over a blocking connection and found when it returns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from rocketline.errors import response_error
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.names import retry_topic
from rocketline.model.route import TopicRouteData
from rocketline.testing.broker import cluster_info
from rocketline.testing.exchange import ask
from rocketline.wire import bodies, headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.headers import CreateTopicRequestHeader, GetRouteInfoRequestHeader

_POLL_S: Final = 0.01
_FOUND_S: Final = 30.0


def create_topic(
    name_server: str,
    brokers: Sequence[str],
    topic: str,
    *,
    queues: int = 4,
    perm: int = 6,
    order: bool = False,
    attributes: str | None = None,
) -> None:
    """Make, or change, a topic on each of the brokers; return when the name server knows it of all of them."""
    header = CreateTopicRequestHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_filter_type="SINGLE_TAG",
        order=order,
        attributes=attributes,
    )
    for broker in brokers:
        _succeed(broker, Command(RequestCode.UPDATE_AND_CREATE_TOPIC, headers.encode(header)))
    deadline_s = time.monotonic() + _FOUND_S
    while not _is_found(name_server, brokers, topic, queues, perm):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{name_server} does not know topic {topic} of {', '.join(brokers)} yet")
        time.sleep(_POLL_S)


def create_group(
    name_server: str, brokers: Sequence[str], group: str, *, retry_max_times: int = 16, orderly: bool = False
) -> None:
    """Make, or change, a consumer group on each of the brokers. Whether it is `orderly` counts behind a proxy.

    With the topic for its retries: brokers make it when the first member comes, but that one then looks for it in vain
    when it starts, and again only half a minute later.
    """
    config = SubscriptionGroupConfig(group, retry_max_times=retry_max_times, consume_message_orderly=orderly)
    body = bodies.encode(config)
    for broker in brokers:
        _succeed(broker, Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    create_topic(name_server, brokers, retry_topic(group), queues=1)


def is_registered(name_server: str, broker: str) -> bool:
    """Whether the name server knows a broker at this address."""
    return broker in cluster_info(name_server)


def _is_found(name_server: str, brokers: Sequence[str], topic: str, queues: int, perm: int) -> bool:
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    answer = ask(name_server, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.encode(header)))
    if answer.code != ResponseCode.SUCCESS:
        return False
    route = bodies.decode(TopicRouteData, answer.body)
    as_wanted = {one.broker_name for one in route.queue_datas if (one.write_queue_nums, one.perm) == (queues, perm)}
    found = {data.broker_addrs.get(0) for data in route.broker_datas if data.broker_name in as_wanted}
    return found.issuperset(brokers)


def _succeed(address: str, request: Command) -> None:
    answer = ask(address, request)
    if answer.code != ResponseCode.SUCCESS:
        raise response_error(answer.code, answer.remark, request=RequestCode(request.code).name, address=address)
