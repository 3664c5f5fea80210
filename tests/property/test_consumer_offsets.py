"""Consumers' offsets against plain dictionaries: whatever is done to them, and however often the broker starts anew."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.brokers.saved_tables import SavedTables
from support.long_steps import outcome

GROUPS, TOPICS, QUEUES = ["g", "h", "%g"], ["T", "U", "%RETRY%g"], range(3)
groups, topics, queues = st.sampled_from(GROUPS), st.sampled_from(TOPICS), st.sampled_from(QUEUES)
offsets = st.integers(-(2**63), 2**63 - 1)
Place = tuple[str, str, int]


class OffsetsMachine(RuleBasedStateMachine):
    """Every place has at most one committed offset and at most one reset."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = SavedTables()
        self.committed: dict[Place, int] = {}
        self.resets: dict[Place, int] = {}

    @rule(group=groups, topic=topics, queue_id=queues, offset=offsets)
    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.tables.offsets.commit(group, topic, queue_id, offset)
        self.committed[group, topic, queue_id] = offset

    @rule(group=groups, topic=topics, queue_id=queues, offset=st.integers(0, 2**63 - 1))
    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.tables.offsets.assign_reset(group, topic, queue_id, offset)
        self.committed[group, topic, queue_id] = self.resets[group, topic, queue_id] = offset

    @rule(group=groups, topic=topics, queue_id=queues)
    def pull(self, group: str, topic: str, queue_id: int) -> None:
        taken = self.tables.offsets.take_reset(group, topic, queue_id)
        assert taken == self.resets.pop((group, topic, queue_id), None)

    @rule(source=groups, other=groups, topic=topics)
    def clone(self, source: str, other: str, topic: str) -> None:
        self.tables.offsets.clone(source, other, topic)
        copied = {q: offset for (g, t, q), offset in self.committed.items() if (g, t) == (source, topic)}
        if copied:
            self._forget(self.committed, lambda place: place[:2] == (other, topic))
            self.committed |= {(other, topic, q): offset for q, offset in copied.items()}

    @rule(topic=topics)
    def delete_topic(self, topic: str) -> None:
        outcome(self.tables.offsets.remove_topics({topic}))
        for table in (self.committed, self.resets):
            self._forget(table, lambda place: place[1] == topic)

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        outcome(self.tables.offsets.remove_group(group))
        for table in (self.committed, self.resets):
            self._forget(table, lambda place: place[0] == group)

    @rule()
    def restart(self) -> None:
        self.tables.offsets.save()
        self.tables = self.tables.restarted()
        self.resets.clear()

    @invariant()
    def every_question_is_answered_alike(self) -> None:
        kept = self.tables.offsets
        for place in [(g, t, q) for g in GROUPS for t in TOPICS for q in QUEUES]:
            assert kept.query(*place) == self.resets.get(place, self.committed.get(place, -1))
            assert kept.pending_reset(*place) == self.resets.get(place)
        for group in GROUPS:
            assert set(kept.topics_of(group)) == {t for g, t, _ in self.committed if g == group}
        for topic in TOPICS:
            assert set(kept.groups_of(topic)) == {g for g, t, _ in self.committed if t == topic}

    def _forget(self, table: dict[Place, int], is_meant: Callable[[Place], bool]) -> None:
        for place in [place for place in table if is_meant(place)]:
            del table[place]


TestOffsets = OffsetsMachine.TestCase
TestOffsets.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
