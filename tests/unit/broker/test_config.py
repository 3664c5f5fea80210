"""The broker's settings: Apache's keys and defaults, an Apache file as it is, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.broker.config import BrokerConfig, load_settings
from rocketline.errors import ConfigError
from rocketline.settings import Flag, Settings, parse_properties
from rocketline.settings.declared import declared

APACHE = {
    pair.key: pair.value
    for pair in parse_properties((Path(__file__).parents[2] / "data" / "broker-config-5.5.0.properties").read_bytes())
}
OF_THE_MACHINE = {
    "namesrvAddr", "brokerName", "brokerIP1", "brokerIP2", "rocketmqHome", "storePathRootDir",
    "mappedFileSizeCommitLog", "haListenPort", "bindAddress", "listenPort", "sendMessageThreadPoolNums",
    "putMessageFutureThreadPoolNums",
    "pullMessageThreadPoolNums", "litePullMessageThreadPoolNums", "processReplyMessageThreadPoolNums",
    "queryMessageThreadPoolNums", "heartbeatThreadPoolNums", "endTransactionThreadPoolNums",
}  # fmt: skip
OF_OUR_OWN = {
    "maxTransferBytesOnMessageInMemory": "4194304",
    "maxTransferCountOnMessageInMemory": "1024",
    "maxTransferBytesOnMessageInDisk": "4194304",
    "maxTransferCountOnMessageInDisk": "1024",
}


def load(**values: str) -> Settings[BrokerConfig]:
    return load_settings(environ={}, flags=[Flag("test", key, text) for key, text in values.items()])


def problems(**values: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(**values)
    return list(caught.value.problems)


def test_settings_listed_by_default_are_those_of_apache() -> None:
    listed = load().properties()

    assert listed.keys() - OF_THE_MACHINE == APACHE.keys()
    assert {key: text for key, text in listed.items() if key in APACHE and APACHE[key] != text} == OF_OUR_OWN


def test_everything_that_apache_lists_can_be_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("".join(f"{key}={text}\n" for key, text in APACHE.items()))
    settings = load_settings(file, environ={})

    assert settings.unknown == ()
    assert settings.without_effect == []
    assert settings.value.store.max_transfer_count_on_message_in_memory == 32, "a file that sets it is obeyed"


def test_file_as_apache_ships_it_loads(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n"
        "fileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n"
    )
    settings = load_settings(file, environ={})

    assert settings.without_effect == []
    assert settings.value.broker_name == "broker-a"
    assert settings.value.store.file_reserved_time == 48
    assert settings.value.broker_config_path == file, "an update is written to the file"


def test_name_servers_come_from_apaches_variable_too() -> None:
    settings = load_settings(environ={"NAMESRV_ADDR": "a:1; b:2;;a:1"})

    assert settings.value.name_servers == ("a:1", "b:2")


def test_name_server_that_is_no_address_is_named() -> None:
    assert problems(namesrvAddr="a:1;b") == [
        "namesrvAddr: 'b' is no address: write host:port, for example 127.0.0.1:9876"
    ]


def refused_values() -> list[tuple[str, str]]:
    """Another value for every setting that allows its default alone."""
    default = BrokerConfig()
    values = []
    for setting in declared(BrokerConfig).values():
        if setting.rules.only_default:
            value = setting.value_in(default)
            other = {bool: str(not value).lower(), int: "2", str: "other"}[setting.type]
            values.append((setting.key, other))
    return values


@pytest.mark.parametrize(("key", "text"), refused_values())
def test_setting_that_stops_the_start_is_named_with_its_reason(key: str, text: str) -> None:
    (problem,) = problems(**{key: text})

    assert problem.startswith(f"flag test: {key}={text}: ")


@pytest.mark.parametrize(
    "key",
    [
        "authenticationEnabled", "authorizationEnabled", "aclEnable", "brokerRole", "brokerId", "haMasterAddress",
        "enableControllerMode", "enableDLegerCommitLog", "enableSlaveActingMaster", "duplicationEnable",
        "totalReplicas", "inSyncReplicas", "storeType", "messageStorePlugIn", "enableLmq", "enableMultiDispatch",
        "timerRocksDBEnable", "enableConsumeQueueExt", "configManagerVersion", "readOnlyCommitLogStorePaths", "useTLS",
    ],
)  # fmt: skip
def test_security_role_replication_and_store_type_allow_their_default_only(key: str) -> None:
    assert key in dict(refused_values())


def test_settings_without_effect_are_told_with_their_origin() -> None:
    settings = load(sendMessageThreadPoolNums="99", ackMessageThreadPoolNums="16", brokerNam="x")

    assert settings.without_effect == [
        "brokerNam in flag test (did you mean brokerName?)",
        "sendMessageThreadPoolNums in flag test",
    ]


def test_settings_that_nobody_reads_are_told() -> None:
    values = {
        "enableCleanExpiredOffset": "true",
        "flushConsumeQueueLeastPages": "9",
        "pullThreadPoolQueueCapacity": "9",
    }
    assert load(**values).without_effect == [f"{key} in flag test" for key in values]


@pytest.mark.parametrize(("key", "text"), [("messageDelayLevel", "1x"), ("deleteWhen", "4,16")])
def test_update_with_which_no_broker_could_start_changes_nothing(key: str, text: str) -> None:
    settings = load()
    before = settings.value
    with pytest.raises(ConfigError, match=key):
        settings.update({key: text})
    assert settings.value is before


@pytest.mark.parametrize(("given", "counts_s"), [("1", 10.0), ("30000", 30.0), ("99999999", 60.0)])
def test_registration_period_is_kept_within_its_bounds(given: str, counts_s: float) -> None:
    assert load(registerNameServerPeriod=given).value.register_period_s == counts_s


def test_protected_keys_are_always_on_the_black_list() -> None:
    black_list = load(configBlackList="brokerName; listenPort").value.black_list

    assert black_list == {"brokerName", "listenPort", "configBlackList", "brokerConfigPath", "rocketmqHome"}


def test_secrets_are_not_listed() -> None:
    assert (
        load(innerClientAuthenticationCredentials="hunter2").properties()["innerClientAuthenticationCredentials"]
        == "******"
    )
