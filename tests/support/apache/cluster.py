"""Brokers that both name servers know, and what `mqadmin` shows of them through the one and through the other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rocketline.testing.apache import ApacheBroker, ApacheNameServer, ClientJvm, Release, running
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess
from support.apache import mqadmin_output
from support.apache.mqadmin_output import Shown


@dataclass(frozen=True, slots=True)
class NameServers:
    """Apache's and ours, with the same settings. A broker registers with both, so both see it at the same address."""

    clients: ClientJvm
    apache: ServerProcess
    ours: ServerProcess

    @property
    def addresses(self) -> tuple[str, str]:
        return self.apache.address, self.ours.address

    def side_by_side(self, *commands: str) -> tuple[list[Shown], list[Shown]]:
        """What a sequence of commands shows of ours, and what the same sequence shows of Apache's."""
        ours, apache = ([self.show(server, command) for command in commands] for server in (self.ours, self.apache))
        return ours, apache

    def show(self, server: ServerProcess, command: str) -> Shown:
        """What one command shows of one of the two."""
        return mqadmin_output.read(self.clients.mqadmin(server.address, *shlex.split(command)), server.address)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Two masters, one of them with a slave."""

    name_servers: NameServers
    master_a: ApacheBroker
    slave_a: ApacheBroker
    master_b: ApacheBroker


@contextmanager
def name_servers(release: Release, clients: ClientJvm, home: Path, settings: dict[str, str]) -> Iterator[NameServers]:
    apache = ApacheNameServer(release, home / "apache", settings=settings)
    ours = NameServerProcess(home / "ours", settings=settings)
    with running(apache, ours):
        yield NameServers(clients, apache, ours)


@contextmanager
def cluster(release: Release, servers: NameServers, home: Path) -> Iterator[Cluster]:
    both = servers.addresses
    master_a = ApacheBroker(release, home / "master-a", name_servers=both)
    slave_a = ApacheBroker(release, home / "slave-a", name_servers=both, broker_id=1, settings={"brokerRole": "SLAVE"})
    master_b = ApacheBroker(release, home / "master-b", name_servers=both, broker_name="broker-b")
    with running(master_a, slave_a, master_b):
        yield Cluster(servers, master_a, slave_a, master_b)
