"""What a simple consumer can be told beyond `ClientOptions`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketline.client.consumer.hooks import ConsumeHook
from rocketline.client.consumer.pulls import FilterHook
from rocketline.client.options import ClientKeywords, ClientOptions, option
from rocketline.model.subscription import ConsumeFromWhere

INVISIBLE_MIN_S: Final = 1.0
INVISIBLE_MAX_S: Final = 12 * 3600.0
"""The bound of Apache's proxy. A broker can do three days."""
_STARTS: Final = (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleOptions(ClientOptions):
    """The options of a simple consumer."""

    consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where a group begins that has read nothing yet: at the end, or with CONSUME_FROM_FIRST_OFFSET at the first
    message. On a young topic brokers let it begin at the first message, whatever stands here."""
    invisible_s: float = option(60.0, low=INVISIBLE_MIN_S, high=INVISIBLE_MAX_S)
    """How long nobody else is given a message that was received, unless `receive` says otherwise. Java:
    invisibleDuration."""
    wait_s: float = option(15.0, low=0)
    """How long `receive` waits for a message, unless it is told. Java: awaitDuration."""
    max_attempts: int = option(16, low=1)
    """How often a message is handed out. Then it goes to the dead letters. Java: maxAttempts."""
    extend_max_s: float = option(INVISIBLE_MAX_S, low=0)
    """How long a `with` block keeps its message from others. Whoever works for longer must expect that it comes
    again."""
    close_wait_s: float = option(10.0, low=0)
    """How long `close` waits for `with` blocks of other threads or tasks."""
    consume_hooks: tuple[ConsumeHook, ...] = ()
    """See each message whose `with` block begins, and what came of it, in the thread or task of the block."""
    filter_hooks: tuple[FilterHook, ...] = ()
    """See, and may take out, what comes: what they take out counts as done with. Java: FilterMessageHook."""

    def problems(self) -> Iterator[str]:
        yield from ClientOptions.problems(self)
        if self.consume_from not in _STARTS:
            yield f"consume_from={self.consume_from.name}: a group that pops begins at the first message or at the end"


class SimpleKeywords(ClientKeywords, total=False):
    """`SimpleOptions` as keywords of a constructor."""

    consume_from: ConsumeFromWhere
    invisible_s: float
    wait_s: float
    max_attempts: int
    extend_max_s: float
    close_wait_s: float
    consume_hooks: tuple[ConsumeHook, ...]
    filter_hooks: tuple[FilterHook, ...]
