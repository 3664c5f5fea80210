"""Our broker and Apache's with the same messages and groups, and what `mqadmin` shows of the one and the other.

Each registers with a name server of its own, so that both can bear the same name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from rocketline.model.message import Message
from rocketline.testing.apache import ApacheBroker, ClientJvm, MqadminOutput, Release, running
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from support.apache import mqadmin_output
from support.apache.mqadmin_output import Shown
from support.brokers.questions import BrokerQuestions

TOPIC, GROUP = "Orders", "readers"
ONLINE = "Online"
"""A topic, and the group of a consumer that is running."""

QUEUES, MESSAGES = 4, 20
_AS_BY_DEFAULT = {"timerFlushIntervalMs": "1000"}
"""What `ApacheBroker` changes for tests, and `mqadmin getBrokerConfig` shows."""


@dataclass(frozen=True, slots=True)
class Twin:
    """One of the two, and how to make its commands and its output like the other's."""

    name_server: NameServerProcess
    broker: ApacheBroker | BrokerProcess

    def command(self, command: str, client_id: str) -> list[str]:
        """The words of a command, with what stands for things that differ: {broker}, {host}, {client}."""
        return shlex.split(command.format(broker=self.broker.address, host=self._host, client=client_id))

    def read(self, output: MqadminOutput, client_id: str, command: str) -> Shown:
        text = output.out.replace(client_id, "{client}") if client_id else output.out
        home = str(self.broker.output.parent)
        names = {self.broker.address: "{broker}", self.name_server.address: "{name-server}", self._host: "{host}"}
        names[home] = "{home}"
        for value, name in names.items():
            text = text.replace(value, name)
        for name, pattern in _CHANGING.items():
            text = pattern.sub(name, text)
        name = command.split()[0]
        lines = sorted(re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip())
        return Shown(command, _READERS.get(name, list)(lines), mqadmin_output.thrown(output))

    @property
    def _host(self) -> str:
        """Its address as the first half of a message id."""
        return f"7F000001{self.broker.port:08X}"


@dataclass(slots=True)
class Twins:
    jvm: ClientJvm
    ours: Twin
    apache: Twin

    def alike(self, *commands: str, clients: tuple[str, str] = ("", "")) -> list[Shown]:
        """What a sequence of commands shows of both brokers, if it is the same.

        `clients` are the ids of a client at ours and of one at Apache's.
        """
        ours, apache = (
            [self._show(twin, command, client) for command in commands]
            for twin, client in zip((self.ours, self.apache), clients, strict=True)
        )
        assert ours == apache, "\n".join(_differences(ours, apache))
        return ours

    def _show(self, twin: Twin, command: str, client_id: str) -> Shown:
        output = self.jvm.mqadmin(twin.name_server.address, *twin.command(command, client_id))
        return twin.read(output, client_id, command)


@contextmanager
def twins(release: Release, jvm: ClientJvm, home: Path) -> Iterator[Twins]:
    with NameServerProcess(home / "ns-ours") as ns_ours, NameServerProcess(home / "ns-apache") as ns_apache:
        ours = BrokerProcess(home / "ours", name_servers=(ns_ours.address,))
        apache = ApacheBroker(release, home / "apache", name_servers=(ns_apache.address,), settings=_AS_BY_DEFAULT)
        with running(ours, apache):
            for broker in (ours, apache):
                _fill(broker.address)
            yield Twins(jvm, Twin(ns_ours, ours), Twin(ns_apache, apache))


def _fill(address: str) -> None:
    with BrokerQuestions(address) as broker:
        broker.create_topic(TOPIC, queues=QUEUES)
        broker.create_group(GROUP, retry_max_times=3)
        for number in range(MESSAGES):
            broker.send(numbered(TOPIC, number), number % QUEUES, born_ms=1_700_000_000_000)
        for queue_id in range(QUEUES):
            broker.commit(GROUP, TOPIC, queue_id, queue_id + 1)


def numbered(topic: str, number: int) -> Message:
    """A message that the foreign clients can read, with an id, keys and a tag of its own."""
    properties = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"k{number} all", "TAGS": "odd" if number % 2 else "even"}
    return Message.of(topic, f"{number}/0".encode(), properties)


def _differences(ours: list[Shown], apache: list[Shown]) -> Iterator[str]:
    for own, other in zip(ours, apache, strict=True):
        expected, found = ([*shown.printed, *shown.thrown] for shown in (other, own))
        yield from unified_diff(expected, found, f"{own.command} (Apache)", "(ours)", lineterm="", n=0)


# --- what may differ

_CHANGING = {
    "TIME": re.compile(r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d(?:[,.:]\d{3})?|\b20\d{12}(?:\d{3})?\b"),
    "MS": re.compile(r"\b1[78]\d{11}\b"),
    "OBJECT": re.compile(r"(?<=@)[0-9a-f]{5,8}\b|(?<=/)0x[0-9a-f]{16}"),
    "PEER": re.compile(r"127\.0\.0\.1:\d+"),
    "RATE": re.compile(r"(?<![\d.])\d+\.\d\d(?![\d.])|(?<=Consume TPS: )\S+"),
    "SPENT": re.compile(r"(?<=spentTimeMills=)\d+|(?<=rt=)\d+(?=ms)"),
    "ID": re.compile(r"\b[0-9A-F]{56}\b"),
}
"""Times, the addresses of objects and peers, rates, and the ids that a client makes up."""

_OWN_SETTINGS = (
    *("rocketmqHome", "brokerConfigPath", "storePathRootDir", "listenPort", "haListenPort"),
    # Ours are higher, on purpose.
    *("maxTransferBytesOnMessageIn", "maxTransferCountOnMessageIn"),
)
_OWN_RUNTIME = (
    *("commitLogDirCapacity", "commitLogDiskRatio", "consumeQueueDiskRatio", "runtime", "bootTimestamp"),
    # What was written is flushed and put into its queues some time after.
    *("remainHowManyDataToFlush", "dispatchBehindBytes"),
    # The timers' reader goes from second to second and is sometimes in one that has just passed.
    *("timerReadBehind", "timerOffsetBehind"),
)
_IS_LISTED = re.compile(r"\d{3} |#|(?:maxReconsumeTimes|messageModel|consumeFromWhere|namesrvAddr) :|Online ")
_RATES = re.compile(r"^\w*(?:Tps|EntireTimeMax|DistributeTime) :")
_SUMS = re.compile(r"(?<= )\d+(?=(?: \d+| NO_CONSUMER)?$)")


def _settings(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith(_OWN_SETTINGS)]


def _runtime(lines: list[str]) -> list[str]:
    """Every line; of those with a figure of the moment, only the name."""
    return [line.partition(":")[0] if line.startswith(_OWN_RUNTIME) or _RATES.match(line) else line for line in lines]


def _brokers(lines: list[str]) -> list[str]:
    """Without the rates and waiting times between a broker's version and whether it is active."""
    return [re.sub(r"(?<=V5_5_0 )RATE.* ", "", line) for line in lines]


def _groups(lines: list[str]) -> list[str]:
    """Without the last column of the list of all groups, which is a rate."""
    return [line.rpartition(" ")[0] if line.startswith(GROUP) else line for line in lines]


def _running_info(lines: list[str]) -> list[str]:
    """Of a consumer's report, what a broker has a part in: not its speed, its threads and when it did what."""
    listed = [line for line in lines if "ProcessQueueInfo" not in line and "RATE" not in line]
    return [line for line in listed if _IS_LISTED.match(line)]


def _producers(lines: list[str]) -> list[str]:
    """Without what `mqadmin` itself leaves behind: its heartbeat and its farewell may change places."""
    return [line for line in lines if "@STREAM" not in line]


def _statistics(lines: list[str]) -> list[str]:
    """Without how many messages came in and went out, the last two columns.

    On a broker that is young these are of the last minute, which each of the two samples every 10 s at its own times.
    """
    return [_SUMS.sub("SUM", line) for line in lines]


_READERS: dict[str, Callable[[list[str]], list[str]]] = {
    "clusterList": _brokers,
    "getBrokerConfig": _settings,
    "brokerStatus": _runtime,
    "consumerProgress": _groups,
    "consumerStatus": _running_info,
    "producer": _producers,
    "statsAll": _statistics,
}
