"""OpenTelemetry on our clients, with its own exporter in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rocketline import (
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
    aio,
)
from rocketline.errors import RocketlineError
from rocketline.otel import Telemetry
from rocketline.testing import Server
from support.clients.clusters import wait_until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Observed:
    """Telemetry whose spans and metrics stay here."""

    def __init__(self) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = Telemetry(
            tracer_provider=self.tracers, meter_provider=MeterProvider(metric_readers=[self._metrics])
        )

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name.startswith(name)]

    def metrics(self) -> dict[str, list[tuple[float, dict[str, Any]]]]:
        """By name: values, of histograms their counts, with attributes."""
        found: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        data = self._metrics.get_metrics_data()
        assert data is not None
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points:
                value = point.count if hasattr(point, "count") else getattr(point, "value", 0)
                found.setdefault(metric.name, []).append((value, dict(point.attributes or {})))
        return found


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        server.create_topic("orders", queues=1)
        server.create_group("billing")
        yield server


def place(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def consume(
    server: Server, observed: Observed, handle: Callable[[Any], object], count: int = 1, **options: Any
) -> list[Any]:
    """What the handler was given, once that was so many calls."""
    calls: list[Any] = []

    def noting(given: Any) -> Any:
        try:
            return handle(given)
        finally:
            calls.append(given)

    with PushConsumer(server.address, group="billing", **observed.telemetry.for_consumer, **options) as consumer:
        consumer.subscribe("orders", "*", noting)
        wait_until(lambda: len(calls) >= count)
    return calls


def send(server: Server, observed: Observed, *messages: Message | Sequence[Message]) -> None:
    with Producer(server.address, group="shop", **observed.telemetry.for_producer) as producer:
        for message in messages:
            producer.send(message)


def test_message_is_followed_from_the_callers_span_into_the_handler(server: Server, observed: Observed) -> None:
    inside = []

    def handle(message: ReceivedMessage) -> None:
        inside.append(trace.get_current_span().get_span_context())

    given = Message("orders", b"42", keys=["k"])
    with observed.tracers.get_tracer("test").start_as_current_span("checkout") as checkout:
        send(server, observed, given)
    (message,) = consume(server, observed, handle)
    (create,), (sent,) = observed.spans("create orders"), observed.spans("send orders")
    (receive,), (process,) = observed.spans("receive orders"), observed.spans("process orders")
    assert [span.kind for span in (create, sent, receive, process)] == [
        SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CLIENT, SpanKind.CONSUMER,
    ]  # fmt: skip
    own = checkout.get_span_context()
    assert [span.parent and span.parent.span_id for span in (create, sent)] == [own.span_id] * 2
    assert process.parent is not None
    assert (process.parent.trace_id, process.parent.span_id) == place(create)
    assert linked(sent) == linked(receive) == linked(process) == [place(create)]
    assert [(each.trace_id, each.span_id) for each in inside] == [place(process)]
    assert not trace.get_current_span().get_span_context().is_valid
    assert message.properties["traceparent"].startswith(f"00-{place(create)[0]:032x}-{place(create)[1]:016x}-")
    assert "traceparent" not in given.properties
    attributes = dict(sent.attributes or {})
    assert attributes["messaging.system"] == "rocketmq"
    assert attributes["messaging.message.id"] == message.message_id
    assert attributes["messaging.destination.name"] == "orders"
    assert f"{attributes['server.address']}:{attributes['server.port']}" == server.broker_addresses[0]
    assert (process.attributes or {})["messaging.consumer.group.name"] == "billing"


@pytest.mark.parametrize("is_blocking", [True, False], ids=["blocking", "asyncio"])
def test_block_of_a_worker_is_a_span_in_the_trace_of_its_message(
    server: Server, observed: Observed, is_blocking: bool
) -> None:
    """The second of two raises."""
    send(server, observed, Message("orders", b"1"), Message("orders", b"2"))
    inside = []

    def work(message: ReceivedMessage) -> None:
        inside.append(trace.get_current_span().get_span_context())
        if message.body == b"2":
            raise ValueError(message.body)

    def work_blocking() -> None:
        with SimpleConsumer(server.address, group="workers", **observed.telemetry.for_consumer) as worker:
            worker.subscribe("orders")
            for _ in range(2):
                with suppress(ValueError), next(worker) as message:
                    work(message)

    async def work_async() -> None:
        async with aio.SimpleConsumer(server.address, group="workers", **observed.telemetry.for_consumer) as worker:
            worker.subscribe("orders")
            for _ in range(2):
                with suppress(ValueError):
                    async with await anext(worker) as message:
                        work(message)

    if is_blocking:
        work_blocking()
    else:
        asyncio.run(work_async())
    created, processed = observed.spans("create"), observed.spans("process orders")
    assert [place(span) for span in processed] == [(each.trace_id, each.span_id) for each in inside]
    assert [linked(span) for span in processed] == [[place(span)] for span in created]
    assert [span.parent and span.parent.span_id for span in processed] == [place(span)[1] for span in created]
    assert [span.status.status_code for span in processed] == [StatusCode.UNSET, StatusCode.ERROR]
    assert [(span.attributes or {}).get("error.type") for span in processed] == [None, "EXCEPTION"]
    assert len(observed.spans("receive orders")) == 2
    assert not trace.get_current_span().get_span_context().is_valid
    counts = {told.get("error.type"): count for count, told in observed.metrics()["messaging.process.duration"]}
    assert counts == {None: 1, "EXCEPTION": 1}


def test_batches_have_one_link_for_each_message(server: Server, observed: Observed) -> None:
    send(server, observed, [Message("orders", b"1"), Message("orders", b"2"), Message("orders", b"3")])
    consume(server, observed, lambda messages: None, consume_batch_max=8)
    created = [place(span) for span in observed.spans("create")]
    assert len(set(created)) == 3
    (sent,), (receive,), (process,) = (observed.spans(name) for name in ("send", "receive", "process"))
    assert linked(sent) == linked(receive) == linked(process) == created
    assert process.parent is None
    assert (sent.attributes or {})["messaging.batch.message_count"] == 3


def test_failures_are_told(server: Server, observed: Observed) -> None:
    def handle(message: ReceivedMessage) -> None:
        raise ValueError("no")

    send(server, observed, Message("orders", b"1"))
    consume(server, observed, handle)
    (process,) = observed.spans("process")
    assert process.status.status_code is StatusCode.ERROR
    assert (process.attributes or {})["error.type"] == "EXCEPTION"
    assert not trace.get_current_span().get_span_context().is_valid
    with Producer(server.address, group="late", retries=0, **observed.telemetry.for_producer) as producer:
        producer.send(Message("orders", b"2"))
        server.close()
        with pytest.raises(RocketlineError):
            producer.send(Message("orders", b"3"))
    failed = observed.spans("send")[-1]
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] in {"ConnectError", "ConnectionLostError"}


def test_malformed_context_is_none(server: Server, observed: Observed) -> None:
    wrong = ["00", "nonsense", PARENT[:-1], f"{PARENT}-more", PARENT.replace("0af7", "zzzz"), f"ff{PARENT[2:]}"]
    wrong += [f"00-{'0' * 32}-{'0' * 16}-01", "ü" * 300]
    with Producer(server.address, group="shop") as producer:
        for header in wrong:
            properties = {"traceparent": header, "tracestate": "=,="}
            producer.send(Message("orders", header.encode(), properties=properties))
        producer.send(Message("orders", b"none at all"))
    messages = consume(server, observed, lambda message: None, count=len(wrong) + 1)
    assert sorted(message.body.decode() for message in messages) == sorted([*wrong, "none at all"])
    for process in observed.spans("process"):
        assert (process.parent, linked(process), process.status.is_ok) == (None, [], True)


def test_context_that_the_application_has_set_stays(server: Server, observed: Observed) -> None:
    send(server, observed, Message("orders", b"1", properties={"traceparent": PARENT}))
    (message,) = consume(server, observed, lambda message: None)
    assert observed.spans("create") == []
    (sent,), (process,) = observed.spans("send"), observed.spans("process")
    there = int(PARENT[3:35], 16), int(PARENT[36:52], 16)
    assert linked(sent) == linked(process) == [there]
    assert message.properties["traceparent"] == PARENT
    found = trace.get_current_span(observed.telemetry.context_of(message)).get_span_context()
    assert (found.trace_id, found.span_id) == there


async def test_asyncio_clients_are_followed_too(server: Server, observed: Observed) -> None:
    inside = []

    async def handle(message: ReceivedMessage) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)
        if len(inside) == 3:
            consumed.set()

    consumed = asyncio.Event()
    for_producer, for_consumer = observed.telemetry.for_producer, observed.telemetry.for_consumer
    with observed.tracers.get_tracer("test").start_as_current_span("checkout") as checkout:
        async with aio.Producer(server.address, group="shop", **for_producer) as producer:
            await producer.send(Message("orders", b"1"))
            await producer.send_soon(Message("orders", b"2"))
            await producer.send_oneway(Message("orders", b"3"))
    async with aio.PushConsumer(server.address, group="billing", **for_consumer) as consumer:
        consumer.subscribe("orders", "*", handle)
        await asyncio.wait_for(consumed.wait(), 20)
    assert len(observed.spans("create")) == len(observed.spans("send")) == 3
    parents = {span.parent.span_id for span in observed.spans("send") if span.parent is not None}
    assert parents == {checkout.get_span_context().span_id}
    assert sorted(inside) == sorted(place(span)[1] for span in observed.spans("process"))


def test_transactions_and_messages_that_gather_carry_a_context(server: Server, observed: Observed) -> None:
    options, state = observed.telemetry.for_producer, TransactionState.COMMIT
    with (
        TransactionProducer(server.address, group="tx", check=lambda _: state, **options) as producer,
        producer.transaction(Message("orders", b"half")),
    ):
        pass
    with Producer(server.address, group="shop", auto_batch=True, **options) as gathering:
        for sent in [gathering.send_soon(Message("orders", b"x")) for _ in range(3)]:
            assert sent.result().is_ok
    messages = consume(server, observed, lambda message: None, count=4)
    created = {f"{place(span)[1]:016x}" for span in observed.spans("create")}
    assert {message.properties["traceparent"][36:52] for message in messages} == created
    assert len(created) == 4


def test_pulls_are_told(server: Server, observed: Observed) -> None:
    send(server, observed, [Message("orders", b"1"), Message("orders", b"2")])
    created = [place(span) for span in observed.spans("create")]
    with PullConsumer(server.address, group="copy", **observed.telemetry.for_pulls) as consumer:
        (queue,) = consumer.queues("orders")
        assert len(consumer.pull(queue, 0).messages) == 2
        assert consumer.pull(queue, 2).messages == []
    with LitePullConsumer(server.address, group="audit", **observed.telemetry.for_pulls) as lite:
        lite.subscribe("orders")
        assert next(iter(lite)).body == b"1"
    for span in observed.spans("receive orders"):
        assert linked(span) == created
    assert len(observed.spans("receive")) == 2


def test_metrics_count_what_clients_do(server: Server, observed: Observed) -> None:
    send(server, observed, Message("orders", b"1"), [Message("orders", b"2"), Message("orders", b"3")])
    consume(server, observed, lambda message: None, count=3)
    found = observed.metrics()
    assert sum(value for value, _ in found["messaging.client.sent.messages"]) == 3
    assert sum(value for value, _ in found["messaging.client.operation.duration"]) == 2
    assert sum(value for value, _ in found["messaging.client.consumed.messages"]) == 3
    assert sum(value for value, _ in found["messaging.process.duration"]) == 3
    for name in found:
        assert {attributes["messaging.destination.name"] for _, attributes in found[name]} == {"orders"}


def test_nothing_is_left_of_many_threads_that_send(server: Server, observed: Observed) -> None:
    with Producer(server.address, group="shop", **observed.telemetry.for_producer) as producer:
        threads = [threading.Thread(target=producer.send, args=(Message("orders", b"1"),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(observed.spans("send")) == 8
    assert observed.telemetry._sends == {}


def _python(*lines: str) -> str:
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_nobody_who_does_not_ask_for_it_imports_it() -> None:
    shown = _python(
        "import sys, rocketline, rocketline.aio, rocketline.cli",
        "rocketline.Producer, rocketline.PushConsumer, rocketline.Admin",
        "print([name for name in sys.modules if name.startswith('opentelemetry')])",
    )
    assert shown == "[]"


def test_without_the_package_the_extra_is_named() -> None:
    shown = _python(
        "import sys",
        "sys.modules['opentelemetry'] = None",
        "from rocketline.errors import MissingExtraError",
        "try:",
        "    import rocketline.otel",
        "except MissingExtraError as error:",
        "    print(error)",
    )
    assert shown == (
        "OpenTelemetry needs the package opentelemetry-api. Install it with: pip install 'rocketline[otel]'"
    )
