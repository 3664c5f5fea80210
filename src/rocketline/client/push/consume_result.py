"""What a handler says about the messages it was given, and what it may tell beside that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocketline.model.queue import MessageQueue


class ConsumeResult(Enum):
    """What a handler returns. None is SUCCESS, and so is `reply(message, body)`, or a list of such, once it is sent; an
    exception, or a value of any other type, is a retry.

    Java: ConsumeConcurrentlyStatus and ConsumeOrderlyStatus. There None is a retry too.
    """

    SUCCESS = "success"
    RETRY_LATER = "retry later"
    """Concurrent: the broker delivers the messages again, later each time. Orderly: the same as SUSPEND.
    Java: RECONSUME_LATER."""
    SUSPEND = "suspend"
    """Orderly: the same messages again after a pause, and nothing of their queue before.
    Java: SUSPEND_CURRENT_QUEUE_A_MOMENT. Concurrent: the same as RETRY_LATER."""
    COMMIT = "commit"
    """Orderly without auto-commit: everything up to here is done."""
    ROLLBACK = "rollback"
    """Orderly without auto-commit: everything since the last COMMIT again, after a pause."""


@dataclass(slots=True)
class ConsumeContext:
    """What the second parameter of a handler is: where the messages come from, and room for wishes about them.

    Java: ConsumeConcurrentlyContext and ConsumeOrderlyContext.
    """

    queue: MessageQueue
    delay_level: int = 0
    """Concurrent: the delay before a retry. 0 grows with the retries, -1 puts the message to the dead letters at once.
    Java: delayLevelWhenNextConsume."""
    ack_index: int = 2**31 - 1
    """Concurrent, batches: with SUCCESS, messages after this index are retried all the same."""
    is_auto_commit: bool = True
    """Orderly: SUCCESS is also COMMIT."""
    suspend_s: float | None = None
    """Orderly: the pause before messages come again, from 0.01 to 30; None takes it from the options.
    Java: suspendCurrentQueueTimeMillis."""
