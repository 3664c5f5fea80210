"""What the options of a cluster's commands mean to a client."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.client.options import Credentials, Tls


def parsed(*arguments: str, **environ: str | None) -> ClusterConnection:
    """The connection that a command gets."""
    found: list[ClusterConnection] = []

    @click.command()
    @connection_options
    def command(connection: ClusterConnection) -> None:
        found.append(connection)

    result = CliRunner(env={"NAMESRV_ADDR": None, **environ}).invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_without_options_the_name_server_of_this_machine_is_asked_in_the_clear() -> None:
    connection = parsed()
    assert connection.name_servers == "127.0.0.1:9876"
    assert connection.options() == {"vip_channel": False}


def test_environment_names_servers_and_keys_and_options_win() -> None:
    environ = {"NAMESRV_ADDR": "a:1;b:2", "ROCKETLINE_ACCESS_KEY": "me", "ROCKETLINE_SECRET_KEY": "secret"}
    connection = parsed(**environ)
    assert connection.name_servers == "a:1;b:2"
    assert connection.options()["credentials"] == Credentials("me", "secret")
    assert "secret" not in repr(connection)
    assert parsed("-n", "c:3", "--access-key", "you", **environ).options()["credentials"] == Credentials(
        "you", "secret"
    )


def test_half_of_a_pair_of_keys_is_refused() -> None:
    with pytest.raises(click.UsageError, match="belong together"):
        parsed("--access-key", "me").options()


def test_any_option_of_tls_turns_it_on() -> None:
    assert parsed("--tls").options()["tls"] == Tls()
    assert parsed("--tls-trust", "ca.pem").options()["tls"] == Tls(trust_path="ca.pem")
    assert parsed("--tls-insecure").options()["tls"] == Tls(verifies=False)
    own = parsed("--tls-cert", "c.pem", "--tls-key", "k.pem").options()["tls"]
    assert own == Tls(cert_path="c.pem", key_path="k.pem")
