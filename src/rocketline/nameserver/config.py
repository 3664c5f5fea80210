"""The name server's settings and how they are loaded. Java: NamesrvConfig."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from rocketline.net.config import NetworkConfig, TlsConfig
from rocketline.record import record
from rocketline.settings import Flag, Settings, load, setting
from rocketline.settings.places import at_home, home

DEFAULT_PORT = 9876
ENVIRONMENT_PREFIX = "ROCKETLINE_NAMESERVER_"

_NO_POOL = "Accepted for Apache's sake and without effect: requests wait in no thread pool."


@record(kw_only=True)
class NameServerConfig:
    """What a name server can be told. Java: NamesrvConfig, with NettyServerConfig and TlsSystemConfig as sections."""

    rocketmq_home: Path = setting(
        factory=home,
        key="rocketmqHome",
        protected=True,
        environment=("ROCKETMQ_HOME",),
        help="Apache's installation folder; nothing is read from it.",
    )
    kv_config_path: Path = setting(
        factory=at_home("namesrv/kvConfig.json"),
        key="kvConfigPath",
        protected=True,
        help="Where the KV configuration is kept.",
    )
    config_store_path: Path = setting(
        factory=at_home("namesrv/namesrv.properties"),
        key="configStorePath",
        protected=True,
        help="Where an update of these settings is written: the file given at start, if one was given.",
    )
    config_black_list: str = setting(
        "configBlackList;configStorePath;kvConfigPath",
        key="configBlackList",
        protected=True,
        help="Keys that no update may change, parted by semicolons; rocketmqHome is always one of them.",
    )
    product_env_name: str = setting(
        "center", key="productEnvName", help="The environment asked by clusterTest; without effect, as that mode is."
    )
    cluster_test: bool = setting(
        False,
        key="clusterTest",
        only_default="the name server for cluster tests, which takes no registrations, is not part of Rocketline",
        help="Java's mode that answers every request as a route query; only false is supported.",
    )
    order_message_enable: bool = setting(
        False, key="orderMessageEnable", live=True, help="Whether a route tells the topic's order configuration."
    )
    return_order_topic_config_to_broker: bool = setting(
        True,
        key="returnOrderTopicConfigToBroker",
        live=True,
        help="Whether a broker's registration is answered with the order configuration of all topics.",
    )
    scan_not_active_broker_interval_ms: int = setting(
        5000, key="scanNotActiveBrokerInterval", low=1, help="Milliseconds between two looks for brokers gone silent."
    )
    unregister_broker_queue_capacity: int = setting(
        3000, key="unRegisterBrokerQueueCapacity", low=1, help="Brokers that may wait to be taken out of the tables."
    )
    support_acting_master: bool = setting(
        False,
        key="supportActingMaster",
        live=True,
        help="Whether a route shows the first slave in a lost master's place.",
    )
    enable_all_topic_list: bool = setting(
        True, key="enableAllTopicList", live=True, help="Whether the list of all topics is given out."
    )
    enable_topic_list: bool = setting(
        True, key="enableTopicList", live=True, help="Whether lists of a cluster's and of unit topics are given out."
    )
    notify_min_broker_id_changed: bool = setting(
        False,
        key="notifyMinBrokerIdChanged",
        live=True,
        help="Whether brokers of one name are told when the smallest id among them changes.",
    )
    enable_controller_in_namesrv: bool = setting(
        False,
        key="enableControllerInNamesrv",
        only_default="the Raft controller is not part of Rocketline; run Apache's controller by itself",
        help="Java's embedded controller; only false is supported.",
    )
    need_wait_for_service: bool = setting(
        False, key="needWaitForService", live=True, help="Whether routes are refused for a while after the start."
    )
    wait_seconds_for_service: int = setting(
        45, key="waitSecondsForService", live=True, help="How long after the start routes are refused, in seconds."
    )
    delete_topic_with_broker_registration: bool = setting(
        False,
        key="deleteTopicWithBrokerRegistration",
        live=True,
        help="Whether a topic that its broker no longer registers is taken out.",
    )
    client_request_thread_pool_nums: int = setting(8, key="clientRequestThreadPoolNums", effect=False, help=_NO_POOL)
    client_request_thread_pool_queue_capacity: int = setting(
        50_000, key="clientRequestThreadPoolQueueCapacity", effect=False, help=_NO_POOL
    )
    default_thread_pool_nums: int = setting(16, key="defaultThreadPoolNums", effect=False, help=_NO_POOL)
    default_thread_pool_queue_capacity: int = setting(
        10_000, key="defaultThreadPoolQueueCapacity", effect=False, help=_NO_POOL
    )
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(listen_port=DEFAULT_PORT))
    tls: TlsConfig = field(default_factory=TlsConfig)

    @property
    def black_list(self) -> frozenset[str]:
        """Keys that no update may change."""
        named = {key.strip() for key in self.config_black_list.split(";")}
        return frozenset(named | {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})


def load_settings(
    file: Path | None = None, *, environ: Mapping[str, str] | None = None, flags: Iterable[Flag] = ()
) -> Settings[NameServerConfig]:
    """The name server's settings; `file`, if given, is also where updates are written. Raises `ConfigError`."""
    store = (Flag("-c", "configStorePath", str(file)),) if file else ()
    return load(
        NameServerConfig, file=file, environ=environ, flags=(*flags, *store), environment_prefix=ENVIRONMENT_PREFIX
    )
