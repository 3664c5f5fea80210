"""Addresses of this machine."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from rocketline.net.address import local_address


def test_local_address_is_one_that_this_machine_has() -> None:
    with socket.create_server((local_address(), 0)) as listening:
        assert ipaddress.ip_address(listening.getsockname()[0]).version == 4


def test_machine_without_a_network_is_found_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(probe: socket.socket, address: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)

    assert local_address.__wrapped__() == "127.0.0.1"
