"""The load generator must notice whatever a server does not do: a wrong answer, quickly given, is not fast."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks import loadgen
from benchmarks.loadgen import LoadError, LoadResult, Refusal, Shape, Span, Target

from rocketline.wire import frame
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.pop import BatchAckMessageRequestBody, bits_of
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command, response
from rocketline.wire.properties import parse_properties

pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler")

Answer = Callable[[Command], list[Command]]

_SHAPE, _SPAN = Shape(2, 4), Span(0, 0.1)
_MAGIC = 0xDAA320A7


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loadgen.build(tmp_path_factory.mktemp("loadgen"))


@contextlib.contextmanager
def _server(answer: Answer) -> Iterator[Target]:
    """A server of one thread per connection that answers as told."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=_serve, args=(listener, answer)) for _ in range(_SHAPE.connections)]
        for thread in threads:
            thread.start()
        yield Target(listener.getsockname()[1], os.getpid())
    for thread in threads:
        thread.join()


def _serve(listener: socket.socket, answer: Answer) -> None:
    connection, _ = listener.accept()
    reader = frame.FrameReader()
    with connection, contextlib.suppress(ConnectionError):
        while data := connection.recv(65_536):
            reader.feed(data)
            while (request := reader.take()) is not None:
                asked = frame.decode(request)
                for reply in answer(asked):
                    reply.opaque = asked.opaque
                    connection.sendall(frame.encode(reply))


def _send(program: Path, answer: Answer) -> LoadResult:
    with _server(answer) as target:
        return loadgen.send_messages(program, target, _SHAPE, _SPAN, topic="T", queues=3, body=50)


def _pull(program: Path, answer: Callable[[int, int], bytes]) -> LoadResult:
    def reply(request: Command) -> list[Command]:
        return [response(0, body=answer(int(request.ext["queueId"]), int(request.ext["queueOffset"])))]

    with _server(reply) as target:
        return loadgen.pull_messages(program, target, _SHAPE, _SPAN, topic="T", queues=3, depth=10, batch=4)


def _pop(program: Path, answer: Answer, *, is_batch_ack: bool = False) -> LoadResult:
    with _server(answer) as target:
        return loadgen.pop_messages(
            program, target, _SHAPE, _SPAN, topic="T", broker="b", batch=32, is_batch_ack=is_batch_ack
        )


def _popped(*offsets: int, queue_id: int = 2, told: str | None = None) -> Command:
    """The answer to a pop that brings messages of one queue."""
    ext = {
        "popTime": "1700000000000",
        "invisibleTime": "60000",
        "reviveQid": "3",
        "startOffsetInfo": f"0 {queue_id} {offsets[0]}",
        "msgOffsetInfo": f"0 {queue_id} {','.join(map(str, offsets))}" if told is None else told,
    }
    return response(0, ext=ext, body=b"".join(_record(queue_id, offset) for offset in offsets))


def _record(queue_id: int, queue_offset: int, *, magic: int = _MAGIC) -> bytes:
    return struct.pack(">IIIIIQ", 100, magic, 0, queue_id, 0, queue_offset) + bytes(72)


def _stored(_request: Command) -> list[Command]:
    return [response(0, ext={"msgId": "x", "queueId": "0", "queueOffset": "1"})]


def test_every_message_that_is_sent_has_its_own_id_and_key_and_goes_to_the_next_queue(program: Path) -> None:
    seen: list[Command] = []

    def note(request: Command) -> list[Command]:
        seen.append(request)
        return _stored(request)

    result = _send(program, note)

    properties = [parse_properties(request.ext["i"]) for request in seen]
    assert len({each["UNIQ_KEY"] for each in properties}) == len({each["KEYS"] for each in properties}) == len(seen)
    assert {each["TAGS"] for each in properties} == {"TagA"}
    assert {request.ext["e"] for request in seen} == {"0", "1", "2"}
    assert {len(request.body) for request in seen} == {50}
    assert result.succeeded == len(seen)
    assert not result.refusals


def test_refused_sends_are_counted_apart_with_the_first_remark(program: Path) -> None:
    seen: list[int] = []
    numbers = itertools.count(1)  # for several threads, of which no two get the same

    def refuse_every_third(request: Command) -> list[Command]:
        seen.append(request.opaque)
        return _stored(request) if next(numbers) % 3 else [response(2, "[OVERLOAD]")]

    result = _send(program, refuse_every_third)

    assert result.refusals == (Refusal(2, len(seen) // 3, "[OVERLOAD]"),)
    assert result.succeeded == len(seen) - len(seen) // 3


def test_a_success_that_names_no_place_is_none(program: Path) -> None:
    result = _send(program, lambda _: [response(0)])

    assert result.succeeded == 0
    assert [refusal.code for refusal in result.refusals] == [0]


def test_an_answer_given_twice_ends_the_run(program: Path) -> None:
    with pytest.raises(LoadError, match="nobody asked or which was answered before"):
        _send(program, lambda request: _stored(request) * 2)


def test_a_pull_counts_the_messages_that_it_got(program: Path) -> None:
    full = _pull(program, lambda queue_id, offset: b"".join(_record(queue_id, offset + i) for i in range(4)))
    short = _pull(program, lambda queue_id, offset: _record(queue_id, offset))

    assert full.messages_per_s == pytest.approx(full.requests_per_s * 4, abs=4)
    assert short.messages_per_s == pytest.approx(short.requests_per_s, abs=1)
    assert not full.refusals + short.refusals


@pytest.mark.parametrize(
    ("answer", "flaw"),
    [
        pytest.param(lambda _queue_id, _offset: b"", "no message", id="nothing"),
        pytest.param(lambda q, o: b"".join(_record(q, o + i) for i in range(5)), "more than were asked", id="too many"),
        pytest.param(lambda q, o: _record(q, o + 1), "not asked for", id="another offset"),
        pytest.param(lambda q, o: _record(q + 1, o), "not asked for", id="another queue"),
        pytest.param(lambda q, o: _record(q, o, magic=1), "magic", id="no record"),
        pytest.param(lambda q, o: _record(q, o)[:-1], "does not fit", id="cut off"),
        pytest.param(lambda q, o: _record(q, o) + b"abc", "does not fit", id="something behind"),
    ],
)
def test_a_pull_that_brings_the_wrong_thing_is_no_success(
    program: Path, answer: Callable[[int, int], bytes], flaw: str
) -> None:
    result = _pull(program, answer)

    assert result.succeeded == 0
    (refusal,) = result.refusals
    assert flaw in refusal.remark


def test_what_was_popped_is_acknowledged_one_by_one_with_its_handles(program: Path) -> None:
    seen: list[Command] = []

    def answer(request: Command) -> list[Command]:
        seen.append(request)
        return [_popped(10, 11, 12) if request.code == RequestCode.POP_MESSAGE else response(0)]

    result = _pop(program, answer)

    acks = [request for request in seen if request.code == RequestCode.ACK_MESSAGE]
    assert {(ack.ext["extraInfo"], ack.ext["queueId"], ack.ext["offset"]) for ack in acks} == {
        (f"10 1700000000000 60000 3 0 b 2 {offset}", "2", str(offset)) for offset in (10, 11, 12)
    }
    assert result.succeeded == len(seen)
    assert 0 < len(acks) < len(seen)
    assert not result.refusals


def test_what_was_popped_is_acknowledged_in_one_go(program: Path) -> None:
    seen: list[Command] = []

    def answer(request: Command) -> list[Command]:
        seen.append(request)
        return [_popped(10, 11, 20) if request.code == RequestCode.POP_MESSAGE else response(0)]

    result = _pop(program, answer, is_batch_ack=True)

    bodies = [request.body for request in seen if request.code == RequestCode.BATCH_ACK_MESSAGE]
    batch = decode(BatchAckMessageRequestBody, bodies[0])
    (entry,) = batch.acks
    assert (entry.start_offset, bits_of(entry.bit_set), entry.queue_id, entry.revive_queue_id) == (10, [0, 1, 10], 2, 3)
    assert (entry.pop_time, entry.invisible_time, batch.broker_name) == (1700000000000, 60000, "b")
    assert not result.refusals


def test_group_that_has_had_everything_is_followed_by_another(program: Path) -> None:
    groups: list[str] = []

    def nothing(request: Command) -> list[Command]:
        groups.append(request.ext["consumerGroup"])
        return [response(210, "POLLING_TIMEOUT")]

    result = _pop(program, nothing)

    assert len(set(groups)) > 1
    assert not result.refusals


@pytest.mark.parametrize(
    ("answer", "flaw"),
    [
        pytest.param(_popped(10, told="0 2 10,11"), "not as told", id="too few"),
        pytest.param(_popped(10, 11, told="0 2 10"), "more than are told of", id="too many"),
        pytest.param(_popped(10, told="0 2 11"), "other than told", id="another offset"),
        pytest.param(_popped(10, told="1 2 10"), "came again", id="of a retry topic"),
        pytest.param(response(0), "without", id="nothing told"),
    ],
)
def test_answer_to_a_pop_that_does_not_fit_is_refused(program: Path, answer: Command, flaw: str) -> None:
    result = _pop(program, lambda _: [answer])

    assert [refusal.code for refusal in result.refusals] == [0]
    assert flaw in result.refusals[0].remark
