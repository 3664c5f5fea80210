"""The layout of records: places and structs that all readers and writers share."""

from __future__ import annotations

import pytest

from rocketline.wire import record_layout
from rocketline.wire.message_codec import RECORD_BYTES_MIN
from rocketline.wire.record_layout import FIELDS, HOSTS, Hosts
from support.golden import read_lines


def test_places_are_those_of_apaches_records() -> None:
    """CommitLog: the offsets that its own constants name."""
    assert [record_layout.place_of(name) for name in ("queue_offset", "log_offset", "sys_flag", "store_ms")] == [
        20, 28, 36, 56,
    ]  # fmt: skip
    assert record_layout.fixed_bytes() == RECORD_BYTES_MIN - 3, "without lengths of topic and properties"


@pytest.mark.parametrize("hosts", HOSTS)
def test_each_struct_reads_the_same_fields(hosts: Hosts) -> None:
    data = bytes(range(record_layout.fixed_bytes(hosts)))
    whole = dict(zip(FIELDS, record_layout.struct_between(FIELDS[0], FIELDS[-1], hosts).unpack(data), strict=True))
    for name in FIELDS:
        assert record_layout.struct_of(name, hosts=hosts).unpack_from(data) == (whole[name],)
    chosen = ("magic", "born_host", "body_bytes")
    assert record_layout.struct_of(*chosen, hosts=hosts).unpack_from(data) == tuple(whole[name] for name in chosen)
    born, port = record_layout.struct_with_ports("born_host", "born_host", hosts).unpack(whole["born_host"])
    assert born + port.to_bytes(4, "big") == whole["born_host"]


def test_hosts_are_found_by_the_flags() -> None:
    assert [(HOSTS[flags >> 4 & 3].born_host, HOSTS[flags >> 4 & 3].store_host) for flags in (0, 0x10, 0x20, 0x30)] == [
        (8, 8), (20, 8), (8, 20), (20, 20),
    ]  # fmt: skip


def test_apaches_records_say_how_long_they_are() -> None:
    lines = [line for line in read_lines("store-5.5.0.jsonl") if line["file"] == "commitlog" and "at" in line]
    head = record_layout.struct_of("size", "log_offset")
    assert lines
    for line in lines:
        if "blank" not in line["what"]:
            data = bytes.fromhex(line["hex"])
            assert head.unpack_from(data) == (len(data), line["at"])
