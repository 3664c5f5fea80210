"""The fast twin of the pull handler: the same bytes and the same effects, or nothing at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.java_hash import tags_code
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.connection import Connection
from support.brokers.connections import BROADCASTING, client_on, consumer
from support.brokers.pulls import Pulls
from support.brokers.tables import Tables, tables
from support.long_steps import outcome

ODD = st.sampled_from(
    ["", "-1", "-2", "+1", "07", "1_0", " 1", "٣", "x", "1" * 30, "2147483648", "9223372036854775807"]
)
NUMBER = st.integers(0, 6).map(str)
FIELDS = {
    "consumerGroup": st.sampled_from(["g", "h", "bad name!", ""]),
    "topic": st.sampled_from(["T", "U", "unknown"]),
    "queueId": NUMBER | ODD,
    "queueOffset": NUMBER | ODD,
    "maxMsgNums": st.sampled_from(["1", "2", "32", "0", "-1", "x"]),
    "sysFlag": st.integers(0, 15).map(str) | st.sampled_from(["x", "-1"]),
    "commitOffset": NUMBER | ODD,
    "suspendTimeoutMillis": st.sampled_from(["15000", "0", "x"]),
    "subscription": st.sampled_from(["*", "A", "A || B", "||", "", "x" * 2000]),
    "subVersion": st.sampled_from(["0", "7", "8", "x"]),
    "expressionType": st.sampled_from(["TAG", "SQL92", ""]),
    "maxMsgBytes": st.sampled_from(["262144", "x"]),
    "requestSource": st.sampled_from(["-1", "x"]),
    "bname": st.just("broker-a"),
}
USUAL = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "5",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subscription": "*",
    "subVersion": "7",
}


@st.composite
def pulls(draw: st.DrawFn) -> dict[str, str]:
    """A usual pull with a few fields changed, and now and then one missing."""
    ext = dict(USUAL)
    for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2)):
        ext[name] = draw(FIELDS[name])
    if draw(st.integers(0, 9)) == 9:
        ext.pop(draw(st.sampled_from(sorted(USUAL))))
    return ext


def change(made: Tables, channel: Any, what: str) -> None:
    """Something that pulls depend on."""
    match what:
        case "append":
            made.append(b"more", TAGS="B")
        case "reset":
            made.offsets.assign_reset("g", "T", 0, 1)
        case "heartbeat":
            subscription = SubscriptionData("T", "A", ["A"], [tags_code("A")], sub_version=8)
            made.consumers.register(consumer("g", subscription), client_on(channel, made.clock))
        case "broadcast":
            made.consumers.register(consumer("g", "T", model=BROADCASTING), client_on(channel, made.clock))
        case "leave":
            list(made.consumers.on_closed(channel))
        case "group":
            made.groups.update(replace(SubscriptionGroupConfig("g"), consume_broadcast_enable=False, group_sys_flag=1))
        case "disable":
            made.groups.update(SubscriptionGroupConfig("h", consume_enable=False))
        case "topic":
            made.topics.update(TopicConfig("T", 3, 3, topic_sys_flag=2))
        case "settings":
            made.settings.update({"rejectPullConsumerEnable": "true"})


CHANGES = ("append", "reset", "heartbeat", "broadcast", "leave", "group", "disable", "topic", "settings")


def seen(made: Tables) -> tuple[object, ...]:
    """What a pull may have changed."""
    get = made.stats.data("GROUP_GET_NUMS", "T@g")
    return outcome(made.offsets.table()), get, made.stats.throughput.found, made.stats.throughput.missed


@given(st.lists(pulls() | pulls() | st.sampled_from(CHANGES), min_size=3, max_size=20))
def test_any_history_of_pulls_and_changes_gives_the_handlers_own_bytes(steps: list[dict[str, str] | str]) -> None:
    """Two brokers live through the same history; one has the fast path in front, as a server has."""
    with tables(FakeClock()) as plain, tables(FakeClock()) as fast:
        twins = (plain, Pulls(plain)), (fast, Pulls(fast))
        channel: Any = _Channel()
        for made, _ in twins:
            for number, tag in enumerate("ABBAC"):
                made.append(b"%d" % number, queue_id=number % 2, TAGS=tag)
        for opaque, step in enumerate(steps):
            if isinstance(step, str):
                for made, _ in twins:
                    change(made, channel, step)
                continue
            expected = _handled(twins[0][1], channel, step, opaque)
            answer = twins[1][1].answer(channel, step, opaque)
            assert (_handled(twins[1][1], channel, step, opaque) if answer is None else answer) == expected
            assert seen(plain) == seen(fast)


def _handled(pulls: Pulls, channel: Channel, ext: dict[str, str], opaque: int) -> bytes | str:
    """The reply frame of the ordinary way, or what happened instead."""
    request = Command(RequestCode.PULL_MESSAGE, ext, opaque=opaque)
    try:
        outcome = pulls.handle(channel, request)
    except ValueError as error:
        return str(error)
    return Connection[None]("").reply(request, outcome) if isinstance(outcome, Command) else str(outcome)


class _Channel:
    """A connection of which nothing is asked."""

    is_closed = is_congested = False
    peer = "127.0.0.1:50000"
