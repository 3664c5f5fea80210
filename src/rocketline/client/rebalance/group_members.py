"""Who is in a group: only brokers know, by the heartbeats they get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketline.errors import RocketlineError
from rocketline.logs import Log
from rocketline.wire import bodies
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.headers import GetConsumerListByGroupRequestHeader

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

MEMBERS_MAX: Final = 16_384
"""As many as a topic has queues on one broker. Strategies go through all members of a group for each of them."""

_log = Log(__name__)


async def find_members(runtime: ClientRuntime, topic: str, group: str) -> list[str] | None:
    """The client ids of the group, as some broker of the topic knows them; None if none could tell.

    Java: MQClientInstance.findConsumerIdList.
    """
    address = runtime.routes.any_address(topic)
    if address is None:
        await runtime.update_route(topic)
        address = runtime.routes.any_address(topic)
    if address is None:
        return None
    header = GetConsumerListByGroupRequestHeader(consumer_group=group)
    try:
        reply = await runtime.ask_ok(address, header, timeout_s=runtime.options.api_timeout_s, vip=True)
        members = bodies.decode(ConsumerList, reply.body).consumer_id_list if reply.body else None
    except RocketlineError as error:
        _log.warning("members of a group not known", group=group, topic=topic, broker=address, problem=error)
        return None
    if members is not None and len(members) > MEMBERS_MAX:
        problem = f"{len(members)} client ids, and {MEMBERS_MAX} are believed"
        _log.warning("members of a group not believed", group=group, topic=topic, broker=address, problem=problem)
        return None
    return members
