"""Gaps in a table, explained by the broker: left out on purpose by the source's filter, lost, gone, or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import Final, NamedTuple, Self

from rocketline.client.consumer.pulls import PullStatus
from rocketline.client.sync.pull_consumer import PullConsumer
from rocketline.errors import ResponseError, RouteError
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.definition import Source
from rocketline.pipelines.offset_spans import OffsetSpan, before, common, joined, spans_of, without
from rocketline.pipelines.proof.compare import QueueFindings
from rocketline.spark.options.source_and_sink import source_options
from rocketline.spark.pulling.executor_client import ExecutorClient
from rocketline.spark.queue_json import shown

_COUNT: Final = 1000

_log = Log(__name__)


class _Look(NamedTuple):
    """One answer of a broker: which offsets it looked at, and where among them the source wants messages."""

    span: OffsetSpan
    wanted: list[OffsetSpan]


class BrokerAnswers:
    """Asks the brokers of one source, with its filter. Use it as `with`."""

    def __init__(self, source: Source) -> None:
        self._options = options = source_options(source.options, is_stream=True)
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
        """The same with each gap where it belongs: lost (still a gap), filtered on purpose, gone or unknown."""
        if not findings.gaps:
            return findings
        queue = findings.queue
        try:
            low, high = self._consumer.min_offset(queue), self._consumer.max_offset(queue)
        except (RouteError, ResponseError) as error:
            _log.warning("no broker tells what is missing", queue=shown(queue), problem=error)
            return replace(findings, gaps=(), unknown=findings.gaps)
        gone = before(findings.gaps, low)
        known = common(findings.gaps, [OffsetSpan(low, high)])
        wanted: list[OffsetSpan] = []
        seen: list[OffsetSpan] = []
        # A filter makes as many gaps as it lets messages through: asking for each by itself would take for ever.
        for near in joined(known, _COUNT):
            for looked in self._looks(queue, near):
                wanted += looked.wanted
                seen.append(looked.span)
        lost = common(known, wanted)
        filtered = without(common(known, seen), lost)
        if filtered and not self._leaves_out(queue):
            filtered = []
        unknown = without(findings.gaps, [*gone, *lost, *filtered])
        return replace(findings, gaps=tuple(lost), filtered=tuple(filtered), gone=tuple(gone), unknown=tuple(unknown))

    def _leaves_out(self, queue: MessageQueue) -> bool:
        """Offsets without a message are meant to be: the source has a filter, or the topic is compacted.

        Otherwise each offset is a message, and who cannot show it does not have it any more.
        """
        options = self._options
        if options.is_filtered:
            return True
        topic = options.client.on_wire(queue.topic)
        with closing(ExecutorClient(options.client)) as links:
            node = links.node(MessageQueue(topic, queue.broker_name, queue.queue_id), options.route_ttl_s)
            return links.is_compacted(topic, node, options.pull_timeout_s)

    def _looks(self, queue: MessageQueue, span: OffsetSpan) -> Iterator[_Look]:
        """What the broker shows of a span, from its start to where it shows no more."""
        at = span.start
        while at < span.end:
            result = self._consumer.pull(queue, at, _COUNT, self._options.selector)
            if result.status is PullStatus.NO_NEW_MESSAGE or result.next_offset <= at:
                break
            if result.status is not PullStatus.OFFSET_ILLEGAL:  # that one jumps over what is not there any more
                wanted = spans_of(message.queue_offset for message in result.messages)
                yield _Look(OffsetSpan(max(at, result.min_offset), result.next_offset), wanted)
            at = result.next_offset
