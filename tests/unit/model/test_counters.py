from __future__ import annotations

from rocketline.model.counters import DAY, HOUR, MINUTE, SPANS, Counter, Sums, sample


def raised(counter: Counter, value: int, times: int = 1) -> None:
    counter.value += value
    counter.times += times


def test_counter_without_samples_tells_nothing() -> None:
    counter = Counter()
    raised(counter, 5)
    assert [counter.over(span) for span in SPANS] == [Sums()] * 3


def test_first_sample_counts_from_zero_one_interval_earlier() -> None:
    counter = Counter()
    raised(counter, 20, times=4)
    sample([counter], MINUTE, 100_000)
    assert counter.over(MINUTE) == Sums(sum=20, tps=2.0, avgpt=5.0)


def test_a_minute_spans_seven_samples() -> None:
    """What was added before the oldest of the seven no longer counts."""
    counter = Counter()
    raised(counter, 1000)
    sample([counter], MINUTE, 10_000)
    for tick in range(2, 9):
        raised(counter, 60, times=2)
        sample([counter], MINUTE, tick * 10_000)
    assert counter.over(MINUTE) == Sums(sum=360, tps=6.0, avgpt=30.0)


def test_each_span_has_its_own_samples() -> None:
    counter = Counter()
    raised(counter, 3600)
    sample([counter], HOUR, 600_000)
    raised(counter, 3600)
    sample([counter], DAY, 3_600_000)
    assert counter.over(MINUTE).sum == 0
    assert counter.over(HOUR) == Sums(sum=3600, tps=6.0, avgpt=3600.0)
    assert counter.over(DAY) == Sums(sum=7200, tps=2.0, avgpt=3600.0)


def test_a_day_spans_twenty_five_samples() -> None:
    counter = Counter()
    for hour in range(1, 31):
        raised(counter, 1)
        sample([counter], DAY, hour * 3_600_000)
    assert counter.over(DAY).sum == 24


def test_counter_that_counts_no_times_has_no_average() -> None:
    counter = Counter()
    raised(counter, 7, times=0)
    sample([counter], MINUTE, 10_000)
    assert counter.over(MINUTE).avgpt == 0.0


def test_two_samples_at_one_moment_have_no_rate() -> None:
    """The clock that samples are taken by stands still in tests, and may be coarse."""
    counter = Counter()
    for _ in range(8):
        sample([counter], MINUTE, 10_000)
        raised(counter, 1)
    assert counter.over(MINUTE).tps == 0.0


def test_counter_is_idle_since_a_moment_if_nothing_changed_after_it() -> None:
    counter = Counter()
    raised(counter, 1)
    sample([counter], MINUTE, 50_000)
    assert counter.is_idle_since(50_000)
    assert not counter.is_idle_since(40_000), "before its first sample it counts as zero, which it is no more"
    assert not counter.is_idle_since(30_000), "nothing is known of that time"
    raised(counter, 1)
    assert not counter.is_idle_since(50_000)
