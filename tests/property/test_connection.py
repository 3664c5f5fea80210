"""A connection against a model of it: a dictionary of who waits for which number."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketline.errors import OverloadedError
from rocketline.wire import frame
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command
from rocketline.wire.connection import Connection

IN_FLIGHT_MAX = 4


class Conversation(RuleBasedStateMachine):
    """Answers come in any order, twice, late or unasked; numbers start again at their end."""

    @initialize(start=st.sampled_from([0, 7, 2**31 - 3, 2**31 - 1]))
    def open(self, start: int) -> None:
        self.connection: Connection[int] = Connection("127.0.0.1:1", in_flight_max=IN_FLIGHT_MAX)
        self.connection._opaque = start
        self.waiting: dict[int, int] = {}
        self.used: set[int] = set()
        self.waiters = 0

    @precondition(lambda self: len(self.waiting) < IN_FLIGHT_MAX)
    @rule()
    def ask(self) -> None:
        self.waiters += 1
        opaque = frame.decode(self.connection.request(Command(105), self.waiters)).opaque
        assert opaque not in self.waiting
        assert 0 <= opaque < 2**31
        self.waiting[opaque] = self.waiters
        self.used.add(opaque)

    @precondition(lambda self: len(self.waiting) == IN_FLIGHT_MAX)
    @rule()
    def ask_one_too_many(self) -> None:
        with pytest.raises(OverloadedError):
            self.connection.request(Command(105), 0)

    @rule()
    def tell(self) -> None:
        sent = frame.decode(self.connection.oneway(Command(15)))
        assert sent.flag == ONEWAY_FLAG
        assert sent.opaque not in self.waiting

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """The first answer to a number that waits, or a second or late one."""
        self.receive(data.draw(st.sampled_from(sorted(self.used))))

    @rule(opaque=st.integers(-(2**31), 2**31 - 1))
    def receive(self, opaque: int) -> None:
        response = Command(0, opaque=opaque, flag=RESPONSE_FLAG)
        assert self.connection.waiter_of(response) == self.waiting.pop(opaque, None)

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        opaque = data.draw(st.sampled_from(sorted(self.used)))
        self.connection.forget(opaque)
        self.waiting.pop(opaque, None)

    @rule(opaque=st.integers(0, 10), flag=st.sampled_from([0, ONEWAY_FLAG]))
    def be_asked(self, opaque: int, flag: int) -> None:
        request = Command(40, opaque=opaque, flag=flag)
        assert self.connection.waiter_of(request) is None

    @rule()
    def close(self) -> None:
        assert sorted(self.connection.close()) == sorted(self.waiting.values())
        self.waiting.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert self.connection.in_flight == len(self.waiting)


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=60, stateful_step_count=30)
