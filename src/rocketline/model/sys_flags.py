"""The bits of three numbers called sysFlag: of a message, of a pull request, of a topic.

They are plain integers, because one is tested for every message.
"""

from __future__ import annotations

from enum import IntEnum

from rocketline.errors import RemoteProtocolError

# --- of a message. Java: MessageSysFlag
COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
TRANSACTION_MASK = 0xC
BORN_HOST_IS_IPV6 = 0x10
STORE_HOST_IS_IPV6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE_MASK = 0x700

# --- of a pull request. Java: PullSysFlag
PULL_COMMIT_OFFSET = 0x1
"""The request's commitOffset is to be kept for the group."""
PULL_SUSPEND = 0x2
"""The request may wait at the end of the queue."""
PULL_SUBSCRIPTION = 0x4
"""The request's own subscription counts, not that of the heartbeat."""
PULL_CLASS_FILTER = 0x8
PULL_LITE = 0x10

# --- of a topic. Java: TopicSysFlag
TOPIC_UNIT = 0x1
TOPIC_UNIT_SUB = 0x2


class CompressionType(IntEnum):
    """How a body is compressed; the number stands in bits 8 to 10 of a message's flags."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The bits of a message whose body is compressed in this way."""
        return COMPRESSED | self << 8


def compression_type(sys_flag: int) -> CompressionType:
    """The type that a compressed message's flags name. Raises `RemoteProtocolError` for one that does not exist.

    Zero is zlib: clients older than the type bits, and the Go client today, write no type.
    """
    number = (sys_flag & COMPRESSION_TYPE_MASK) >> 8
    if number > CompressionType.ZLIB:
        raise RemoteProtocolError(f"compression type {number} in sysFlag {sys_flag:#x}: 1 to 3 are known")
    return CompressionType(number or CompressionType.ZLIB)


def is_compressed(sys_flag: int) -> bool:
    return bool(sys_flag & COMPRESSED)


def is_inner_batch(sys_flag: int) -> bool:
    """The body holds several messages, stored as one, that a consumer takes apart."""
    return sys_flag & (NEED_UNWRAP | INNER_BATCH) == NEED_UNWRAP | INNER_BATCH


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """`sys_flag` with its transaction type replaced by `transaction`. Java: resetTransactionValue."""
    return sys_flag & ~TRANSACTION_MASK | transaction
