"""What the hot paths of pops and acknowledgements do that no comparison with the handlers tells."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from rocketline.broker.pop.hot import acks, pops
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.pop_twins import PopTwins
from support.brokers.pops import pop
from support.brokers.tables import tables


@pytest.fixture
def twin(clock: FakeClock) -> Iterator[PopTwins]:
    with tables(clock, brokerName="broker-a") as made:
        for _ in range(40):
            made.append()
        yield PopTwins(made)


def ack(offset: int, *, group: str = "g", pop_ms: int = 1_700_000_000_000) -> bytes:
    handle = f"0 {pop_ms} 60000 0 0 broker-a 0 {offset}"
    ext = {"consumerGroup": group, "topic": "T", "queueId": "0", "extraInfo": handle, "offset": str(offset)}
    return frame.encode(Command(RequestCode.ACK_MESSAGE, ext, opaque=offset))


def test_acknowledgements_that_cannot_be_written_are_all_refused(
    twin: PopTwins, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: bytes) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(twin.tables.store.log, "write", fail)
    run = ack(0) + ack(1)

    end, replies = twin.take(twin.acks, run)

    assert (end, replies.count(b'"code":1,'), replies.count(b"read-only")) == (len(run), 2, 2)
    assert twin.take(twin.acks, run) == (0, b"")  # from now on the handler tells


def test_acknowledgement_of_a_group_that_no_record_can_name_is_left_to_the_handler(twin: PopTwins) -> None:
    """Its connection was lost."""
    assert twin.take(twin.acks, ack(0) + ack(1, group="a\x02b")) == twin.take(twin.acks, ack(0))


def test_call_takes_a_bounded_number_of_acknowledgements(twin: PopTwins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acks, "_REQUESTS_MAX", 3)
    assert twin.take(twin.acks, ack(0) * 10)[0] == 3 * len(ack(0))


def test_call_takes_a_bounded_number_of_pops(twin: PopTwins) -> None:
    twin.tables.offsets.commit("g", "T", 0, 0)
    request = frame.encode(pop(messages=1))
    end, _ = twin.take(twin.pops, request * 20)
    assert end == 8 * len(request)


def test_no_more_is_remembered_than_the_bounds(twin: PopTwins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acks, "_KEPT_MAX", 10)
    monkeypatch.setattr(pops, "_KEPT_MAX", 10)
    twin.tables.offsets.commit("g", "T", 0, 0)
    for number in range(30):
        assert twin.take(twin.acks, ack(0, group=f"g{number}"))[0]
        assert twin.take(twin.pops, frame.encode(pop(messages=1, pollTime=str(number))))[0]
    assert len(twin.acks._known) <= 10
    assert len(twin.pops._known) <= 10


def test_pop_that_may_look_into_many_queues_is_left_to_the_handler(twin: PopTwins) -> None:
    """Which does so in steps."""
    twin.tables.offsets.commit("g", "T", 0, 0)
    request = frame.encode(pop(messages=1))
    assert twin.take(twin.pops, request)[0]
    twin.tables.topics.update(TopicConfig("%RETRY%g_T", 200, 200))
    assert twin.take(twin.pops, request) == (0, b"")


def test_pop_beyond_its_time_is_left_to_the_handler(twin: PopTwins, clock: FakeClock) -> None:
    twin.tables.offsets.commit("g", "T", 0, 0)
    request = frame.encode(pop(bornTime=str(clock.wall_ms() - 501)))
    assert twin.take(twin.pops, request) == (0, b"")
