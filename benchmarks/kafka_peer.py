"""A real Kafka broker on loopback, and the jars of Spark's Kafka connector: fetched from Maven once, kept in the cache.

One node that is its own controller, with Kafka's defaults but for what a single node cannot do otherwise.
"""

from __future__ import annotations

import shutil
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rocketline.settings.properties import format_properties
from rocketline.testing.cache import built, run_tool
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port

_SOURCES = Path(__file__).parent / "load" / "kafka"
_POM, _LOAD = _SOURCES / "pom.xml", _SOURCES / "KafkaLoad.java"
_HEAP = "1g"
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@dataclass(frozen=True, slots=True)
class KafkaRelease:
    """Where the jars are."""

    broker: Path
    connector: Path
    classes: Path

    @property
    def connector_jars(self) -> list[str]:
        return sorted(str(jar) for jar in self.connector.glob("*.jar"))

    def java(self, *words: str) -> list[str]:
        """The command that runs a main class of Kafka's or ours."""
        return ["java", f"-Xmx{_HEAP}", _QUIET, "-cp", f"{self.classes}:{self.broker}/*", *words]


def fetch() -> KafkaRelease:
    """The jars, from Maven the first time. Raises `ToolError` if there is no JDK or no Maven."""
    broker = built("kafka-broker", [_POM], partial(_copy_jars, "broker"))
    connector = built("kafka-connector", [_POM], partial(_copy_jars, "connector"))
    classes = built("kafka-load", [_POM, _LOAD], partial(_compile, broker))
    return KafkaRelease(broker, connector, classes)


def _copy_jars(profile: str, folder: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    run_tool("mvn", "-q", "-B", "-f", str(_POM), f"-P{profile}", *goal)


def _compile(broker: Path, folder: Path) -> None:
    run_tool("javac", "-Werror", "-cp", f"{broker}/*", "-d", str(folder), str(_LOAD))


class KafkaBroker(ServerProcess):
    """Kafka on a free port; what it stores lies under `home`."""

    def __init__(self, release: KafkaRelease, home: Path) -> None:
        self._release = release
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        port, controller_port = free_port(), free_port()
        listeners = {"PLAINTEXT": port, "CONTROLLER": controller_port}
        config = home / "server.properties"
        config.write_text(
            format_properties(
                {
                    "process.roles": "broker,controller",
                    "node.id": "1",
                    "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
                    "controller.listener.names": "CONTROLLER",
                    "listeners": ",".join(f"{name}://{LOOPBACK}:{number}" for name, number in listeners.items()),
                    "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
                    "log.dirs": str(home / "data"),
                    "offsets.topic.replication.factor": "1",
                    "transaction.state.log.replication.factor": "1",
                    "transaction.state.log.min.isr": "1",
                    "auto.create.topics.enable": "false",
                }
            ),
            "ascii",
        )
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        run_tool(*release.java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)))
        command = release.java("kafka.Kafka", str(config))
        super().__init__(f"Kafka on {port}", command, port=port, output=home / "output.txt")

    def create_topics(self, names: Sequence[str], partitions: int) -> None:
        run_tool(*self._release.java("KafkaLoad", self.address, "topics", str(partitions), *names))

    def pace_command(self, topic: str, per_second: int, seconds: int, body_bytes: int) -> list[str]:
        """The command that sends at a steady pace."""
        return self._release.java(
            "KafkaLoad", self.address, "pace", topic, str(per_second), str(seconds), str(body_bytes)
        )

    def __exit__(self, *_: object) -> None:
        self.kill()  # nobody reads its logs again
