from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.broker.stats.runtime_info import RuntimeInfo, WaitingRequests
from rocketline.testing.fake_clock import FakeClock
from support.brokers.tables import ROOT, Tables, tables

APACHE_KEYS = """
    EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity ackThreadPoolQueueCapacity
    ackThreadPoolQueueHeadWaitTimeMills ackThreadPoolQueueSize bootTimestamp brokerActive brokerVersionDesc
    commitLogDirCapacity commitLogDiskRatio commitLogDiskRatio_/store/commitlog commitLogMaxOffset commitLogMinOffset
    consumeQueueDiskRatio dispatchBehindBytes dispatchMaxBuffer earliestMessageTimeStamp getFoundTps
    getMessageEntireTimeMax getMissTps getTotalTps getTransferredTps litePullThreadPoolQueueCapacity
    litePullThreadPoolQueueHeadWaitTimeMills litePullThreadPoolQueueSize msgGetTotalTodayMorning msgGetTotalTodayNow
    msgGetTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow msgPutTotalYesterdayMorning
    pageCacheLockTimeMills pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize
    putLatency99 putLatency999 putMessageAverageSize putMessageDistributeTime putMessageEntireTimeMax
    putMessageFailedTimes putMessageSizeTotal putMessageTimesTotal putTps queryThreadPoolQueueCapacity
    queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize remainHowManyDataToFlush
    remainTransientStoreBufferNumbs runtime scheduleMessageOffset_3 sendThreadPoolQueueCapacity
    sendThreadPoolQueueHeadWaitTimeMills sendThreadPoolQueueSize startAcceptSendRequestTimeStamp timerCongestNum
    timerDequeueTps timerEnqueueTps timerOffsetBehind timerReadBehind
    """
"""What Apache RocketMQ 5.5.0 answered after a delayed message of level 3."""


@pytest.fixture
def kept() -> Iterator[Tables]:
    with tables(FakeClock()) as made:
        yield made


def runtime(
    kept: Tables, delays: dict[int, tuple[int, int]] | None = None, sends: WaitingRequests | None = None
) -> RuntimeInfo:
    return RuntimeInfo(
        kept.settings,
        kept.stats,
        kept.store,
        kept.files,
        kept.clock,
        delays=lambda: delays or {},
        sends=lambda: sends or WaitingRequests(),
    )


def test_keys_are_those_of_apache(kept: Tables) -> None:
    """S215: every figure of a 5.5.0 broker, under its name."""
    table = runtime(kept, delays={3: (1, 1)}).table()
    assert table.keys() == set(APACHE_KEYS.split())
    assert all(isinstance(value, str) for value in table.values())


def test_fresh_broker_tells_what_apaches_tells(kept: Tables) -> None:
    table = runtime(kept).table()
    expected = {
        "brokerActive": "true",
        "brokerVersionDesc": "V5_5_0",
        "commitLogMaxOffset": "0",
        "commitLogMinOffset": "-1",
        "earliestMessageTimeStamp": "-1",
        "getTotalTps": "0.0 0.0 0.0",
        "putLatency99": "0.00",
        "putMessageAverageSize": "0.0",
        "putMessageDistributeTime": "null",
        "putTps": "  ",
        "remainHowManyDataToFlush": "0 B",
        "remainTransientStoreBufferNumbs": "2147483647",
        "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]",
        "sendThreadPoolQueueCapacity": "10000",
        "timerDequeueTps": "0.0",
    }
    assert {key: table[key] for key in expected} == expected


def test_time_since_the_start(kept: Tables) -> None:
    info = runtime(kept)
    boot_ms = kept.clock.wall_ms()
    kept.clock.advance(2 * 86_400 + 3 * 3600 + 4 * 60 + 5.5)
    table = info.table()
    assert table["runtime"] == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"
    assert table["bootTimestamp"] == str(boot_ms)


def test_log_and_what_is_not_flushed(kept: Tables) -> None:
    begin_ms = kept.clock.wall_ms()
    for _ in range(20):
        kept.append(bytes(1000))
        kept.clock.advance(1)
    table = runtime(kept).table()
    assert table["commitLogMinOffset"] == "0"
    assert table["commitLogMaxOffset"] == str(kept.store.max_log_offset)
    assert table["earliestMessageTimeStamp"] == str(begin_ms)
    assert table["remainHowManyDataToFlush"] == f"{kept.store.max_log_offset / 1024:.1f} KiB"
    assert table["dispatchBehindBytes"] == "0"


def test_disk_is_told_as_ratio_and_in_bytes(kept: Tables) -> None:
    table = runtime(kept).table()
    usage = kept.files.usage(ROOT)
    assert table["commitLogDiskRatio"] == table["consumeQueueDiskRatio"] == str(usage.ratio)
    assert table["commitLogDirCapacity"].startswith("Total : 1.0 GiB, Free : ")


def test_puts_and_gets(kept: Tables) -> None:
    kept.stats.put("T", 0, 4, 1000, requests=2, took_ms=3)
    kept.stats.get("G", "T", 0, 4, 1000, took_ms=5)
    kept.stats.put_failed()
    for _ in range(60):
        kept.clock.advance(1)
        kept.stats.tick()
    table = runtime(kept).table()
    expected = {
        "putMessageTimesTotal": "4",
        "putMessageSizeTotal": "1000",
        "putMessageAverageSize": "250.0",
        "putMessageFailedTimes": "1",
        "putMessageEntireTimeMax": "3",
        "getMessageEntireTimeMax": "5",
        "putLatency99": "3.00",
        "putTps": "0.0  ",
        "msgPutTotalTodayNow": "4",
        "msgGetTotalTodayNow": "4",
    }
    assert {key: table[key] for key in expected} == expected
    assert table["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:2 ")


def test_delay_levels_that_were_used_are_told(kept: Tables) -> None:
    table = runtime(kept, delays={3: (5, 9), 18: (0, 0)}).table()
    found = {key: value for key, value in table.items() if key.startswith("scheduleMessageOffset_")}
    assert found == {"scheduleMessageOffset_3": "5,9", "scheduleMessageOffset_18": "0,0"}


def test_sends_that_wait_for_their_flush_are_told(kept: Tables) -> None:
    table = runtime(kept, sends=WaitingRequests(7, 120)).table()
    assert (table["sendThreadPoolQueueSize"], table["sendThreadPoolQueueHeadWaitTimeMills"]) == ("7", "120")
    assert table["pullThreadPoolQueueSize"] == "0"
