"""The broker's settings and how they are loaded. Java: BrokerConfig.

The settings themselves are declared by concern in the modules of this package; `unused` and its table hold those
of Apache's broker that have no use here. What a setting does is done where its value is read, in any room of `broker`;
how files and flags become values is `settings`'. Those of the store and of connections are in `store.config` and
`net.config`, which alone are imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from rocketline.broker.config.consumption import ClientsConfig, ConsumptionConfig, OffsetsConfig
from rocketline.broker.config.flow_control import FlowControlConfig, StatsConfig
from rocketline.broker.config.identity import IdentityConfig, RegistrationConfig
from rocketline.broker.config.topics import MessagesConfig, TopicsConfig
from rocketline.broker.config.transactions import TransactionsConfig
from rocketline.broker.config.unused import UnusedBrokerSettings
from rocketline.errors import ConfigError
from rocketline.net.address import parse_address
from rocketline.net.config import NetworkConfig, TlsConfig
from rocketline.record import record
from rocketline.settings import Flag, Settings, load
from rocketline.store.config import FlushDiskType, StoreConfig

__all__ = ["DEFAULT_PORT", "ENVIRONMENT_PREFIX", "BrokerConfig", "FlushDiskType", "load_settings"]

DEFAULT_PORT = 10911
ENVIRONMENT_PREFIX = "ROCKETLINE_BROKER_"


@record(kw_only=True, slots=False)
class BrokerConfig(
    IdentityConfig,
    RegistrationConfig,
    TopicsConfig,
    MessagesConfig,
    TransactionsConfig,
    ConsumptionConfig,
    OffsetsConfig,
    ClientsConfig,
    FlowControlConfig,
    StatsConfig,
):
    """What a broker can be told. Java: BrokerConfig, with MessageStoreConfig and those of the network as sections."""

    store: StoreConfig = field(default_factory=StoreConfig)
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(listen_port=DEFAULT_PORT))
    tls: TlsConfig = field(default_factory=TlsConfig)

    unused: UnusedBrokerSettings = field(default_factory=UnusedBrokerSettings)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of `namesrvAddr`, each once."""
        named = (address.strip() for address in self.namesrv_addr.split(";"))
        return tuple(dict.fromkeys(filter(None, named)))

    def problems(self) -> Iterator[str]:
        for address in self.name_servers:
            try:
                parse_address(address)
            except ConfigError as error:
                yield f"namesrvAddr: {error}"
        # Region and cluster become properties of every message, which some control characters would take apart.
        names = {
            "brokerName": self.broker_name,
            "brokerClusterName": self.broker_cluster_name,
            "regionId": self.region_id,
        }
        for key, text in names.items():
            if not text.isprintable():
                yield f"{key}={text!r}: write a name of printable characters"


def load_settings(
    file: Path | None = None, *, environ: Mapping[str, str] | None = None, flags: Iterable[Flag] = ()
) -> Settings[BrokerConfig]:
    """The broker's settings; `file`, if given, is also where updates are written. Raises `ConfigError`."""
    store = (Flag("-c", "brokerConfigPath", str(file)),) if file else ()
    return load(BrokerConfig, file=file, environ=environ, flags=(*flags, *store), environment_prefix=ENVIRONMENT_PREFIX)
