"""A pipeline on a bad day: its driver and its Python workers are killed while it lands, its broker starts again.

One source lands into a Parquet, a Delta and an Iceberg table at once, while messages are produced. Whatever was killed
is started again, as a supervisor would. In the end `rocketline pipeline verify` must find every offset exactly once in
each table, and every message that a broker acknowledged is there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil
import pyarrow.parquet as pq

from rocketline import Message, Producer
from rocketline.errors import RocketlineError
from rocketline.pipelines.definition import TableFormat
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.runs.checkpoint import StreamCheckpoint
from rocketline.pipelines.tables import parquet
from rocketline.pipelines.tables.table import open_table
from rocketline.testing import setting_up
from rocketline.testing.server_process import ServerProcess
from support.pipelines.runs import command

MASTER: Final = ("--master", "local[2,4]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")
"""Drivers that live for seconds: the JVM's second compiler would not pay."""
TOPIC: Final = "orders"
TASK: Final = "pyspark.daemon"
"""The Python processes of Spark's tasks. The task is done again."""
PLANNER: Final = "python_streaming_source"
"""The Python process of a stream. The query fails with it, and the driver ends: one kill costs two starts."""
_CHUNK: Final = 50
_PATIENCE_S: Final = 150.0
_POLL_S: Final = 0.05
_FILE: Final = """\
name = "kills"

[sources.orders]
nameServer = "{address}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = {batch}

[steps.parquet]
from = "orders"
table = {{ format = "parquet", path = "parquet" }}

[steps.delta]
from = "orders"
table = {{ format = "delta", path = "delta" }}

[steps.iceberg]
from = "orders"
table = {{ format = "iceberg", path = "iceberg" }}
"""


@dataclass(slots=True)
class Cluster:
    """A name server, and a broker that can be started again in its place."""

    name_server: ServerProcess
    start: Callable[[], ServerProcess]
    broker: ServerProcess

    def restart_broker(self) -> None:
        """Kill it, and start it from what it has stored."""
        self.broker.kill()
        self.broker = self.start()
        self.broker.wait_until_ready()

    def close(self) -> None:
        self.broker.kill()
        self.name_server.kill()


@dataclass(slots=True)
class Production:
    """Sends messages in a thread of its own, until each is acknowledged: so many at once as it is allowed."""

    address: str
    sent: int = 0
    failed: int = 0
    _allowed: int = 0
    _is_over: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def allow(self, count: int) -> None:
        with self._changed:
            self._allowed += count
            self._changed.notify_all()

    def wait_until_sent(self) -> None:
        with self._changed:
            is_done = self._changed.wait_for(lambda: self.sent == self._allowed, timeout=_PATIENCE_S)
        assert is_done, f"only {self.sent} of {self._allowed} messages were sent"

    def end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def run(self) -> None:
        with Producer(self.address, group="kills", send_timeout_s=2.0) as producer:
            while self._next():
                messages = [
                    Message(TOPIC, b"%d" % number, keys=[str(number)])
                    for number in range(self.sent, self.sent + _CHUNK)
                ]
                try:
                    producer.send(messages)
                except RocketlineError:
                    self.failed += 1
                    time.sleep(0.2)  # the broker is down; a real producer would back off, too
                    continue
                with self._changed:
                    self.sent += _CHUNK
                    self._changed.notify_all()

    def _next(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self.sent + _CHUNK <= self._allowed)
            return not self._is_over


class Supervised:
    """`rocketline pipeline run` as a process group of its own, started again when it ends by itself."""

    def __init__(self, file: Path, *options: str) -> None:
        self._command = [sys.executable, "-m", "rocketline", "pipeline", "run", str(file), *MASTER, *options]
        self._output = file.parent / "output.txt"
        self.starts = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        with self._output.open("ab") as output:
            return subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, f"not {what} in {_PATIENCE_S:g} s:\n{self.tail()}"
            if self._process.poll() is not None:
                self._process = self._start()
            time.sleep(_POLL_S)

    def wait_until_success(self, *, starts_max: int = 3) -> None:
        """Wait for a run that ends with status 0."""
        while self._process.wait(_PATIENCE_S):
            assert self.starts < starts_max, f"it failed {starts_max} times:\n{self.tail()}"
            self._process = self._start()

    def kill(self) -> None:
        """SIGKILL to the driver's Python and JVM and all that they have started."""
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_worker(self, random: Random, kind: str) -> bool:
        """SIGKILL to one Python process of this kind that works for Spark. Says whether there was one."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
            if workers := [each for each in children if _is_worker(each, kind)]:
                random.choice(workers).kill()
                return True
        return False

    def tail(self) -> str:
        return self._output.read_text("utf-8", "replace")[-4000:]


def _is_worker(process: psutil.Process, kind: str) -> bool:
    try:
        return any(kind in part for part in process.cmdline()[1:3])
    except psutil.Error:
        return False


@dataclass(slots=True)
class Campaign:
    """The whole: so many kills, then peace, then the verdict."""

    home: Path
    cluster: Cluster
    messages: int
    kills: int
    seed: int = 0
    batch: int = 2000
    killed: Counter[str] = field(default_factory=Counter)
    sent: int = 0

    @property
    def file(self) -> Path:
        return self.home / "kills.toml"

    def fight(self) -> None:
        """Produce, land and kill, until all kills are made and everything is landed."""
        address = self.cluster.name_server.address
        setting_up.create_topic(address, [self.cluster.broker.address], TOPIC, queues=4)
        self.home.mkdir(parents=True, exist_ok=True)
        self.file.write_text(_FILE.format(address=address, topic=TOPIC, batch=self.batch), "utf-8")
        random = Random(self.seed)
        with producing(address) as production:
            for number in range(self.kills):
                self._suffer(random, number, production)
            production.wait_until_sent()
            self.sent = production.sent
        with ended(Supervised(self.file)) as run:
            run.wait_until_success()

    def _share(self, number: int) -> int:
        """How many messages are produced during one kill: all together make up the whole, in whole chunks."""
        chunks = self.messages // _CHUNK
        return (chunks * (number + 1) // self.kills - chunks * number // self.kills) * _CHUNK

    def _suffer(self, random: Random, number: int, production: Production) -> None:
        """A run that lands something and does not end well: a worker is killed, sometimes the broker, then the driver.

        Half of the messages come after the first blow, so that there is something to land under each.
        """
        share, before = self._share(number), self._batches()
        production.allow(share // 2)
        with ended(Supervised(self.file, "--trigger", "200 milliseconds")) as run:
            run.wait_until(lambda: self._batches() > before, "landed a batch")
            if number % 3 == 0:
                self.cluster.restart_broker()
                self.killed["broker"] += 1
            kind = PLANNER if number % 5 == 4 else TASK
            run.wait_until(lambda: run.kill_worker(random, kind), "given a Python worker to kill")
            self.killed["worker"] += 1
            before = self._batches()
            production.allow(share - share // 2)
            run.wait_until(lambda: self._batches() > before, "landed more after the first blow")
            time.sleep(random.uniform(0, 1.0))  # to hit another moment each time
        self.killed["driver"] += 1

    def _batches(self) -> int:
        """How many batches both queries have done: the one of the Parquet table, and the one of the other two."""
        folder = self.home / "kills-state" / "checkpoints"
        return min(StreamCheckpoint(folder / name).last_done() for name in ("parquet", "from-orders")) + 1

    def verify(self) -> dict[str, dict[str, Any]]:
        """What `rocketline pipeline verify` says of each table, in the Spark of this process. Its status must be 0."""
        done = command("verify", self.file, "--json")
        assert done.exit_code == 0, f"{done.stdout}\n{done.stderr}"
        return {found["table"]: found for found in map(json.loads, done.stdout.splitlines())}

    def keys(self) -> dict[str, Counter[str]]:
        """The keys of the messages in each table, as readers without Spark see them."""
        pipeline = load(self.file)
        found = {}
        for name, target in pipeline.tables():
            is_parquet = target.format is TableFormat.PARQUET
            files = parquet.files(target) if is_parquet else open_table(target).files()
            tables = [pq.read_table(path.removeprefix("file://"), columns=["keys"]) for path in files]
            found[name] = Counter[str](key for table in tables for key in table["keys"].to_pylist())
        return found


@contextmanager
def ended(run: Supervised) -> Iterator[Supervised]:
    """A run that is killed at the end of the block, if it is there still."""
    try:
        yield run
    finally:
        run.kill()


@contextmanager
def producing(address: str) -> Iterator[Production]:
    production = Production(address)
    thread = threading.Thread(target=production.run, name="production")
    thread.start()
    try:
        yield production
    finally:
        production.end()
        thread.join()
