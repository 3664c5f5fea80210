"""The name server's settings: Apache's keys, defaults and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import ConfigError
from rocketline.nameserver.config import NameServerConfig, load_settings
from rocketline.net.config import ClientAuth, NetworkConfig, TlsConfig, TlsMode
from rocketline.settings import Flag, format_properties
from rocketline.wire.codes import SerializeType

APACHE_5_5_0 = """\
bindAddress=0.0.0.0
clientRequestThreadPoolNums=8
clientRequestThreadPoolQueueCapacity=50000
clusterTest=false
configBlackList=configBlackList;configStorePath;kvConfigPath
configStorePath={home}/namesrv/namesrv.properties
defaultThreadPoolNums=16
defaultThreadPoolQueueCapacity=10000
deleteTopicWithBrokerRegistration=false
enableAllTopicList=true
enableControllerInNamesrv=false
enableShutdownGracefully=false
enableTopicList=true
kvConfigPath={home}/namesrv/kvConfig.json
listenPort=9876
needWaitForService=false
notifyMinBrokerIdChanged=false
orderMessageEnable=false
productEnvName=center
returnOrderTopicConfigToBroker=true
rocketmqHome=/opt/rocketmq
scanNotActiveBrokerInterval=5000
serverAsyncSemaphoreValue=64
serverCallbackExecutorThreads=0
serverChannelMaxIdleTimeSeconds=120
serverNettyWorkerGroupEnable=true
serverOnewaySemaphoreValue=256
serverPooledByteBufAllocatorEnable=true
serverSelectorThreads=3
serverSocketBacklog=1024
serverSocketRcvBufSize=0
serverSocketSndBufSize=0
serverWorkerThreads=8
shutdownWaitTimeSeconds=30
supportActingMaster=false
unRegisterBrokerQueueCapacity=3000
useEpollNativeSelector=false
waitSecondsForService=45
writeBufferHighWaterMark=0
writeBufferLowWaterMark=0
"""
"""What Apache's name server, freshly started, answered to GET_NAMESRV_CONFIG."""


def problems_of(*flags: Flag) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_settings(flags=flags)
    return caught.value.problems


def test_defaults_are_listed_like_those_of_apache() -> None:
    settings = load_settings(environ={"ROCKETMQ_HOME": "/opt/rocketmq"})

    assert format_properties(settings.properties()) == APACHE_5_5_0.format(home=Path.home())


def test_every_key_of_apache_is_accepted_from_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(APACHE_5_5_0.format(home="/somewhere"))
    settings = load_settings(file)

    assert settings.unknown == ()
    assert settings.value.kv_config_path == Path("/somewhere/namesrv/kvConfig.json")


def test_file_given_at_start_is_where_updates_go(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("configStorePath=/elsewhere\nlistenPort=9999\n")
    settings = load_settings(file, flags=[Flag("--port", "listenPort", "0")])

    assert settings.value.config_store_path == file
    assert settings.value.network.listen_port == 0


def test_environment_has_our_prefix_or_the_names_of_apache() -> None:
    environ = {"ROCKETLINE_NAMESERVER_LISTEN_PORT": "9000", "ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ"}
    network = load_settings(environ=environ).value.network

    assert network == NetworkConfig(listen_port=9000, serialize_type=SerializeType.ROCKETMQ)


@pytest.mark.parametrize("key", ["enableControllerInNamesrv", "clusterTest"])
def test_mode_that_is_not_supported_is_refused_at_start_in_one_line(key: str) -> None:
    (problem,) = problems_of(Flag("--x", key, "true"))
    assert problem.startswith(f"flag --x: {key}=true: the ")
    assert problem.count("\n") == 0


@pytest.mark.parametrize("key", ["enableControllerInNamesrv", "clusterTest"])
def test_mode_that_is_not_supported_is_ignored_in_an_update(key: str) -> None:
    settings = load_settings()

    assert settings.update({key: "true"}).ignored == (key,)
    assert settings.properties()[key] == "false"


def test_black_list_has_the_four_keys_and_those_configured() -> None:
    assert NameServerConfig().black_list == {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
    more = NameServerConfig(config_black_list="listenPort; bindAddress")
    assert more.black_list == NameServerConfig().black_list | {"listenPort", "bindAddress"}


def test_tls_settings_are_read_from_the_file_that_the_main_file_names(tmp_path: Path) -> None:
    (tmp_path / "tls.properties").write_text(
        "tls.server.mode=enforcing\ntls.server.need.client.auth=require\ntls.server.certPath=/c.pem\n"
        "tls.server.keyPath=/k.pem\ntls.server.keyPassword=hunter2\ntls.client.authServer=false\n"
    )
    (tmp_path / "namesrv.conf").write_text(f"tls.config.file={tmp_path / 'tls.properties'}\ntls.server.mode=disabled\n")
    settings = load_settings(tmp_path / "namesrv.conf")

    assert settings.value.tls == TlsConfig(
        config_file=str(tmp_path / "tls.properties"),
        server_mode=TlsMode.ENFORCING,
        need_client_auth=ClientAuth.REQUIRE,
        server_cert_path="/c.pem",
        server_key_path="/k.pem",
        server_key_password="hunter2",
        client_auth_server=False,
    )
    assert "hunter2" not in str(settings.properties()) + str(settings.value)


def test_certificates_are_verified_by_default() -> None:
    assert TlsConfig().client_auth_server


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("tls.server.mode", "enforcing", "tls.server.mode=enforcing needs a certificate"),
        ("tls.server.keyPath", "/k", "tls.server.keyPath=/k is without its certificate: set tls.server.certPath"),
        ("tls.client.keyPath", "/k", "tls.client.keyPath=/k is without its certificate: set tls.client.certPath"),
        ("tls.test.mode.enable", "true", "Rocketline makes no certificates"),
        ("listenPort", "65536", "a whole number from 0 to 65535"),
        ("serverSocketBacklog", "0", "a whole number from 1"),
    ],
)
def test_setting_that_cannot_work_is_refused(key: str, value: str, expected: str) -> None:
    (problem,) = problems_of(Flag("--x", key, value))
    assert expected in problem


def test_low_water_mark_above_the_high_one_is_refused() -> None:
    flags = (Flag("--high", "writeBufferHighWaterMark", "10"), Flag("--low", "writeBufferLowWaterMark", "11"))

    assert problems_of(*flags) == ("writeBufferLowWaterMark=11 must not be above writeBufferHighWaterMark=10",)


def test_user_without_a_home_keeps_its_files_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    monkeypatch.chdir(tmp_path)

    assert load_settings().value.kv_config_path == tmp_path / "namesrv/kvConfig.json"
