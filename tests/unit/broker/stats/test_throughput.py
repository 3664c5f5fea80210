from __future__ import annotations

import datetime as dt

from rocketline.broker.stats.throughput import DayTotals, PutTimes, Throughput


def test_rates_of_a_young_broker_are_blank() -> None:
    """S215: a span that is not over yet has no number, and the text ends in a blank."""
    throughput = Throughput()
    assert throughput.put_tps == "  "
    for second in range(11):
        throughput.sample(second * 1000)
        throughput.put_messages += 5
    assert throughput.put_tps == "5.0  "
    assert throughput.get_total_tps == "0.0 0.0 0.0"


def test_rates_over_ten_seconds_a_minute_and_ten_minutes() -> None:
    throughput = Throughput()
    for second in range(601):
        throughput.sample(second * 1000)
        throughput.put_messages += 60 if second >= 590 else 0
        throughput.missed += 3
    assert throughput.put_tps == "60.0 10.0 1.0"
    assert throughput.get_missed_tps == throughput.get_total_tps == "3.0 3.0 3.0"
    assert throughput.get_found_tps == throughput.get_transferred_tps == "0.0 0.0 0.0"


def test_rate_counts_the_time_that_passed_and_not_the_samples() -> None:
    throughput = Throughput()
    for second in range(11):
        throughput.sample(second * 2000)
        throughput.put_messages += 10
    assert throughput.put_tps == "5.0  "


def test_put_times_are_told_once_a_minute_is_over() -> None:
    times = PutTimes()
    times.add(6, 5)
    before = times.distribution, times.percentile(0.99)
    times.turn()
    after = (times.distribution or "").split()[:3], times.percentile(0.99)
    assert (before, after) == ((None, 0.0), (["[<=0ms]:0", "[0~10ms]:5", "[10~50ms]:0"], 6.0))


def test_distribution_puts_each_time_into_the_class_below_its_bound() -> None:
    times = PutTimes()
    for took_ms in (0, 1, 9, 10, 499, 500, 9999, 10_000, 10**9):
        times.add(took_ms, 1)
    times.turn()
    assert times.distribution == (
        "[<=0ms]:1 [0~10ms]:2 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:1 [500ms~1s]:1 [1~2s]:0 [2~3s]:0 "
        "[3~4s]:0 [4~5s]:0 [5~10s]:1 [10s~]:2 "
    )
    assert times.longest_ms == 10**9


def test_percentiles_are_those_of_the_last_minute() -> None:
    times = PutTimes()
    times.add(1, 990)
    times.add(40, 9)
    times.add(700, 1)
    times.turn()
    assert (times.percentile(0.99), times.percentile(0.999), times.percentile(1)) == (1.0, 40.0, 700.0)
    times.turn()
    assert times.percentile(0.99) == 0.0
    assert times.longest_ms == 700


def test_totals_of_the_morning_are_noted_when_the_day_changes() -> None:
    totals = DayTotals()
    noon = dt.datetime(2026, 3, 1, 12).astimezone()

    def turn(days: float, total: int) -> tuple[int, int]:
        totals.turn(int((noon + dt.timedelta(days=days)).timestamp() * 1000), total)
        return totals.yesterday_morning, totals.today_morning

    assert turn(0, 10) == (0, 0)
    assert turn(0.4, 15) == (0, 0)
    assert turn(1, 20) == (0, 20)
    assert turn(1.1, 25) == (0, 20)
    assert turn(2, 70) == (20, 70)
