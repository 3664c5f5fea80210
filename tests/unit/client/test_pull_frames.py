from __future__ import annotations

from dataclasses import replace

import pytest

from rocketline.client.pull_frames import PullFrames, frame
from rocketline.client.pulling import PullNode, PullPlan, PullQuery
from rocketline.client.routes import RouteTable
from rocketline.client.subscriptions import SQL92
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.wire.frame import encode

QUEUE = MessageQueue("T", "broker-a", 3)
MASTER, SLAVE = PullNode("127.0.0.1:10911", False), PullNode("127.0.0.1:10921", True)
QUERY = PullQuery(QUEUE, 100, SubscriptionData("T", sub_version=7), suspend_s=15.0)


def by_command(plan: PullPlan, query: PullQuery, node: PullNode, opaque: int) -> bytes:
    command = plan.command(query, node)
    command.opaque = opaque
    return encode(command)


@pytest.mark.parametrize("node", [MASTER, SLAVE])
@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        replace(QUERY, commit_offset=0),
        replace(QUERY, commit_offset=99),
        replace(QUERY, suspend_s=None, count_max=1, is_lite=True),
        replace(
            QUERY, with_subscription=True, subscription=SubscriptionData("T", 'a % 5 = 1 and b = "ä"', [], [], 8, SQL92)
        ),
    ],
)
def test_a_frame_is_the_one_that_a_command_makes(query: PullQuery, node: PullNode) -> None:
    plan = PullPlan(RouteTable(), "group-%d")
    frames = PullFrames(plan)
    for offset, opaque in ((query.offset, 1), (2**40, 2**31 - 1)):
        asked = replace(query, offset=offset)
        pattern = frames.pattern(asked, node)
        assert pattern is not None
        assert frame(pattern, asked, opaque) == by_command(plan, asked, node, opaque)


def test_a_pattern_is_made_anew_when_anything_but_an_offset_changes() -> None:
    plan = PullPlan(RouteTable(), "g")
    frames = PullFrames(plan)
    first = frames.pattern(QUERY, MASTER)
    assert frames.pattern(replace(QUERY, offset=5), MASTER) is first
    for query, node in [
        (replace(QUERY, commit_offset=5), MASTER),
        (replace(QUERY, subscription=SubscriptionData("T", sub_version=8)), MASTER),
        (replace(QUERY, count_max=1), MASTER),
        (replace(QUERY, commit_offset=5), SLAVE),
    ]:
        pattern = frames.pattern(query, node)
        assert pattern is not None
        assert frame(pattern, query, 9) == by_command(plan, query, node, 9)
    frames.forget(QUEUE)
    assert frames.pattern(QUERY, MASTER) == first


def test_what_cannot_be_told_from_an_offset_is_left_to_a_command() -> None:
    """A subscription whose text holds a number that stands for another."""
    text = "a = 9100000000000000001"
    query = replace(QUERY, with_subscription=True, subscription=SubscriptionData("T", text, [], [], 8, SQL92))
    assert PullFrames(PullPlan(RouteTable(), "g")).pattern(query, MASTER) is None
