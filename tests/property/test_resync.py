"""Whatever happens to one stretch of the log, every record outside of it is found again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketline.store.log.record_scan import is_blank, scan
from rocketline.store.log.resync import next_record
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import LOG_BYTES, fill, memory, open_store


@given(
    sizes=st.lists(st.sampled_from([0, 1, 60, 300]), min_size=2, max_size=12),
    begin_share=st.floats(0, 1),
    data=st.binary(min_size=1, max_size=600),
)
def test_every_record_outside_of_the_damage_is_found(sizes: list[int], begin_share: float, data: bytes) -> None:
    clock = FakeClock()
    store = open_store(memory(clock), clock)
    places = [fill(store, 1, size=size)[0].log_offset for size in sizes]
    log, end = store.log, store.log.end
    records = {record.log_offset: record for record in scan(log, 0, end, check_crc=True)}
    assert list(records) == places
    begin = int(begin_share * (end - 1))
    data = data[: LOG_BYTES - begin % LOG_BYTES]
    log.segments.file_of(begin).write_at(begin % LOG_BYTES, data)
    whole = [place for place in places if place + records[place].size <= begin or place >= begin + len(data)]

    found = list[int]()
    position: int | None = 0
    while position is not None and position < end:
        for record in scan(log, position, end, check_crc=True):
            found.append(record.log_offset)
            position = record.log_offset + record.size
        in_file = position % LOG_BYTES
        if in_file and log.segments.has(position) and is_blank(log.map_of(position - in_file), in_file):
            position += LOG_BYTES - in_file
        if position < end:
            position = next_record(log, position, end, check_crc=True)

    assert set(whole) <= set(found) <= set(places)
