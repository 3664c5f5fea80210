"""Rocketline: Apache RocketMQ in Python.

The clients here block; `rocketline.aio` has the same for asyncio. Each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rocketline.admin.sync import Admin as Admin
    from rocketline.client.consumer.pulls import PullResult as PullResult
    from rocketline.client.consumer.pulls import PullStatus as PullStatus
    from rocketline.client.consumer.pulls import RawPull as RawPull
    from rocketline.client.consumer.subscriptions import by_sql as by_sql
    from rocketline.client.options import Credentials as Credentials
    from rocketline.client.options import RpcHook as RpcHook
    from rocketline.client.options import Tls as Tls
    from rocketline.client.pop.popped_message import PoppedMessage as PoppedMessage
    from rocketline.client.producer.queue_choice import by_hash as by_hash
    from rocketline.client.producer.receipts import SendReceipt as SendReceipt
    from rocketline.client.producer.receipts import SendStatus as SendStatus
    from rocketline.client.producer.transactions import Transaction as Transaction
    from rocketline.client.producer.transactions import TransactionReceipt as TransactionReceipt
    from rocketline.client.producer.transactions import TransactionState as TransactionState
    from rocketline.client.push.consume_result import ConsumeContext as ConsumeContext
    from rocketline.client.push.consume_result import ConsumeResult as ConsumeResult
    from rocketline.client.received_message import ReceivedMessage as ReceivedMessage
    from rocketline.client.replies import ReceivedReply as ReceivedReply
    from rocketline.client.replies import Reply as Reply
    from rocketline.client.replies import reply as reply
    from rocketline.client.runtime.pending_requests import ReplyCounts as ReplyCounts
    from rocketline.client.sync.lite_pull_consumer import LitePullConsumer as LitePullConsumer
    from rocketline.client.sync.producer import Producer as Producer
    from rocketline.client.sync.pull_consumer import PullConsumer as PullConsumer
    from rocketline.client.sync.push_consumer import PushConsumer as PushConsumer
    from rocketline.client.sync.runtime import ClientRuntime as ClientRuntime
    from rocketline.client.sync.simple_consumer import Attempt as Attempt
    from rocketline.client.sync.simple_consumer import SimpleConsumer as SimpleConsumer
    from rocketline.client.sync.transaction_producer import TransactionProducer as TransactionProducer
    from rocketline.model.message import Message as Message
    from rocketline.model.queue import MessageQueue as MessageQueue
    from rocketline.model.subscription import ConsumeFromWhere as ConsumeFromWhere
    from rocketline.model.subscription import MessageModel as MessageModel
    from rocketline.model.sys_flags import CompressionType as CompressionType

_PLACES = {
    "Admin": "rocketline.admin.sync",
    "Attempt": "rocketline.client.sync.simple_consumer",
    "ClientRuntime": "rocketline.client.sync.runtime",
    "CompressionType": "rocketline.model.sys_flags",
    "ConsumeContext": "rocketline.client.push.consume_result",
    "ConsumeFromWhere": "rocketline.model.subscription",
    "ConsumeResult": "rocketline.client.push.consume_result",
    "Credentials": "rocketline.client.options",
    "LitePullConsumer": "rocketline.client.sync.lite_pull_consumer",
    "Message": "rocketline.model.message",
    "MessageModel": "rocketline.model.subscription",
    "MessageQueue": "rocketline.model.queue",
    "PoppedMessage": "rocketline.client.pop.popped_message",
    "Producer": "rocketline.client.sync.producer",
    "PullConsumer": "rocketline.client.sync.pull_consumer",
    "PullResult": "rocketline.client.consumer.pulls",
    "PullStatus": "rocketline.client.consumer.pulls",
    "PushConsumer": "rocketline.client.sync.push_consumer",
    "RawPull": "rocketline.client.consumer.pulls",
    "ReceivedMessage": "rocketline.client.received_message",
    "ReceivedReply": "rocketline.client.replies",
    "Reply": "rocketline.client.replies",
    "ReplyCounts": "rocketline.client.runtime.pending_requests",
    "RpcHook": "rocketline.client.options",
    "SendReceipt": "rocketline.client.producer.receipts",
    "SendStatus": "rocketline.client.producer.receipts",
    "SimpleConsumer": "rocketline.client.sync.simple_consumer",
    "Tls": "rocketline.client.options",
    "Transaction": "rocketline.client.producer.transactions",
    "TransactionProducer": "rocketline.client.sync.transaction_producer",
    "TransactionReceipt": "rocketline.client.producer.transactions",
    "TransactionState": "rocketline.client.producer.transactions",
    "by_hash": "rocketline.client.producer.queue_choice",
    "by_sql": "rocketline.client.consumer.subscriptions",
    "reply": "rocketline.client.replies",
}

__all__ = [
    "Admin",
    "Attempt",
    "ClientRuntime",
    "CompressionType",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeResult",
    "Credentials",
    "LitePullConsumer",
    "Message",
    "MessageModel",
    "MessageQueue",
    "PoppedMessage",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "RawPull",
    "ReceivedMessage",
    "ReceivedReply",
    "Reply",
    "ReplyCounts",
    "RpcHook",
    "SendReceipt",
    "SendStatus",
    "SimpleConsumer",
    "Tls",
    "Transaction",
    "TransactionProducer",
    "TransactionReceipt",
    "TransactionState",
    "by_hash",
    "by_sql",
    "reply",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
