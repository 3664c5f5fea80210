"""When a broker refuses work, and what it counts. Java: BrokerConfig."""

from __future__ import annotations

from rocketline.record import record
from rocketline.settings import setting

_LONG_MAX = 2**63 - 1


def _wait(default: int, key: str, what: str) -> int:
    return setting(
        default,
        key=key,
        high=_LONG_MAX,
        live=True,
        help=f"Milliseconds after which {what} that still waits is refused.",
    )


@record(kw_only=True, slots=False)
class FlowControlConfig:
    """Refusing what comes too late to be of use."""

    broker_fast_failure_enable: bool = setting(
        True, key="brokerFastFailureEnable", live=True, help="Whether requests that waited for too long are refused."
    )
    wait_time_mills_in_send_queue: int = _wait(200, "waitTimeMillsInSendQueue", "a send")
    wait_time_mills_in_pull_queue: int = _wait(5000, "waitTimeMillsInPullQueue", "a pull")
    wait_time_mills_in_lite_pull_queue: int = _wait(5000, "waitTimeMillsInLitePullQueue", "a lite pull")
    wait_time_mills_in_heartbeat_queue: int = _wait(31_000, "waitTimeMillsInHeartbeatQueue", "a heartbeat")
    wait_time_mills_in_transaction_queue: int = _wait(3000, "waitTimeMillsInTransactionQueue", "a transaction's end")
    wait_time_mills_in_admin_broker_queue: int = _wait(5000, "waitTimeMillsInAdminBrokerQueue", "another request")
    send_thread_pool_queue_capacity: int = setting(
        10_000, key="sendThreadPoolQueueCapacity", low=1, help="Sends that may wait for their flush."
    )
    pull_thread_pool_queue_capacity: int = setting(
        100_000,
        key="pullThreadPoolQueueCapacity",
        low=1,
        effect=False,
        help="Shown to administrators and without effect: connections bound the pulls that wait for messages.",
    )


@record(kw_only=True, slots=False)
class StatsConfig:
    """What is counted."""

    enable_detail_stat: bool = setting(
        True, key="enableDetailStat", help="Whether sends and pulls are counted per queue."
    )
    max_stats_idle_time_in_minutes: int = setting(
        -1,
        key="maxStatsIdleTimeInMinutes",
        low=-1,
        live=True,
        help="Minutes after which a figure that did not change is dropped, 30 for those up to 10; -1: never.",
    )
    auto_delete_unused_stats: bool = setting(
        True,
        key="autoDeleteUnusedStats",
        live=True,
        help="Whether the figures of a deleted topic or group are dropped.",
    )
