"""What a broker says of itself to name servers: the commands, built from its topics as they are now.

REGISTER_BROKER (103) with all topics or some, REGISTER_TOPIC_IN_NAMESRV (217), QUERY_DATA_VERSION (322),
UNREGISTER_BROKER (104). Sending them is the work of `rocketline.broker.cluster.name_servers`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import Steps, each_with_pause
from rocketline.broker.metadata.topics import TopicTable
from rocketline.errors import LocalProtocolError
from rocketline.logs import Throttle
from rocketline.model.route import MASTER_ID, PERM_READ, PERM_WRITE, QueueData, TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.settings import Settings
from rocketline.wire import fastjson, headers
from rocketline.wire.bodies import RegisterBrokerBody, compressed_pieces, encode
from rocketline.wire.bodies.codec import to_value
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

PART_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of topics in one registration, some 25,000: a frame carries 16 MiB, and a name server reads it in one go."""
_READ_WRITE = PERM_READ | PERM_WRITE
_NO_TOPICS: Final = b'"topicConfigTable":{}'


@dataclass(frozen=True, slots=True)
class _Told:
    """A whole registration, and what it was made from."""

    config: BrokerConfig
    version: DataVersion
    commands: list[Command]


class RegistrationCommands:
    """The broker under the addresses that it is known by. Java: BrokerOuterAPI, BrokerController.registerBrokerAll."""

    def __init__(
        self, settings: Settings[BrokerConfig], topics: TopicTable, address: str, ha_address: str, log: Throttle
    ) -> None:
        self._settings, self._topics, self._log = settings, topics, log
        self.address, self._ha_address = address, ha_address
        self._told: _Told | None = None

    def of_all(self) -> Steps[list[Command]]:
        """Every topic: one command, or several where registrations are to be split, or are too large for one.

        What was told is kept for the next time, and for the next name server, until something changes.
        """
        config, version = self._settings.value, self._topics.data_version
        if self._told is None or self._told.config is not config or self._told.version != version:
            commands = yield from self._commands(list(self._topics.all().values()), is_whole=True)
            self._told = _Told(config, version, commands)
            if len(commands) > 1 and not config.enable_split_registration:
                self._log.info("too many topics for one registration", f"told in {len(commands)} parts")
        return [replace(command) for command in self._told.commands]

    def of_topics(self, names: Collection[str]) -> Steps[list[Command]]:
        """Some topics; those that no longer exist are left out."""
        known = self._topics.all()
        topics = [known[name] for name in names if name in known]
        if self._settings.value.enable_single_topic_register:
            return [self._single(topic) for topic in topics]
        return (yield from self._commands(topics, is_whole=False)) if topics else []

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

    def _commands(self, topics: list[TopicConfig], *, is_whole: bool) -> Steps[list[Command]]:
        """In parts of `splitRegistrationSize`, if that is set, and of no more than `PART_BYTES_MAX`.

        A name server takes a known topic's new configuration only with a new version, so all parts but the last, which
        has the true one, bear versions of their own.
        """
        config, version = self._settings.value, self._topics.data_version
        shown = list(self._as_permitted(topics).values())
        texts: list[bytes] = []
        for topic, is_step in each_with_pause(shown):
            texts.append(fastjson.write({topic.topic_name: to_value(topic)})[1:-1])
            if is_step:
                yield
        count_max = config.split_registration_size if config.enable_split_registration and is_whole else None
        parts = _parts([*map(len, texts)], count_max)
        passing = (replace(version, timestamp=-number) for number in range(1, len(parts)))
        commands = []
        for part, number in zip(parts, (*passing, version), strict=True):
            commands.append((yield from self._command(shown[part], texts[part], number)))
        return commands

    def _command(self, topics: list[TopicConfig], texts: list[bytes], version: DataVersion) -> Steps[Command]:
        config, body = self._settings.value, None
        if config.compressed_register:
            body = yield from _compressed(topics, version)
        is_compressed = body is not None
        if body is None:
            before, after = encode(RegisterBrokerBody(TopicConfigTable(version))).split(_NO_TOPICS)
            body = b"".join((before, _NO_TOPICS[:-1], b",".join(texts), b"}", after))
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


def _parts(sizes: list[int], count_max: int | None) -> list[slice]:
    """Where to cut, so that no part is larger than allowed; one part if there is nothing."""
    parts, begin, size = [], 0, 0
    for at, more in enumerate(sizes):
        if at > begin and (size + more > PART_BYTES_MAX or (count_max is not None and at - begin >= count_max)):
            parts.append(slice(begin, at))
            begin, size = at, 0
        size += more
    return [*parts, slice(begin, len(sizes))]


def _compressed(topics: list[TopicConfig], version: DataVersion) -> Steps[bytes | None]:
    """None if it does not go: not every name of a topic can be written in that form."""
    body = RegisterBrokerBody(TopicConfigTable(version, topic_config_table={t.topic_name: t for t in topics}))
    pieces = []
    try:
        for piece in compressed_pieces(body):
            pieces.append(piece)
            yield
    except LocalProtocolError:
        return None
    return b"".join(pieces)
