"""What a poll does besides waiting: hooks, and commits of what earlier polls returned."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.consumer.pulls import PullResult, PullStatus
from rocketline.client.lite_pull.assigned_queues import AssignedQueue, AssignedQueues
from rocketline.client.lite_pull.options import LitePullOptions
from rocketline.client.lite_pull.polling import Polling
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from support.clients.consuming import QUEUE, offsets_of, received


class Scene:
    """One queue with messages in twos, a `Polling`, and what it committed."""

    def __init__(self, clock: FakeClock, options: LitePullOptions, batches: int = 5) -> None:
        self.queues = AssignedQueues()
        self.queues.assign({QUEUE: ProcessQueue(0.0)})
        self.assigned: AssignedQueue = self.queues.find(QUEUE)
        self.committed: list[Mapping[MessageQueue, int]] = []
        self.polling = Polling(self.queues, options, clock, group="g", namespace="", commit=self.committed.append)
        for first in range(0, 2 * batches, 2):
            messages = received([first, first + 1])
            self.queues.put(self.assigned, 0, PullResult(PullStatus.FOUND, first + 2, 0, 100, messages))


def test_poll_commits_what_earlier_polls_returned_every_five_seconds(clock: FakeClock) -> None:
    """C206."""
    scene = Scene(clock, LitePullOptions())
    assert offsets_of(scene.polling.take()) == [0, 1]
    assert scene.committed == []
    clock.advance(4.9)
    scene.polling.take()
    assert scene.committed == []
    clock.advance(0.1)
    assert offsets_of(scene.polling.take()) == [4, 5]
    assert scene.committed == [{QUEUE: 4}]
    clock.advance(5.0)
    scene.polling.take()
    assert scene.committed[1:] == [{QUEUE: 6}]


def test_iteration_commits_the_messages_before_the_one_that_is_asked_for(clock: FakeClock) -> None:
    scene = Scene(clock, LitePullOptions())
    scene.polling.take_one()
    clock.advance(5.0)
    scene.polling.take_one()
    assert scene.committed == [{QUEUE: 1}]


def test_without_automatic_commits_none_is_made(clock: FakeClock) -> None:
    """C207."""
    scene = Scene(clock, LitePullOptions(auto_commit=False))
    for _ in range(6):
        scene.polling.take()
        clock.advance(60.0)
    assert scene.committed == []


def test_nothing_there_is_nothing_taken(clock: FakeClock) -> None:
    scene = Scene(clock, LitePullOptions(), batches=0)
    assert scene.polling.take() == []
    assert scene.polling.take_one() is None
