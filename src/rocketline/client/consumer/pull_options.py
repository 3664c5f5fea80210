"""What a pull consumer can be told beyond `ClientOptions`. Java: DefaultMQPullConsumer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocketline.client.consumer.pulls import FilterHook
from rocketline.client.options import ClientKeywords, ClientOptions, option


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions(ClientOptions):
    """The options of a pull consumer, with Java's defaults."""

    stream_requests: bool = True
    """Mark the client's id and all requests as a stream's. Java: enableStreamRequestType."""
    pull_timeout_s: float = option(10.0, above=0)
    """How long a pull may take that does not wait for messages. Java: consumerPullTimeoutMillis."""
    suspend_s: float = option(20.0, low=0)
    """How long a broker may hold back one that does. Java: brokerSuspendMaxTimeMillis."""
    suspend_timeout_s: float = option(30.0, above=0)
    """How long that one may take. Java: consumerTimeoutMillisWhenSuspend."""
    filter_hooks: tuple[FilterHook, ...] = ()
    """See, and may take out, what pulls bring. Java: FilterMessageHook."""

    def problems(self) -> Iterator[str]:
        yield from ClientOptions.problems(self)
        if self.suspend_timeout_s < self.suspend_s:
            yield f"suspend_timeout_s={self.suspend_timeout_s}: must be at least suspend_s, which is {self.suspend_s}"


class PullKeywords(ClientKeywords, total=False):
    """`PullOptions` as keywords of a constructor."""

    pull_timeout_s: float
    suspend_s: float
    suspend_timeout_s: float
    filter_hooks: tuple[FilterHook, ...]
