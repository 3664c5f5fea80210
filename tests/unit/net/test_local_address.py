"""Addresses of this machine."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from rocketline.net.local_address import free_port, local_address


def test_local_address_is_one_that_this_machine_has() -> None:
    with socket.create_server((local_address(), 0)) as listening:
        assert ipaddress.ip_address(listening.getsockname()[0]).version == 4


def test_machine_without_a_network_is_found_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(probe: socket.socket, address: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)

    assert local_address.__wrapped__() == "127.0.0.1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_free_port_and_the_one_below_can_be_listened_on(host: str) -> None:
    port = free_port(host, below=2)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    for number in (port, port - 2):
        socket.create_server((host, number), family=family).close()
