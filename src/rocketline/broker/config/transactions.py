"""Messages that are confirmed later. Java: BrokerConfig."""

from __future__ import annotations

from rocketline.record import record
from rocketline.settings import setting

_LONG_MAX = 2**63 - 1


@record(kw_only=True, slots=False)
class TransactionsConfig:
    """When the producer of a half message is asked what became of it."""

    transaction_time_out: int = setting(
        6000,
        key="transactionTimeOut",
        high=_LONG_MAX,
        live=True,
        help="Milliseconds from a half message's birth in which its producer is not asked about it.",
    )
    transaction_check_max: int = setting(
        15,
        key="transactionCheckMax",
        live=True,
        help="How often a producer is asked; then the half message goes to TRANS_CHECK_MAX_TIME_TOPIC.",
    )
    transaction_check_interval: int = setting(
        30_000,
        key="transactionCheckInterval",
        low=1,
        high=_LONG_MAX,
        live=True,
        help="Milliseconds from one round of questions to the next.",
    )
    transaction_op_msg_max_size: int = setting(
        4096,
        key="transactionOpMsgMaxSize",
        low=1,
        high=1024 * 1024,
        live=True,
        help="Characters of an op message, which notes the ends of transactions, with which it is written at once.",
    )
    transaction_op_batch_interval: int = setting(
        3000,
        key="transactionOpBatchInterval",
        high=_LONG_MAX,
        live=True,
        help="Milliseconds after which the end of a transaction is written, with those that came since.",
    )
    transaction_metric_flush_interval: int = setting(
        10_000,
        key="transactionMetricFlushInterval",
        low=1,
        high=_LONG_MAX,
        help="Milliseconds from one save of the number of half messages to the next.",
    )
