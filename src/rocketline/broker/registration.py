"""What a broker says of itself to name servers: the commands, built from its topics as they are now.

REGISTER_BROKER (103) with all topics or some, REGISTER_TOPIC_IN_NAMESRV (217), QUERY_DATA_VERSION (322),
UNREGISTER_BROKER (104). Sending them is the work of `rocketline.broker.name_servers`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import replace

from rocketline.broker.config import BrokerConfig
from rocketline.broker.topics import TopicTable
from rocketline.errors import LocalProtocolError
from rocketline.model.route import MASTER_ID, PERM_READ, PERM_WRITE, QueueData, TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import RegisterBrokerBody, encode, encode_register_body
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

_READ_WRITE = PERM_READ | PERM_WRITE


class Registration:
    """The broker under the addresses that it is known by. Java: BrokerOuterAPI, BrokerController.registerBrokerAll."""

    def __init__(self, settings: Settings[BrokerConfig], topics: TopicTable, address: str, ha_address: str) -> None:
        self._settings, self._topics = settings, topics
        self.address, self._ha_address = address, ha_address

    def of_all(self) -> list[Command]:
        """Every topic: one command, or several where registrations are to be split.

        A name server takes a known topic's new configuration only with a new version, so all parts but the last, which
        has the true one, bear versions of their own.
        """
        config, version = self._settings.value, self._topics.data_version
        topics = list(self._topics.all().values())
        size = config.split_registration_size if config.enable_split_registration else max(len(topics), 1)
        parts = [topics[at : at + size] for at in range(0, len(topics), size)] or [[]]
        passing = (replace(version, timestamp=-number) for number in range(1, len(parts)))
        return [self._command(part, number) for part, number in zip(parts, (*passing, version), strict=True)]

    def of_topics(self, names: Collection[str]) -> list[Command]:
        """Some topics; those that no longer exist are left out."""
        known = self._topics.all()
        topics = [known[name] for name in names if name in known]
        if self._settings.value.enable_single_topic_register:
            return [self._single(topic) for topic in topics]
        return [self._command(topics, self._topics.data_version)] if topics else []

    def version_query(self) -> Command:
        """Asks whether the name server knows our topics as they are now."""
        config = self._settings.value
        header = headers.QueryDataVersionRequestHeader(
            broker_name=config.broker_name,
            broker_addr=self.address,
            cluster_name=config.broker_cluster_name,
            broker_id=MASTER_ID,
        )
        body = encode(self._topics.data_version)
        return Command(RequestCode.QUERY_DATA_VERSION, headers.encode(header), body)

    def farewell(self) -> Command:
        """Takes the broker out of the name server's tables."""
        config = self._settings.value
        header = headers.UnRegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=self.address,
            cluster_name=config.broker_cluster_name,
            broker_id=MASTER_ID,
        )
        return Command(RequestCode.UNREGISTER_BROKER, headers.encode(header))

    def _command(self, topics: Collection[TopicConfig], version: DataVersion) -> Command:
        config = self._settings.value
        table = TopicConfigTable(version, topic_config_table=self._as_permitted(topics))
        body, is_compressed = _encoded(RegisterBrokerBody(table), is_compressed=config.compressed_register)
        header = headers.RegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=self.address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=self._ha_address,
            broker_id=MASTER_ID,
            enable_acting_master=False,
            compressed=is_compressed,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        return Command(RequestCode.REGISTER_BROKER, headers.encode(header), body)

    def _single(self, topic: TopicConfig) -> Command:
        shown = self._as_permitted([topic])[topic.topic_name]
        queues = QueueData(
            self._settings.value.broker_name,
            shown.read_queue_nums,
            shown.write_queue_nums,
            shown.perm,
            shown.topic_sys_flag,
        )
        header = headers.RegisterTopicRequestHeader(topic=topic.topic_name)
        body = encode(TopicRouteData(queue_datas=[queues]))
        return Command(RequestCode.REGISTER_TOPIC_IN_NAMESRV, headers.encode(header), body)

    def _as_permitted(self, topics: Collection[TopicConfig]) -> dict[str, TopicConfig]:
        """By name; of a broker that may not both read and write, with no more than it may."""
        allowed = self._settings.value.broker_permission
        if allowed & _READ_WRITE == _READ_WRITE:
            return {topic.topic_name: topic for topic in topics}
        return {topic.topic_name: replace(topic, perm=topic.perm & allowed) for topic in topics}


def _encoded(body: RegisterBrokerBody, *, is_compressed: bool) -> tuple[bytes, bool]:
    """The body, and whether it came out compressed: not every name of a topic can be written in that form."""
    if is_compressed:
        try:
            return encode_register_body(body, compressed=True), True
        except LocalProtocolError:
            pass
    return encode_register_body(body, compressed=False), False
