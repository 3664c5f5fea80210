"""A broker's figures out of its texts."""

from __future__ import annotations

from rocketline.admin.runtime_figures import broker_status
from rocketline.admin.views import BrokerAddress, Rates
from rocketline.errors import ConnectError

BROKER = BrokerAddress("c", "b", 0, "h:1")


def test_figures_are_read_with_their_units() -> None:
    status = broker_status(
        BROKER,
        {
            "brokerVersionDesc": "V5_5_0",
            "brokerActive": "true",
            "bootTimestamp": "1700000000000",
            "putTps": "3.5 2.25 1.0",
            "getTransferredTps": "2.25 0.42 ",
            "msgPutTotalYesterdayMorning": "100",
            "msgPutTotalTodayMorning": "150",
            "msgPutTotalTodayNow": "157",
            "msgGetTotalTodayMorning": "20",
            "msgGetTotalTodayNow": "50",
            "sendThreadPoolQueueSize": "4",
            "commitLogMinOffset": "1024",
            "commitLogMaxOffset": "5120",
            "commitLogDiskRatio": "0.37",
            "earliestMessageTimeStamp": "-1",
        },
    )
    assert status.puts == Rates(3.5, 2.25, 1.0)
    assert status.gets == Rates(2.25, 0.42)
    assert (status.put_today, status.put_yesterday, status.get_today, status.get_yesterday) == (7, 50, 30, 20)
    assert (status.log_bytes, status.disk_used, status.sends_waiting) == (4096, 0.37, 4)
    assert (status.started_ms, status.oldest_message_ms) == (1_700_000_000_000, None)
    assert (status.version, status.is_active, status.problem) == ("V5_5_0", True, None)


def test_figures_that_are_missing_or_nonsense_are_zero() -> None:
    status = broker_status(BROKER, {"putTps": "fast", "commitLogMaxOffset": "far", "commitLogMinOffset": "-1"})
    assert (status.puts, status.log_bytes, status.put_today, status.disk_used) == (Rates(), 0, 0, 0.0)


def test_broker_that_did_not_answer_is_shown_with_its_problem() -> None:
    problem = ConnectError("h:1", "refused")
    status = broker_status(BROKER, problem)
    assert (status.problem, status.is_active, status.version) == (problem, False, "")
