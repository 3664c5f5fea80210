"""How the commands that work with a cluster find it and who they are there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import click

from rocketline.cli.shared.client_log import client_log

if TYPE_CHECKING:
    from rocketline.admin.sync import Admin
    from rocketline.client.options import ClientKeywords

LOCAL_NAME_SERVER = "127.0.0.1:9876"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """What the options say."""

    name_servers: str
    timeout_s: float
    access_key: str | None
    secret_key: str | None = field(repr=False)
    security_token: str | None = field(repr=False)
    tls: bool
    tls_trust: str
    tls_cert: str
    tls_key: str
    tls_insecure: bool
    vip_channel: bool

    def options(self) -> ClientKeywords:
        """Keywords of any client. Raises `click.UsageError` for half of a pair."""
        from rocketline.client.options import Credentials, Tls

        if (self.access_key is None) != (self.secret_key is None):
            raise click.UsageError("--access-key and --secret-key belong together")
        options: ClientKeywords = {"vip_channel": self.vip_channel}
        if self.access_key is not None and self.secret_key is not None:
            options["credentials"] = Credentials(self.access_key, self.secret_key, self.security_token)
        if self.tls or self.tls_trust or self.tls_cert or self.tls_insecure:
            options["tls"] = Tls(
                trust_path=self.tls_trust,
                cert_path=self.tls_cert,
                key_path=self.tls_key,
                verifies=not self.tls_insecure,
            )
        return options

    def admin(self) -> Admin:
        """To use as `with`."""
        from rocketline.admin.sync import Admin

        return Admin(self.name_servers, timeout_s=self.timeout_s, **self.options())


_OPTIONS = (
    click.option(
        "-n", "--name-servers", envvar="NAMESRV_ADDR", default=LOCAL_NAME_SERVER, show_default=True, show_envvar=True,
        metavar="ADDRESSES", help="Name servers, host:port;host:port.",
    ),
    click.option("--timeout", "timeout_s", type=click.FloatRange(0.001), default=6.0, show_default=True,
                 metavar="SECONDS", help="For each request."),
    click.option("--access-key", envvar="ROCKETLINE_ACCESS_KEY", show_envvar=True, help="Who signs the requests."),
    click.option("--secret-key", envvar="ROCKETLINE_SECRET_KEY", show_envvar=True,
                 help="What they are signed with; others can see your command line, but not the environment."),
    click.option("--security-token", envvar="ROCKETLINE_SECURITY_TOKEN", show_envvar=True, help="If there is one."),
    click.option("--tls", is_flag=True, help="Encrypt; the servers' certificates are checked."),
    click.option("--tls-trust", default="", metavar="FILE", help="Trust the certificates in FILE (PEM)."),
    click.option("--tls-cert", default="", metavar="FILE", help="Our own certificate (PEM)."),
    click.option("--tls-key", default="", metavar="FILE", help="Its key (PEM)."),
    click.option("--tls-insecure", is_flag=True, help="Take any certificate."),
    click.option("--vip-channel", is_flag=True, help="Use the brokers' second port."),
)  # fmt: skip


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command gets them as `connection`."""

    @functools.wraps(command)
    def with_connection(**values: Any) -> Any:
        connection = ClusterConnection(**{field.name: values.pop(field.name) for field in fields(ClusterConnection)})
        with client_log():
            return command(connection=connection, **values)

    for option in reversed(_OPTIONS):
        with_connection = option(with_connection)
    return with_connection
