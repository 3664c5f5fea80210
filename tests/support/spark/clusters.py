"""Servers that tests of the Spark connector read from: ours or Apache's, for the same test code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rocketline.testing import Server
from rocketline.testing.apache import ApacheBroker, ApacheNameServer, fetch, running
from support.clients.clusters import SHORT, ClientCluster


@contextmanager
def source_cluster(
    whose: str, home: Path, *, brokers: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[ClientCluster]:
    """A name server and `brokers` masters from `broker-a` on."""
    own = {**SHORT, **(settings or {})}
    if whose == "ours":
        with Server(process=True, brokers=brokers, settings=own) as server:
            yield ClientCluster("ours", server.address, server.broker_addresses)
        return
    with ApacheNameServer(fetch(), home / "name-server") as name_server:
        masters = [
            ApacheBroker(fetch(), home / name, name_servers=(name_server.address,), broker_name=name, settings=own)
            for name in ("broker-a", "broker-b")[:brokers]
        ]
        with running(*masters):
            yield ClientCluster("apache", name_server.address, tuple(master.address for master in masters))
