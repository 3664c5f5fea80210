"""What users import stays where it is."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from pathlib import Path

import pytest

import rocketline
from rocketline import aio
from support.markdown_pages import PAGES, blocks

CLIENTS = {
    "Admin", "ClientRuntime", "CompressionType", "ConsumeContext", "ConsumeFromWhere", "ConsumeResult", "Credentials",
    "LitePullConsumer", "Message", "MessageModel", "MessageQueue", "Producer", "PullConsumer", "PullResult",
    "PullStatus", "PushConsumer", "RawPull", "ReceivedMessage", "RpcHook", "SendReceipt", "SendStatus", "Tls",
    "ReceivedReply", "Reply", "ReplyCounts", "Transaction", "TransactionProducer", "TransactionReceipt",
    "TransactionState", "by_hash", "by_sql", "reply",
}  # fmt: skip

DOCUMENTED = {
    "rocketline.broker.config": "load_settings",
    "rocketline.broker.server": "Broker",
    "rocketline.cli": "main",
    "rocketline.client.producer.hooks": "SendContext",
    "rocketline.client.received_message": "decode_messages",
    "rocketline.client.send_hooks": "SendContext SendHook",
    "rocketline.clock": "Clock SystemClock",
    "rocketline.errors": "ConfigError InvalidFilterError InvalidMessageError NoReplyError RemoteProtocolError "
    "RocketlineError TransportError",
    "rocketline.filter": "compile_sql",
    "rocketline.logs": "Throttle",
    "rocketline.model": "property_names",
    "rocketline.model.ids": "HostAddress LogOffset OffsetMessageId QueueOffset",
    "rocketline.model.message": "Message StoredMessage",
    "rocketline.model.property_names": "REPLY_TO_CLIENT",
    "rocketline.model.queue": "MessageQueue",
    "rocketline.model.sys_flags": "PULL_SUBSCRIPTION",
    "rocketline.model.topic_config": "TopicConfig",
    "rocketline.nameserver.config": "load_settings",
    "rocketline.nameserver.server": "NameServer",
    "rocketline.net.channel": "LATER Channel Later",
    "rocketline.net.config": "NetworkConfig TlsConfig",
    "rocketline.net.dispatch": "Dispatcher",
    "rocketline.net.remote": "Remote",
    "rocketline.net.server": "Server",
    "rocketline.net.tls": "client_context",
    "rocketline.otel": "Telemetry",
    "rocketline.pipelines.definition_file": "load",
    "rocketline.pipelines.tables.reading": "read_table",
    "rocketline.settings": "Flag",
    "rocketline.spark.session": "spark_session",
    "rocketline.store.config": "StoreConfig",
    "rocketline.store.filesystem": "DiskFileSystem FileSystem",
    "rocketline.store.inspection.check": "check_store",
    "rocketline.store.inspection.repair": "repair_store",
    "rocketline.store.memory_filesystem": "MemoryFileSystem",
    "rocketline.store.message_store": "MessageStore",
    "rocketline.testing": "Server",
    "rocketline.testing.apache": "ApacheBroker ApacheNameServer ClientJvm Release fetch running",
    "rocketline.testing.exchange": "ask",
    "rocketline.testing.fake_clock": "FakeClock",
    "rocketline.testing.fault_proxy": "FaultProxy",
    "rocketline.testing.faulty_filesystem": "FaultyFileSystem Survival",
    "rocketline.testing.name_server": "NameServerProcess",
    "rocketline.testing.pytest_plugin": "RocketMQ",
    "rocketline.testing.scripted_peer": "ScriptedPeer",
    "rocketline.wire": "acl bodies frame headers",
    "rocketline.wire.batch": "decode_batch encode_batch",
    "rocketline.wire.bodies.stats": "TopicStatsTable",
    "rocketline.wire.bodies.topics": "TopicConfigTable",
    "rocketline.wire.codes": "RequestCode ResponseCode SerializeType",
    "rocketline.wire.command": "Command response",
    "rocketline.wire.connection": "Connection",
    "rocketline.wire.message_codec": "decode_messages decode_records encode_record",
    "rocketline.wire.properties": "encode_properties format_properties",
}
"""Module by module, what the documentation imports, or once did."""

PUBLIC = {"rocketline", "rocketline.aio"}
TWINS = ("admin/sync.py", "client/sync/")
"""Where the blocking form of a class has the name of the other."""
BY_TWO_SERVERS = {"ConfigurationHandlers", "TopicHandlers"}
"""Families of requests that both servers have."""


def test_clients_have_the_same_names_with_and_without_asyncio() -> None:
    assert set(rocketline.__all__) == CLIENTS
    assert {name for name in vars(aio) if not name.startswith("_")} >= CLIENTS


@pytest.mark.parametrize("module", DOCUMENTED)
def test_documented_names_are_there(module: str) -> None:
    found = importlib.import_module(module)
    for name in DOCUMENTED[module].split():
        if not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")


def test_list_has_all_that_the_documentation_imports() -> None:
    missing = {
        f"{block.page.name}:{block.line}: {node.module} {alias.name}"
        for page in PAGES
        for block in blocks(page, "python")
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "rocketline"
        for alias in node.names
        if alias.name not in (CLIENTS | {"aio"} if node.module in PUBLIC else DOCUMENTED.get(node.module, "").split())
    }
    assert missing == set()


def test_class_name_stands_for_one_thing() -> None:
    """But for twins, families of both servers, and the `Server` of `net`, which nobody takes for that of `testing`."""
    source = Path(rocketline.__file__).parent
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        place = str(path.relative_to(source))
        if not place.startswith(TWINS):
            for each in ast.parse(path.read_text("utf-8")).body:
                if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                    places[each.name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1}.keys() == BY_TWO_SERVERS | {"Server"}
