from __future__ import annotations

from rocketline.client.trace.buffer import KEYS_BYTES_MAX, MESSAGE_CHARACTERS_MAX, RECORDS_MAX, TraceBuffer
from rocketline.wire.properties import PROPERTIES_BYTES_MAX


def test_records_come_out_in_order_with_each_key_once() -> None:
    buffer = TraceBuffer()
    assert buffer.take() is None
    buffer.add("a", "1 k")
    buffer.add("b", "2 k")
    buffer.add("c", "1 k")
    assert (len(buffer), buffer.take(), buffer.take(), len(buffer)) == (3, ("abc", "1 k 2", 3), None, 0)


def test_what_has_no_room_is_dropped_and_counted() -> None:
    by_count, by_bytes = TraceBuffer(count_max=2), TraceBuffer(bytes_max=5)
    for buffer in (by_count, by_bytes):
        for text in ("aaa", "bb", "c"):
            buffer.add(text, "k")
        assert (len(buffer), buffer.dropped) == (2, 1)
        assert buffer.take() == ("aaabb", "k", 2)
        buffer.add("again", "k")
        assert (len(buffer), buffer.dropped) == (1, 1)


def test_one_message_has_so_much_text_and_so_many_keys() -> None:
    long, short = "x" * (MESSAGE_CHARACTERS_MAX // 2), "x"
    by_text, by_keys, by_both = TraceBuffer(), TraceBuffer(), TraceBuffer()
    for number in range(3):
        by_text.add(long, str(number))
        by_keys.add(short, "é" * (KEYS_BYTES_MAX // 10) + str(number))
        by_both.add(long * 3, str(number) * KEYS_BYTES_MAX)
    for buffer, counts in ((by_text, [1, 2]), (by_keys, [1, 2]), (by_both, [1, 1, 1])):
        batches = [batch for _ in counts if (batch := buffer.take()) is not None]
        assert [batch.records for batch in batches] == counts
        assert len(buffer) == 0
        assert all(len(batch.keys.encode()) < PROPERTIES_BYTES_MAX - 100 for batch in batches)


def test_one_message_has_so_many_records_in_their_order() -> None:
    buffer = TraceBuffer()
    for number in range(RECORDS_MAX + 1):
        buffer.add(f"{number} ", str(number))
    first, second = buffer.take(), buffer.take()
    assert first is not None
    assert second is not None
    assert (first.records, second.records) == (RECORDS_MAX, 1)
    assert (first.text + second.text).split() == [str(number) for number in range(RECORDS_MAX + 1)]


def test_bytes_are_counted_anew_once_all_is_taken() -> None:
    """Two threads that add at one moment may lose a count, but not for long."""
    buffer = TraceBuffer(bytes_max=10)
    buffer._bytes = 7
    buffer.add("abc", "k")
    buffer.add("abc", "k")
    assert buffer.dropped == 1
    assert [buffer.take() is None for _ in range(2)] == [False, True]
    buffer.add("0123456789", "k")
    assert (len(buffer), buffer.dropped) == (1, 1)
