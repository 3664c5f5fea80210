"""Who a broker is, where it is found, and whom it tells. Java: BrokerConfig, BrokerIdentity."""

from __future__ import annotations

import os
from pathlib import Path

from rocketline.net.address import local_address
from rocketline.record import record
from rocketline.settings import setting
from rocketline.settings.places import at_home, home


def _host_name() -> str:
    return os.uname().nodename or "DEFAULT_BROKER"


@record(kw_only=True, slots=False)
class IdentityConfig:
    """Names, addresses and files."""

    broker_cluster_name: str = setting("DefaultCluster", key="brokerClusterName", help="The cluster's name.")
    broker_name: str = setting(
        factory=_host_name, key="brokerName", shown_default="this machine's name", help="The broker's name."
    )
    broker_id: int = setting(
        0,
        key="brokerId",
        only_default="a broker of Rocketline is a master without replicas; leave the key out",
        help="0 is the master, which is all that is supported.",
    )
    broker_ip1: str = setting(
        factory=local_address,
        key="brokerIP1",
        shown_default="this machine's address",
        help="The address that clients are told.",
    )
    broker_ip2: str = setting(
        factory=local_address,
        key="brokerIP2",
        shown_default="this machine's address",
        help="The address that replicas are told.",
    )
    region_id: str = setting(
        "DefaultRegion", key="regionId", live=True, help="The region, told with every answer to a send."
    )
    trace_on: bool = setting(
        True, key="traceOn", live=True, help="Whether clients are told, with every answer to a send, to trace."
    )
    rocketmq_home: Path = setting(
        factory=home,
        key="rocketmqHome",
        protected=True,
        environment=("ROCKETMQ_HOME",),
        help="Apache's installation folder; nothing is read from it.",
    )
    broker_config_path: Path = setting(
        factory=at_home("store/config/broker.properties"),
        key="brokerConfigPath",
        protected=True,
        own=True,
        help="Where an update of these settings is written: the file given at start, if one was given.",
    )
    config_black_list: str = setting(
        "configBlackList;brokerConfigPath",
        key="configBlackList",
        protected=True,
        help="Keys that no update may change, parted by semicolons; rocketmqHome is always one of them.",
    )

    @property
    def black_list(self) -> frozenset[str]:
        """Keys that no update may change."""
        named = {key.strip() for key in self.config_black_list.split(";")}
        return frozenset(named | {"configBlackList", "brokerConfigPath", "rocketmqHome"})


@record(kw_only=True, slots=False)
class RegistrationConfig:
    """Name servers, and what they are told."""

    namesrv_addr: str = setting(
        "",
        key="namesrvAddr",
        live=True,
        environment=("NAMESRV_ADDR",),
        help="The name servers as host:port, parted by semicolons; a change counts within updateNameServerAddrPeriod.",
    )
    fetch_name_srv_addr_by_dns_lookup: bool = setting(
        False,
        key="fetchNameSrvAddrByDnsLookup",
        live=True,
        help="Whether each address that a name of namesrvAddr has is a name server of its own.",
    )
    fetch_namesrv_addr_by_address_server: bool = setting(
        False,
        key="fetchNamesrvAddrByAddressServer",
        only_default="name servers are not asked for over HTTP; name them with namesrvAddr",
        help="Whether an HTTP server is asked for the name servers; only false is supported.",
    )
    update_name_server_addr_period: int = setting(
        120_000, key="updateNameServerAddrPeriod", low=1, help="Milliseconds between two looks at namesrvAddr."
    )
    register_name_server_period: int = setting(
        30_000,
        key="registerNameServerPeriod",
        help="Milliseconds between two registrations of all topics; 10000 to 60000 count.",
    )
    register_broker_timeout_mills: int = setting(
        24_000,
        key="registerBrokerTimeoutMills",
        low=1,
        live=True,
        help="Milliseconds that name servers have to answer a registration.",
    )
    force_register: bool = setting(
        True, key="forceRegister", live=True, help="Whether all topics are registered even if nothing changed."
    )
    compressed_register: bool = setting(
        False, key="compressedRegister", live=True, help="Whether a registration is compressed."
    )
    enable_single_topic_register: bool = setting(
        False,
        key="enableSingleTopicRegister",
        live=True,
        help="Whether a new topic is registered alone, rather than as part of a broker's registration.",
    )
    enable_split_registration: bool = setting(
        False,
        key="enableSplitRegistration",
        live=True,
        help="Whether many topics are registered in several parts; not together with "
        "deleteTopicWithBrokerRegistration of the name server.",
    )
    split_registration_size: int = setting(
        800, key="splitRegistrationSize", low=1, live=True, help="Topics of each such part."
    )
    broker_permission: int = setting(
        6, key="brokerPermission", high=15, live=True, help="What the broker may do: 4 read, 2 write, 6 both."
    )
    load_balance_poll_name_server_interval: int = setting(
        30_000,
        key="loadBalancePollNameServerInterval",
        low=1,
        help="Milliseconds between two looks at the routes that assignments need.",
    )
    connect_timeout_millis: int = setting(
        3000, key="connectTimeoutMillis", low=1, help="Milliseconds that a connection to a name server may take."
    )

    @property
    def register_period_s(self) -> float:
        """`registerNameServerPeriod` as it counts."""
        return min(max(self.register_name_server_period, 10_000), 60_000) / 1000
