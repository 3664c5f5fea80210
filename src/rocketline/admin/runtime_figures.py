"""The figures that a broker tells as texts, read into a `BrokerStatus`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.admin.views import BrokerAddress, BrokerStatus, Rates
from rocketline.errors import RocketlineError


def broker_status(broker: BrokerAddress, table: Mapping[str, str] | RocketlineError) -> BrokerStatus:
    """What the answer to GET_BROKER_RUNTIME_INFO says; a figure that is missing or no number is 0."""
    problem = table if isinstance(table, RocketlineError) else None
    figures = _Figures({} if isinstance(table, RocketlineError) else table)
    put_morning, get_morning = figures.number("msgPutTotalTodayMorning"), figures.number("msgGetTotalTodayMorning")
    return BrokerStatus(
        broker,
        version=figures.text("brokerVersionDesc"),
        is_active=figures.text("brokerActive") != "false" and problem is None,
        started_ms=figures.time_ms("bootTimestamp"),
        puts=figures.rates("putTps"),
        gets=figures.rates("getTransferredTps"),
        put_today=figures.number("msgPutTotalTodayNow") - put_morning,
        put_yesterday=put_morning - figures.number("msgPutTotalYesterdayMorning"),
        get_today=figures.number("msgGetTotalTodayNow") - get_morning,
        get_yesterday=get_morning - figures.number("msgGetTotalYesterdayMorning"),
        sends_waiting=figures.number("sendThreadPoolQueueSize"),
        pulls_waiting=figures.number("pullThreadPoolQueueSize"),
        log_bytes=figures.number("commitLogMaxOffset") - max(0, figures.number("commitLogMinOffset")),
        disk_used=figures.fraction("commitLogDiskRatio"),
        oldest_message_ms=figures.time_ms("earliestMessageTimeStamp"),
        problem=problem,
    )


class _Figures:
    """Numbers out of texts."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = table

    def text(self, key: str) -> str:
        return self._table.get(key, "")

    def fraction(self, key: str) -> float:
        return _float(self.text(key))

    def number(self, key: str) -> int:
        return int(self.fraction(key)) if "." in self.text(key) else _int(self.text(key))

    def time_ms(self, key: str) -> int | None:
        return time_ms if (time_ms := self.number(key)) > 0 else None

    def rates(self, key: str) -> Rates:
        """Up to three numbers; a young broker tells fewer."""
        found = [_float(word) for word in self.text(key).split()[:3]]
        return Rates(*found)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0
