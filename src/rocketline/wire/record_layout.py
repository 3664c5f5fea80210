"""How a record of the commit log is laid out: told once, for all who read or write records.

    size … body_bytes (`FIELDS`)  |  body  |  topic with its length  |  properties with theirs

The length of the topic has one byte in records of version 1 and two in version 2, that of the properties two. Hosts are
an address and a port, of 8 bytes with IPv4 and 20 with IPv6; two bits of `sys_flag` tell which.

Whoever is fast reads a record by a struct of its own, made here of the names of the fields that it needs.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_FORMATS: Final = {
    "size": "i",
    "magic": "I",
    "body_crc": "I",
    "queue_id": "i",
    "flag": "i",
    "queue_offset": "q",
    "log_offset": "q",
    "sys_flag": "i",
    "born_ms": "q",
    "born_host": "",
    "store_ms": "q",
    "store_host": "",
    "reconsume_times": "i",
    "prepared_log_offset": "q",
    "body_bytes": "i",
}
FIELDS: Final = tuple(_FORMATS)
"""What every record has before its body, in order."""
_PORT_BYTES: Final = 4


class Hosts(NamedTuple):
    """The lengths of the two hosts, in bytes, ports included."""

    born_host: int = 8
    store_host: int = 8


IPV4: Final = Hosts()
HOSTS: Final = (IPV4, Hosts(20, 8), Hosts(8, 20), Hosts(20, 20))
"""By the two bits that tell them: `HOSTS[sys_flag >> 4 & 3]`."""


def field_format(name: str, hosts: Hosts = IPV4) -> str:
    """What `struct` calls the field; a host is bytes."""
    return _FORMATS[name] or f"{getattr(hosts, name)}s"


def place_of(name: str, hosts: Hosts = IPV4) -> int:
    """Where in a record the field begins."""
    return _size(FIELDS[: FIELDS.index(name)], hosts)


def fixed_bytes(hosts: Hosts = IPV4) -> int:
    """Where in a record its body begins."""
    return _size(FIELDS, hosts)


def struct_of(*names: str, hosts: Hosts = IPV4) -> struct.Struct:
    """Reads these fields of a record, in their order, from where it begins."""
    last = max(map(FIELDS.index, names))
    return _struct([field_format(f, hosts) if f in names else f"{_size([f], hosts)}x" for f in FIELDS[: last + 1]])


def struct_between(first: str, last: str, hosts: Hosts = IPV4) -> struct.Struct:
    """Reads and writes all fields from `first` to `last`."""
    return _struct([field_format(name, hosts) for name in _between(first, last)])


def struct_with_ports(first: str, last: str, hosts: Hosts = IPV4) -> struct.Struct:
    """The same, but each host is two values: address and port."""
    return _struct([_FORMATS[name] or f"{getattr(hosts, name) - _PORT_BYTES}si" for name in _between(first, last)])


def _between(first: str, last: str) -> tuple[str, ...]:
    return FIELDS[FIELDS.index(first) : FIELDS.index(last) + 1]


def _size(names: tuple[str, ...] | list[str], hosts: Hosts) -> int:
    return _struct([field_format(name, hosts) for name in names]).size


def _struct(formats: list[str]) -> struct.Struct:
    return struct.Struct(f">{''.join(formats)}")
