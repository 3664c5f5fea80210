"""Settings of Apache's broker that ours has no use for: those of `unused.toml`, and thread pools."""

# ruff: noqa: N815  # In Apache's spelling, as these are read from Apache's files and by nobody else.

from __future__ import annotations

from pathlib import Path

from rocketline.settings.unused import threads, unused


@unused(Path(__file__).with_name("unused.toml"))
class UnusedBrokerSettings:
    """Java: BrokerConfig, NettyClientConfig, AuthConfig."""

    # Read all the same: administrators are told how long these queues may be.
    litePullThreadPoolQueueCapacity: int
    ackThreadPoolQueueCapacity: int
    queryThreadPoolQueueCapacity: int
    endTransactionPoolQueueCapacity: int

    sendMessageThreadPoolNums: int = threads("sendMessageThreadPoolNums", lambda cores: min(cores, 4), "min(cores, 4)")
    putMessageFutureThreadPoolNums: int = threads(
        "putMessageFutureThreadPoolNums", lambda cores: min(cores, 4), "min(cores, 4)"
    )
    pullMessageThreadPoolNums: int = threads(
        "pullMessageThreadPoolNums", lambda cores: 16 + cores * 2, "16 + cores * 2"
    )
    litePullMessageThreadPoolNums: int = threads(
        "litePullMessageThreadPoolNums", lambda cores: 16 + cores * 2, "16 + cores * 2"
    )
    processReplyMessageThreadPoolNums: int = threads(
        "processReplyMessageThreadPoolNums", lambda cores: 16 + cores * 2, "16 + cores * 2"
    )
    queryMessageThreadPoolNums: int = threads("queryMessageThreadPoolNums", lambda cores: 8 + cores, "8 + cores")
    heartbeatThreadPoolNums: int = threads("heartbeatThreadPoolNums", lambda cores: min(cores, 32), "min(cores, 32)")
    endTransactionThreadPoolNums: int = threads(
        "endTransactionThreadPoolNums",
        lambda cores: max(8 + cores * 2, min(cores, 4) * 4),
        "max(8 + cores * 2, min(cores, 4) * 4)",
    )
