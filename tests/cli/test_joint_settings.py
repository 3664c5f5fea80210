"""The settings of `rocketline serve`: its own defaults lie below the file and the environment, its options above."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.cli.servers.joint_settings import Wishes

NAME_SERVER = "127.0.0.1:9876"


def wishes(
    *,
    file: Path | None = None,
    folder: Path | None = None,
    host: str | None = None,
    broker_port: int | None = None,
    is_memory: bool = False,
) -> Wishes:
    return Wishes(file, folder, Path("/data/rocketline"), host, None, broker_port, is_memory)


def written(folder: Path, text: str) -> Path:
    path = folder / "broker.conf"
    path.write_text(text)
    return path


def test_both_listen_and_are_found_on_loopback_and_keep_everything_in_one_folder() -> None:
    name_server, broker = wishes().name_server_settings().value, wishes().broker_settings(NAME_SERVER).value

    assert (name_server.network.bind_address, name_server.network.listen_port) == ("127.0.0.1", 9876)
    assert (broker.network.bind_address, broker.network.listen_port) == ("127.0.0.1", 10911)
    assert (broker.broker_ip1, broker.broker_ip2) == ("127.0.0.1", "127.0.0.1")
    assert broker.name_servers == (NAME_SERVER,)
    assert name_server.kv_config_path == Path("/data/rocketline/namesrv/kvConfig.json")
    assert broker.store.store_path_root_dir == Path("/data/rocketline/store")
    assert broker.broker_config_path == Path("/data/rocketline/broker.properties")


def test_host_that_is_given_is_listened_on_and_told_to_clients() -> None:
    broker = wishes(host="10.0.0.7").broker_settings(NAME_SERVER).value

    assert (broker.network.bind_address, broker.broker_ip1, broker.broker_ip2) == ("10.0.0.7", "10.0.0.7", "10.0.0.7")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_address_to_listen_on_is_none_to_tell_clients(host: str) -> None:
    broker = wishes(host=host).broker_settings(NAME_SERVER).value

    assert broker.network.bind_address == host
    assert broker.broker_ip1 != host


def test_file_goes_over_the_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, "bindAddress=10.0.0.7\nbrokerIP1=10.0.0.8\nlistenPort=20911\nstorePathRootDir=/mq\n")
    broker = wishes(file=file).broker_settings(NAME_SERVER).value

    assert (broker.network.bind_address, broker.broker_ip1) == ("10.0.0.7", "10.0.0.8")
    assert broker.network.listen_port == 20911
    assert broker.store.store_path_root_dir == Path("/mq")
    assert broker.broker_config_path == file


def test_options_go_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "bindAddress=10.0.0.7\nbrokerIP1=10.0.0.8\nlistenPort=20911\nstorePathRootDir=/mq\n")
    given = wishes(file=file, host="10.0.0.9", broker_port=30911, folder=Path("/mine"))
    broker = given.broker_settings(NAME_SERVER).value

    assert (broker.network.bind_address, broker.broker_ip1) == ("10.0.0.9", "10.0.0.9")
    assert broker.network.listen_port == 30911
    assert broker.store.store_path_root_dir == Path("/mine/store")


def test_environment_goes_over_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETLINE_NAMESERVER_BIND_ADDRESS", "10.0.0.7")
    monkeypatch.setenv("ROCKETLINE_BROKER_STORE_PATH_ROOT_DIR", "/mq")

    assert wishes().name_server_settings().value.network.bind_address == "10.0.0.7"
    assert wishes().broker_settings(NAME_SERVER).value.store.store_path_root_dir == Path("/mq")


def test_name_servers_of_the_file_are_told_besides_our_own(tmp_path: Path) -> None:
    file = written(tmp_path, f"namesrvAddr={NAME_SERVER};10.0.0.1:9876\n")

    assert wishes(file=file).broker_settings(NAME_SERVER).value.name_servers == (NAME_SERVER, "10.0.0.1:9876")


def test_memory_takes_smaller_files_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    file = written(tmp_path, "mappedFileSizeCommitLog=1048576\n")
    sizes = [
        wishes(file=path, is_memory=True).broker_settings(NAME_SERVER).value.store.mapped_file_size_commit_log
        for path in (None, file)
    ]

    assert sizes == [64 * 1024**2, 1024**2]
