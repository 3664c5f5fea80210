"""The asyncio clients: the same names as in `rocketline`, with `async with`, `await` and `async for`."""

from rocketline.admin.aio import Admin as Admin
from rocketline.client.aio.lite_pull_consumer import LitePullConsumer as LitePullConsumer
from rocketline.client.aio.producer import Producer as Producer
from rocketline.client.aio.pull_consumer import PullConsumer as PullConsumer
from rocketline.client.aio.push_consumer import PushConsumer as PushConsumer
from rocketline.client.consumer.pulls import PullResult as PullResult
from rocketline.client.consumer.pulls import PullStatus as PullStatus
from rocketline.client.consumer.pulls import RawPull as RawPull
from rocketline.client.consumer.subscriptions import by_sql as by_sql
from rocketline.client.options import Credentials as Credentials
from rocketline.client.options import RpcHook as RpcHook
from rocketline.client.options import Tls as Tls
from rocketline.client.producer.queue_choice import by_hash as by_hash
from rocketline.client.producer.receipts import SendReceipt as SendReceipt
from rocketline.client.producer.receipts import SendStatus as SendStatus
from rocketline.client.push.consume_result import ConsumeContext as ConsumeContext
from rocketline.client.push.consume_result import ConsumeResult as ConsumeResult
from rocketline.client.received_message import ReceivedMessage as ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime as ClientRuntime
from rocketline.model.message import Message as Message
from rocketline.model.queue import MessageQueue as MessageQueue
from rocketline.model.subscription import ConsumeFromWhere as ConsumeFromWhere
from rocketline.model.subscription import MessageModel as MessageModel
from rocketline.model.sys_flags import CompressionType as CompressionType
