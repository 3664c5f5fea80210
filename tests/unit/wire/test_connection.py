"""A connection's conversation: numbers, waiters, and what received frames mean."""

from __future__ import annotations

import pytest

from rocketline.errors import LocalProtocolError, OverloadedError
from rocketline.wire import frame
from rocketline.wire.codes import RequestCode, SerializeType
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, response
from rocketline.wire.connection import Connection


def answer(opaque: int) -> Command:
    return Command(0, opaque=opaque, flag=RESPONSE_FLAG)


def asked(connection: Connection[str], waiter: str) -> int:
    return frame.decode(connection.request(Command(105), waiter)).opaque


def test_waiter_of_answers_in_any_order_is_whoever_asked() -> None:
    """S4: answers are matched by opaque only."""
    connection: Connection[str] = Connection("127.0.0.1:9876")
    first, second = asked(connection, "first"), asked(connection, "second")
    assert connection.waiter_of(answer(second)) == "second"
    assert connection.waiter_of(answer(first)) == "first"
    assert connection.in_flight == 0


def test_waiter_of_an_answer_that_is_repeated_or_unasked_is_nobody() -> None:
    connection: Connection[str] = Connection("127.0.0.1:9876")
    opaque = asked(connection, "waiter")
    assert connection.waiter_of(answer(opaque)) is not None
    assert connection.waiter_of(answer(opaque)) is None
    assert connection.waiter_of(answer(12345)) is None


def test_waiter_of_a_late_answer_is_nobody() -> None:
    connection: Connection[str] = Connection("127.0.0.1:9876")
    opaque = asked(connection, "waiter")
    connection.forget(opaque)
    connection.forget(opaque)
    assert (connection.in_flight, connection.waiter_of(answer(opaque))) == (0, None)


def test_waiter_of_a_request_with_a_number_of_ours_is_nobody() -> None:
    """Both ends count for themselves: the response flag decides, not the number."""
    connection: Connection[str] = Connection("127.0.0.1:9876")
    opaque = asked(connection, "waiter")
    request = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=opaque)
    assert connection.waiter_of(request) is None
    assert connection.in_flight == 1


def test_request_when_too_many_wait_is_refused_until_one_is_answered() -> None:
    connection: Connection[str] = Connection("127.0.0.1:9876", in_flight_max=2)
    first = asked(connection, "a")
    asked(connection, "b")
    with pytest.raises(OverloadedError, match=r"127\.0\.0\.1:9876: 2 requests are in flight already"):
        connection.request(Command(105), "c")
    connection.waiter_of(answer(first))
    asked(connection, "c")
    assert connection.in_flight == 2


def test_request_when_command_cannot_be_written_parks_nobody() -> None:
    connection: Connection[str] = Connection("127.0.0.1:9876", serialize_type=SerializeType.ROCKETMQ)
    with pytest.raises(LocalProtocolError):
        connection.request(Command(RequestCode.POP_MESSAGE), "waiter")
    assert connection.in_flight == 0


def test_request_when_numbers_run_out_starts_again_and_skips_those_in_use() -> None:
    connection: Connection[str] = Connection("127.0.0.1:9876")
    assert [asked(connection, "old"), asked(connection, "old")] == [1, 2]
    connection._opaque = 2**31 - 2
    assert [asked(connection, "new") for _ in range(3)] == [2**31 - 1, 0, 3]


def test_oneway_sets_its_flag_takes_a_free_number_and_waits_for_nothing() -> None:
    connection: Connection[str] = Connection("127.0.0.1:9876")
    opaque = asked(connection, "waiter")
    sent = frame.decode(connection.oneway(Command(37)))
    assert (sent.flag, sent.opaque != opaque, connection.in_flight) == (ONEWAY_FLAG, True, 1)


@pytest.mark.parametrize("own", SerializeType)
@pytest.mark.parametrize("theirs", SerializeType)
def test_reply_echoes_the_opaque_in_our_own_encoding(own: SerializeType, theirs: SerializeType) -> None:
    """S3 and S8: same opaque, response flag, and the server's own header form."""
    connection: Connection[str] = Connection("127.0.0.1:9876", serialize_type=own)
    request = Command(105, opaque=77, serialize_type=theirs)
    sent = frame.decode(connection.reply(request, response(17, "No topic")))
    assert (sent.opaque, sent.flag, sent.remark, sent.serialize_type) == (77, RESPONSE_FLAG, "No topic", own)


def test_close_hands_back_everyone_who_waits() -> None:
    connection: Connection[str] = Connection("127.0.0.1:9876")
    asked(connection, "a")
    asked(connection, "b")
    assert (connection.close(), connection.close(), connection.in_flight) == (["a", "b"], [], 0)
