from __future__ import annotations

import os
import re

import pytest

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.identity import client_id, own_client_id, own_namespace


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("10.0.0.1", "A"), "10.0.0.1@A"),
        (("10.0.0.1", "A", "U"), "10.0.0.1@A@U"),
        (("10.0.0.1", "A", "  "), "10.0.0.1@A"),
        (("fd00::1", "A"), "[fd00::1]@A"),
    ],
)
def test_id_is_address_name_and_unit(arguments: tuple[str, ...], expected: str) -> None:
    assert client_id(*arguments) == expected


def test_two_clients_of_one_process_have_two_ids() -> None:
    first, second = (own_client_id(ClientOptions(client_ip="1.1.1.1")) for _ in range(2))
    assert first != second
    assert re.fullmatch(rf"1\.1\.1\.1@{os.getpid()}#\d+", first)


def test_local_address_stands_in_for_one_that_is_not_given() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+@A", own_client_id(ClientOptions(instance_name="A")))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ClientOptions(namespace="N"), "N"),
        (ClientOptions(), ""),
        (ClientOptions(name_servers=("127.0.0.1:9876",)), ""),
        (ClientOptions(name_servers=("MQ_INST_123_Bxy.cn.mq.example:80",)), "MQ_INST_123_Bxy"),
        (ClientOptions(name_servers=("MQ_INST_123_Bxy.cn.mq.example:80",), namespace="N"), "N"),
        (ClientOptions(name_servers=("MQ_INST_123_Bxy.cn.mq.example:80",), namespace_v2="N"), ""),
    ],
)
def test_namespace_is_given_or_found_in_the_name_servers_name(options: ClientOptions, expected: str) -> None:
    assert own_namespace(options) == expected
