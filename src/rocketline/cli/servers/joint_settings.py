"""The settings of a name server and a broker that run together: each its own, and both at the same host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rocketline.broker.config import BrokerConfig
from rocketline.broker.config import load_settings as load_broker
from rocketline.nameserver.config import NameServerConfig
from rocketline.nameserver.config import load_settings as load_name_server
from rocketline.net.address import format_address, parse_address
from rocketline.settings import Flag, Layer, Settings

LOOPBACK = "127.0.0.1"
_ANY = ("0.0.0.0", "::")  # noqa: S104  # to listen on all addresses is the user's choice
_MEMORY_SEGMENT_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says; None where it does not. What it does not say, a file or the environment may."""

    file: Path | None
    folder: Path | None
    default_folder: Path
    host: str | None
    name_server_port: int | None
    broker_port: int | None
    is_memory: bool

    def name_server_settings(self) -> Settings[NameServerConfig]:
        """Raises `ConfigError`."""
        options = _given(
            ("--host", "bindAddress", self.host), ("--nameserver-port", "listenPort", self.name_server_port)
        )
        folder = (self.folder or self.default_folder).absolute() / "namesrv"
        defaults = {
            "bindAddress": LOOPBACK,
            "kvConfigPath": str(folder / "kvConfig.json"),
            "configStorePath": str(folder / "namesrv.properties"),
        }
        known = load_name_server(environ=os.environ, flags=options)
        return load_name_server(environ=os.environ, flags=[*_unless_given(known, defaults), *options])

    def broker_settings(self, name_server: str) -> Settings[BrokerConfig]:
        """Settings of a broker that registers with our name server, and with those that it is told of besides.

        Raises `ConfigError`.
        """
        advertised = None if self.host in _ANY else self.host
        root = None if self.folder is None else self.folder.absolute() / "store"
        options = _given(
            ("--host", "bindAddress", self.host),
            ("--host", "brokerIP1", advertised),
            ("--host", "brokerIP2", advertised),
            ("--broker-port", "listenPort", self.broker_port),
            ("--dir", "storePathRootDir", root),
        )
        known = load_broker(self.file, environ=os.environ, flags=options)
        others = known.value.namesrv_addr
        joined = f"{name_server};{others}" if others else name_server
        flags = [*_unless_given(known, self._broker_defaults(known)), *options, Flag("serve", "namesrvAddr", joined)]
        return load_broker(self.file, environ=os.environ, flags=flags)

    def _broker_defaults(self, known: Settings[BrokerConfig]) -> dict[str, str]:
        folder = (self.folder or self.default_folder).absolute()
        defaults = {
            "bindAddress": LOOPBACK,
            "storePathRootDir": str(folder / "store"),
            "brokerConfigPath": str(folder / "broker.properties"),
        }
        if known.origin("bindAddress").layer is Layer.DEFAULT:
            defaults |= {"brokerIP1": LOOPBACK, "brokerIP2": LOOPBACK}
        if self.is_memory:
            defaults["mappedFileSizeCommitLog"] = str(_MEMORY_SEGMENT_BYTES)
        return defaults


def reachable(address: str) -> str:
    """Where a server that listens at `address` is found from this machine.

    >>> reachable("0.0.0.0:9876"), reachable("[::1]:9876")
    ('127.0.0.1:9876', '[::1]:9876')
    """
    host, port = parse_address(address)
    return format_address(LOOPBACK if host in _ANY else host, port)


def _given(*options: tuple[str, str, object]) -> list[Flag]:
    return [Flag(option, key, str(value)) for option, key, value in options if value is not None]


def _unless_given(
    known: Settings[NameServerConfig] | Settings[BrokerConfig], defaults: Mapping[str, str]
) -> list[Flag]:
    """Our own defaults, for what nobody said otherwise."""
    return [Flag("serve", key, text) for key, text in defaults.items() if known.origin(key).layer is Layer.DEFAULT]
