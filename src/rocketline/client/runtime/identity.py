"""Who a client is: the id under which brokers know it."""

from __future__ import annotations

import os
import re
import socket
import time

from rocketline.client.options import DEFAULT_INSTANCE, ClientOptions
from rocketline.net.address import local_address

_NAMESPACE_IN_ADDRESS = re.compile(r"(MQ_INST_\w+_\w+)\..*")


def client_id(ip: str, instance_name: str, unit_name: str = "", *, is_stream: bool = False) -> str:
    """The id of a client. Two processes must never have the same. Java: ClientConfig.buildMQClientId.

    >>> client_id("10.0.0.1", "A", "U", is_stream=True)
    '10.0.0.1@A@U@STREAM'
    """
    parts = [f"[{ip}]" if ":" in ip else ip, instance_name]
    if unit_name.strip():
        parts.append(unit_name)
    if is_stream:
        parts.append("STREAM")
    return "@".join(parts)


def own_client_id(options: ClientOptions, *, is_name_stable: bool = False) -> str:
    """The id of a client with these options. A name left at its default becomes one that nobody else has, unless
    `is_name_stable`: broadcasting consumers find their offsets again by it. Java: changeInstanceNameToPID."""
    name = options.instance_name
    if name == DEFAULT_INSTANCE and not is_name_stable:
        name = f"{os.getpid()}#{time.perf_counter_ns()}"
    return client_id(options.client_ip or local_address(), name, options.unit_name, is_stream=options.stream_requests)


def own_namespace(options: ClientOptions) -> str:
    """The namespace of topics and groups: the one given, or the one in the name server's host name.

    >>> own_namespace(ClientOptions(name_servers=("MQ_INST_1_B.mq.example:80",)))
    'MQ_INST_1_B'
    """
    if options.namespace or options.namespace_v2:
        return options.namespace
    matches = (_NAMESPACE_IN_ADDRESS.match(address) for address in options.name_servers)
    return next((match[1] for match in matches if match), "")


def id_address(options: ClientOptions) -> bytes:
    """The machine's address, the first part of message ids."""
    ip = options.client_ip or local_address()
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in ip else socket.AF_INET, ip)
    except OSError:  # a client may call itself anything
        return socket.inet_pton(socket.AF_INET, local_address())
