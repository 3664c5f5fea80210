"""Gaps in a table, explained by the broker: left out on purpose by the source's filter, lost, or gone."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from rocketline.client.pulling import PullStatus
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.definition import Source
from rocketline.pipelines.spans import Span, common, joined, spans_of, without
from rocketline.pipelines.verification import QueueFindings
from rocketline.spark.options import source_options
from rocketline.sync.pull_consumer import PullConsumer

_COUNT: Final = 1000


class BrokerAnswers:
    """Asks the brokers of one source, with its filter. Use it as `with`."""

    def __init__(self, source: Source) -> None:
        options = source_options(source.options, is_stream=True)
        self._selector = options.selector
        self._consumer = PullConsumer(
            options.client.name_servers.split(";"), group=options.group, **options.client.keywords()
        )

    def __enter__(self) -> Self:
        self._consumer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def explained(self, findings: QueueFindings) -> QueueFindings:
        """The same with each gap where it belongs: lost (still a gap), filtered on purpose, or unknown."""
        if not findings.gaps:
            return findings
        queue = findings.queue
        kept = [Span(self._consumer.min_offset(queue), self._consumer.max_offset(queue))]
        known, unknown = common(findings.gaps, kept), without(findings.gaps, kept)
        # A filter makes as many gaps as it lets messages through: asking for each by itself would take for ever.
        lost = common(known, [span for near in joined(known, _COUNT) for span in self._wanted(queue, near)])
        return replace(findings, gaps=tuple(lost), filtered=tuple(without(known, lost)), unknown=tuple(unknown))

    def _wanted(self, queue: MessageQueue, span: Span) -> list[Span]:
        """Where in a span the broker has messages that the source wants."""
        found: list[int] = []
        at = span.start
        while at < span.end:
            result = self._consumer.pull(queue, at, _COUNT, self._selector)
            found += [message.queue_offset for message in result.messages if message.queue_offset < span.end]
            if result.status is PullStatus.NO_NEW_MESSAGE or result.next_offset <= at:
                break
            at = result.next_offset
        return spans_of(found)
