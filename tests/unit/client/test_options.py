from __future__ import annotations

import re
import ssl
from typing import get_type_hints

import pytest

from rocketline.client import options
from rocketline.client.options import ClientKeywords, ClientOptions, Tls, make_options, parse_name_servers
from rocketline.client.runtime import connections
from rocketline.errors import ConfigError


def test_keywords_and_options_have_the_same_fields_and_types() -> None:
    names = {"SSLContext": ssl.SSLContext}
    declared = get_type_hints(ClientOptions, localns=names)
    assert declared.pop("name_servers") == tuple[str, ...]
    assert get_type_hints(ClientKeywords, localns=names) == declared


def test_defaults_are_javas() -> None:
    """What differs is said in the option's own text."""
    default = ClientOptions()
    assert (default.instance_name, default.unit_name, default.unit_mode) == ("DEFAULT", "", False)
    assert (default.route_period_s, default.heartbeat_period_s, default.offset_persist_period_s) == (30, 30, 5)
    assert (default.pull_pause_s, default.api_timeout_s, default.connect_timeout_s) == (1, 3, 3)
    assert (default.idle_close_s, default.in_flight_max) == (120, 65535)
    assert not default.vip_channel
    assert not default.tls
    assert default.heartbeat_on_connect


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:1;b:2", ("a:1", "b:2")),
        (["a:1", "b:2", "a:1"], ("a:1", "b:2")),
        (" a:1 ; ; b:2;", ("a:1", "b:2")),
        ("http://name.server/a:1", ("a:1",)),
        ("", ()),
    ],
)
def test_name_servers_are_a_text_or_a_list(given: str | list[str], expected: tuple[str, ...]) -> None:
    assert parse_name_servers(given) == expected


def test_environment_names_the_servers_that_nobody_gave() -> None:
    environ = {"NAMESRV_ADDR": "env:1"}
    assert make_options(ClientOptions, None, {}, environ).name_servers == ("env:1",)
    assert make_options(ClientOptions, "given:1", {}, environ).name_servers == ("given:1",)
    assert make_options(ClientOptions, None, {}, {}).name_servers == ()


def test_unknown_keyword_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match=re.escape("there is no option heartbeat_s: did you mean heartbeat_period_s?")):
        make_options(ClientOptions, None, {"heartbeat_s": 3})
    with pytest.raises(TypeError, match=r"there is no option xyz$"):
        make_options(ClientOptions, None, {"xyz": 3})


def test_all_problems_are_listed_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        make_options(
            ClientOptions,
            "nonsense",
            {"api_timeout_s": 0, "in_flight_max": "many", "pull_pause_s": -1, "namespace": "a", "namespace_v2": "b"},
        )
    assert len(caught.value.problems) == 5
    text = str(caught.value)
    assert "api_timeout_s=0: must be above 0" in text
    assert "in_flight_max='many': a number is wanted" in text
    assert "pull_pause_s=-1: must be at least 0" in text
    assert "name_servers: 'nonsense' is no address" in text
    assert "namespace and namespace_v2 exclude each other" in text


def test_secrets_do_not_show() -> None:
    credentials = options.Credentials("user", "hush")
    assert "hush" not in repr(ClientOptions(credentials=credentials, tls=Tls(key_password="quiet")))
    assert "quiet" not in repr(ClientOptions(tls=Tls(key_password="quiet")))


def test_tls_is_verified_unless_told_otherwise() -> None:
    assert connections.tls_context(False) is None
    default = connections.tls_context(True)
    assert default is not None
    assert (default.verify_mode, default.check_hostname) == (ssl.CERT_REQUIRED, True)
    trusting = connections.tls_context(Tls(verifies=False))
    assert trusting is not None
    assert trusting.verify_mode == ssl.CERT_NONE
    own = ssl.create_default_context()
    assert connections.tls_context(own) is own
    with pytest.raises(ConfigError, match="no-such-file"):
        connections.tls_context(Tls(trust_path="no-such-file.pem"))
