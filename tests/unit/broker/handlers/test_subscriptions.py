"""Which groups and topics belong together, however many there are."""

from __future__ import annotations

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.handlers.subscriptions import SubscriptionHandlers
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.lists import GroupList, TopicList
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.saved_tables import SavedTables
from support.long_steps import AtOnce


async def test_thousands_are_listed_in_steps(clock: FakeClock) -> None:
    offsets, work = SavedTables().offsets, AtOnce(clock)
    for number in range(3_000):
        offsets.commit(f"group-{number}", "T", 0, 1)
        offsets.commit("g", f"topic-{number}", 0, 1)
    by_code = SubscriptionHandlers(ConsumerRegistry(), offsets, "127.0.0.1:10911", work).by_code()

    def ask(code: int, **ext: str) -> bytes:
        answer = by_code[code](channel(clock)[0], Command(code, ext))
        assert isinstance(answer, Command)
        assert work.pauses >= 2
        return answer.body

    assert len(decode(GroupList, ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="T")).group_list) == 3_000
    assert len(decode(TopicList, ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="g")).topic_list) == 3_000
