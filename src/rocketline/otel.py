"""OpenTelemetry: spans and metrics of the clients, and the context of a trace in the messages' properties.

It is hooks that clients are given, and needs the extra `otel`; nothing else imports it. Names and attributes are those
of OpenTelemetry's conventions for messaging.

| span | kind | one for | its parent | its links |
|---|---|---|---|---|
| `create T` | PRODUCER | each message that is sent | the caller's span | |
| `send T` | CLIENT | each attempt | the caller's span | the messages, one each |
| `receive T` | CLIENT | each pull that brought messages | the caller's span | the messages, one each |
| `process T` | CONSUMER | a handler call, a worker's block | the message, if it is one | the messages, one each |

A message carries the context of its `create`. One that has a context already, as the application's, keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from rocketline.client.consumer.hooks import ConsumeHookContext
from rocketline.client.consumer.pulls import FilterContext
from rocketline.client.producer.hooks import SendContext
from rocketline.errors import MissingExtraError
from rocketline.model.message import Message

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ModuleNotFoundError:
    raise MissingExtraError("OpenTelemetry", "opentelemetry-api", "otel") from None

_SYSTEM: Final = {"messaging.system": "rocketmq"}
_SCOPE: Final = "rocketline"


class _HasProperties(Protocol):
    @property
    def properties(self) -> Mapping[str, str]: ...


class _Begun(NamedTuple):
    """A span that is under way."""

    span: Span
    started_s: float
    token: Any = None
    """By which the context of before comes back."""


class Telemetry:
    """The hooks, for any number of clients: `Producer(…, **telemetry.for_producer)`, `PushConsumer(…,
    **telemetry.for_consumer)`, `SimpleConsumer` alike, and for consumers that are asked `**telemetry.for_pulls`.

    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    >>> from rocketline import Producer
    >>> from rocketline.testing import Server
    >>> spans, provider = InMemorySpanExporter(), TracerProvider()
    >>> provider.add_span_processor(SimpleSpanProcessor(spans))
    >>> telemetry = Telemetry(tracer_provider=provider)
    >>> with Server() as server, Producer(server.address, group="shop", **telemetry.for_producer) as producer:
    ...     _ = producer.send(Message("orders", b"42"))
    >>> [span.name for span in spans.get_finished_spans()]
    ['create orders', 'send orders']
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        """What is not given is that of the process, which `opentelemetry.trace.set_tracer_provider` and its likes set;
        and the W3C's way to write a context, unless OTEL_PROPAGATORS says otherwise."""
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._propagator = propagator or propagate.get_global_textmap()
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._durations = meter.create_histogram("messaging.client.operation.duration", "s", "Attempts to send.")
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages in attempts to send."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that pulls brought."
        )
        self._processed = meter.create_histogram("messaging.process.duration", "s", "Calls of handlers.")
        self._sends: dict[int, _Begun] = {}

    @property
    def for_producer(self) -> dict[str, Any]:
        """Keywords of a `Producer` or a `TransactionProducer`."""
        return {"message_hooks": (self,), "send_hooks": (self,)}

    @property
    def for_consumer(self) -> dict[str, Any]:
        """Keywords of a `PushConsumer` or a `SimpleConsumer`."""
        return {"consume_hooks": (self,), "filter_hooks": (self,)}

    @property
    def for_pulls(self) -> dict[str, Any]:
        """Keywords of a `LitePullConsumer` or a `PullConsumer`, or of a `SimpleConsumer` that has no blocks. What is
        done with a message is the application's to tell: `context_of` is its context."""
        return {"filter_hooks": (self,)}

    def context_of(self, message: _HasProperties) -> Context:
        """The context that a message carries, for a span about it; an empty one if it has none that can be read."""
        return self._propagator.extract(dict(message.properties), Context())

    # --- sending

    def prepare_message(self, message: Message) -> Message:
        """A copy that carries the context of its `create`."""
        if not self._propagator.fields.isdisjoint(message.properties):
            return message
        attributes = _attributes("create", message.topic)
        span = self._tracer.start_span(f"create {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carried: dict[str, str] = {}
        self._propagator.inject(carried, trace.set_span_in_context(span))
        span.end()
        return Message.of(message.topic, message.body, {**message.properties, **carried}, message.flag)

    def before_send(self, context: SendContext) -> None:
        topic, messages = context.messages[0].topic, context.messages
        host, _, port = context.address.rpartition(":")
        attributes = _attributes("send", topic, len(messages)) | {
            "messaging.client.id": context.client_id,
            "messaging.destination.partition.id": str(context.queue.queue_id),
            "server.address": host.strip("[]"),
            "server.port": int(port),
        }
        if context.namespace:
            attributes["messaging.rocketmq.namespace"] = context.namespace
        span = self._tracer.start_span(
            f"send {topic}", kind=SpanKind.CLIENT, attributes=attributes, links=self._links(messages)
        )
        self._sends[id(context)] = _Begun(span, time.perf_counter())

    def after_send(self, context: SendContext) -> None:
        begun = self._sends.pop(id(context), None)
        if begun is None:
            return
        error, receipt = context.error, context.receipt
        told = _attributes("send", context.messages[0].topic)
        if receipt is not None:
            begun.span.set_attribute("messaging.message.id", receipt.message_id)
            begun.span.set_attribute("messaging.rocketmq.send_status", receipt.status.name)
        if error is not None:
            told["error.type"] = type(error).__qualname__
            _fail(begun.span, type(error).__qualname__, str(error))
        begun.span.end()
        self._durations.record(time.perf_counter() - begun.started_s, told)
        self._sent.add(len(context.messages), told)

    # --- receiving

    def filter_messages(self, context: FilterContext) -> None:
        """A pull has brought these."""
        if not context.messages:
            return
        topic = context.queue.topic
        attributes = _attributes("receive", topic, len(context.messages), context.group) | {
            "messaging.destination.partition.id": str(context.queue.queue_id)
        }
        self._tracer.start_span(
            f"receive {topic}", kind=SpanKind.CLIENT, attributes=attributes, links=self._links(context.messages)
        ).end()
        self._consumed.add(len(context.messages), _attributes("receive", topic, group=context.group))

    def before_consume(self, context: ConsumeHookContext) -> None:
        """The handler runs in the span."""
        topic, messages = context.messages[0].topic, context.messages
        attributes = _attributes("process", topic, len(messages), context.group)
        if len(messages) == 1:
            attributes["messaging.message.id"] = messages[0].message_id
        parent = self.context_of(messages[0]) if len(messages) == 1 else Context()
        span = self._tracer.start_span(
            f"process {topic}", parent, SpanKind.CONSUMER, attributes, links=self._links(messages)
        )
        token = contexts.attach(trace.set_span_in_context(span, parent))
        context.carried[self] = _Begun(span, time.perf_counter(), token)

    def after_consume(self, context: ConsumeHookContext) -> None:
        begun = context.carried.pop(self, None)
        if not isinstance(begun, _Begun):
            return
        contexts.detach(begun.token)
        told = _attributes("process", context.messages[0].topic, group=context.group)
        if not context.is_success:
            told["error.type"] = context.return_type
            _fail(begun.span, context.return_type, f"the handler came to {context.status}")
        begun.span.end()
        self._processed.record(time.perf_counter() - begun.started_s, told)

    def _links(self, messages: Iterable[_HasProperties]) -> Sequence[Link]:
        """One for each message that carries a context."""
        found = (trace.get_current_span(self.context_of(message)).get_span_context() for message in messages)
        return [Link(each) for each in found if each.is_valid]


def _attributes(operation: str, topic: str, count: int = 1, group: str = "") -> dict[str, Any]:
    attributes: dict[str, Any] = {
        **_SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }
    if count > 1:
        attributes["messaging.batch.message_count"] = count
    if group:
        attributes["messaging.consumer.group.name"] = group
    return attributes


def _fail(span: Span, kind: str, told: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, told))
