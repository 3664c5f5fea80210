"""The options that push and lite pull consumers share, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rocketline.client.consumer.local_offsets import LocalFileOffsets, offset_path
from rocketline.client.consumer.offset_store import (
    BlockingOffsetKeeper,
    BrokerOffsets,
    OffsetKeeper,
    OffsetStore,
    keeper_on_loop,
)
from rocketline.client.options import ClientKeywords, ClientOptions
from rocketline.client.rebalance.allocation import AllocationStrategy, Averagely
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, MessageModel

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_HALF_AN_HOUR_MS = 30 * 60 * 1000

QueueListener: TypeAlias = Callable[[str, Collection[MessageQueue], Collection[MessageQueue]], object]
"""Called with a topic, all its queues, and those that are this consumer's now. Java: MessageQueueListener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """What consumers that rebalance can be told. Java: DefaultMQPushConsumer, DefaultLitePullConsumer."""

    message_model: MessageModel = MessageModel.CLUSTERING
    """CLUSTERING: members of a group share the messages. BROADCASTING: each gets all of them. Java: messageModel."""
    consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where a group begins that has read nothing yet. On a young topic brokers let it begin at the first message,
    whatever stands here. Java: consumeFromWhere."""
    consume_timestamp_ms: int | None = None
    """For CONSUME_FROM_TIMESTAMP: milliseconds since 1970; None: half an hour ago. Java: consumeTimestamp."""
    allocation: AllocationStrategy = field(default_factory=Averagely)
    """How members share queues: the same for all of a group. Java: allocateMessageQueueStrategy."""
    offset_keeper: OffsetKeeper | BlockingOffsetKeeper | None = None
    """Who keeps offsets, in place of brokers or, in broadcasting, of a file. Java: offsetStore."""
    offset_folder: Path | None = None
    """Where broadcasting consumers have their files; None: `.rocketmq_offsets` in the home of the user.
    Java: rocketmq.client.localOffsetStoreDir."""

    @property
    def is_name_stable(self) -> bool:
        """A broadcasting consumer finds its offsets again by its name, which must not change with every start."""
        return self.message_model is MessageModel.BROADCASTING

    def problems(self) -> Iterator[str]:
        yield from ClientOptions.problems(self)
        if self.message_model is MessageModel.LITE_SELECTIVE:
            yield "message_model: CLUSTERING or BROADCASTING is wanted"
        if self.consume_timestamp_ms is not None and self.consume_timestamp_ms < 0:
            yield f"consume_timestamp_ms={self.consume_timestamp_ms}: milliseconds since 1970 are wanted"


class ConsumerKeywords(ClientKeywords, total=False):
    """`ConsumerOptions` as keywords of a constructor."""

    message_model: MessageModel
    consume_from: ConsumeFromWhere
    consume_timestamp_ms: int | None
    allocation: AllocationStrategy
    offset_keeper: OffsetKeeper | BlockingOffsetKeeper | None
    offset_folder: Path | None


def start_timestamp_ms(options: ConsumerOptions, clock: Clock) -> int:
    """The time to begin at: the one given, or half an hour before now."""
    given_ms = options.consume_timestamp_ms
    return clock.wall_ms() - _HALF_AN_HOUR_MS if given_ms is None else given_ms


def make_offset_store(options: ConsumerOptions, runtime: ClientRuntime, group: str) -> OffsetStore:
    """The store that the options ask for: the application's, a local file for broadcasting, or else the brokers."""
    if options.offset_keeper is not None:
        return OffsetStore(keeper_on_loop(options.offset_keeper))
    if options.message_model is MessageModel.BROADCASTING:
        path = offset_path(runtime.client_id, group, options.offset_folder)
        return OffsetStore(keeper_on_loop(LocalFileOffsets(path)))
    brokers = BrokerOffsets(runtime, group)
    return OffsetStore(brokers, save_last=brokers.save_last)
