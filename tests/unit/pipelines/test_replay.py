"""What is sent again is what was sent: in order within each queue, in batches that fit, at the rate asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rocketline.model.queue import MessageQueue
from rocketline.pipelines.pacing import Pace
from rocketline.pipelines.replay import message_of, parcels, target_queue
from rocketline.testing.fake_clock import FakeClock


def row(offset: int, *, queue: int = 0, body: bytes = b"x", flag: int | None = 0, **properties: str) -> Any:
    return SimpleNamespace(
        msgId=f"id-{offset}",
        body=body,
        flag=flag,
        properties=properties,
        brokerName="broker-a",
        queueId=queue,
        queueOffset=offset,
    )


def test_message_keeps_what_its_producer_gave_it_and_names_its_origin() -> None:
    message = message_of(row(7, TAGS="new", KEYS="a b", colour="red", UNIQ_KEY="id-7", DELAY="3", CLUSTER="c"), "again")

    assert (message.topic, message.body) == ("again", b"x")
    assert message.properties == {"TAGS": "new", "KEYS": "a b", "colour": "red", "REPLAY_OF": "id-7"}


def test_message_keeps_its_flag() -> None:
    assert message_of(row(1, flag=7), "again").flag == 7


def test_message_without_properties_and_flag_can_be_sent_again() -> None:
    bare = row(1, flag=None)
    bare.properties = None
    message = message_of(bare, "again")

    assert (message.properties, message.flag) == ({"REPLAY_OF": "id-1"}, 0)


def test_each_parcel_is_of_one_queue_and_keeps_its_order() -> None:
    rows = [row(number, queue=number % 3) for number in range(500)]
    sent: dict[int, list[str]] = {}
    for parcel in parcels(rows, "again"):
        assert 1 <= len(parcel.messages) <= 64
        sent.setdefault(parcel.origin[1], []).extend(message.properties["REPLAY_OF"] for message in parcel.messages)

    assert sent == {queue: [f"id-{number}" for number in range(queue, 500, 3)] for queue in range(3)}


def test_message_of_a_quiet_queue_does_not_wait_for_the_end() -> None:
    rows = [row(0, queue=7), *(row(number) for number in range(1, 5000))]
    origins = [parcel.origin[1] for parcel in parcels(rows, "again")]

    assert origins.index(7) <= 1024 // 64


def test_batches_are_as_small_as_a_low_rate_wants_them() -> None:
    rows = [row(number, queue=number % 2) for number in range(20)]

    assert {len(parcel.messages) for parcel in parcels(rows, "again", count_max=3)} == {1, 3}
    one_by_one = [parcel.messages[0].properties["REPLAY_OF"] for parcel in parcels(rows, "again", count_max=1)]
    assert one_by_one == [f"id-{number}" for number in range(20)], "all in order, then"


def test_parcels_stay_below_a_megabyte_unless_one_message_is_larger() -> None:
    sizes = [400_000, 400_000, 400_000, 3_000_000, 10]
    made = [[len(message.body) for message in parcel.messages] for parcel in parcels(
        [row(number, body=bytes(size)) for number, size in enumerate(sizes)], "again"
    )]  # fmt: skip

    assert made == [[400_000, 400_000], [400_000], [3_000_000], [10]]


def test_queue_goes_to_the_same_queue_every_time_and_neighbours_apart() -> None:
    queues = [MessageQueue("again", "broker-a", number) for number in range(4)]
    chosen = [target_queue(("broker-a", number), queues) for number in range(4)]

    assert len(set(chosen)) == 4
    assert chosen == [target_queue(("broker-a", number), list(reversed(queues))) for number in range(4)]


def test_pace_is_kept_on_average_and_pauses_are_not_made_up_for() -> None:
    clock, waits = FakeClock(), list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    pace = Pace(10, clock=clock, sleep=sleep)
    for _ in range(4):
        pace.wait_for(5)
    assert waits == [0.5, 0.5, 0.5]
    clock.advance(60)
    for _ in range(4):
        pace.wait_for(5)
    assert waits == [0.5] * 4, "one second's worth at once, then the rate again"
    Pace(None, clock=clock, sleep=sleep).wait_for(10**9)
    assert len(waits) == 4
