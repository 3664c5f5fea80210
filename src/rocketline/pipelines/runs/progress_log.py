"""What a pipeline did, a JSON object a line, beside its checkpoints: for `status`, for `report`, for the progress bar.

It is a diary, not the truth: a crash may cost its last lines, and nothing that decides reads it.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from rocketline.pipelines.runs.landing import Landed

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

FILE_NAME, OLD_FILE_NAME = "progress.jsonl", "progress.old.jsonl"
STARTED, PROGRESS, LANDED = "started", "progress", "landed"
OBSERVED: Final = "messages"
"""How the name begins of what is observed about rows that come from a topic: a query may read several."""
OBSERVED_QUARANTINE: Final = "quarantine"
"""Likewise, about rows that go to a side table by a query of its own."""

Record = dict[str, Any]


class ProgressLog:
    """The file, and who else wants to hear of it. Several threads may write.

    A file that has grown to `bytes_max` takes the place of the one before it, which is forgotten.
    """

    def __init__(
        self,
        state: Path,
        tell: Callable[[Record], None] = lambda record: None,
        *,
        bytes_max: int = 16 * 1024**2,
    ) -> None:
        self._path, self._tell, self._bytes_max = state / FILE_NAME, tell, bytes_max
        self._lock = threading.Lock()
        state.mkdir(parents=True, exist_ok=True)

    def landed(self, landed: Landed) -> None:
        self._write({"kind": LANDED, **asdict(landed)})

    def started(self, query: str, time_ms: int) -> None:
        self._write({"kind": STARTED, "query": query, "time_ms": time_ms})

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """`progress`: Spark's own report of a trigger."""
        self._write(record_of(progress))

    def _write(self, record: Record) -> None:
        with self._lock:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
                size = file.tell()
            if size > self._bytes_max:
                self._path.replace(self._path.with_name(OLD_FILE_NAME))
        self._tell(record)


def read_log(state: Path) -> Iterator[Record]:
    """All records so far. A line that a crash has torn is left out."""
    for path in (state / OLD_FILE_NAME, state / FILE_NAME):
        with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
            for line in file:
                with suppress(ValueError):
                    yield json.loads(line)


def record_of(progress: Mapping[str, Any]) -> Record:
    """What we keep of a trigger's report."""
    sources = progress.get("sources") or []
    operators = progress.get("stateOperators") or []
    began_ms = _milliseconds(progress["timestamp"])
    took_ms = (progress.get("durationMs") or {}).get("triggerExecution", 0)
    observed = progress.get("observedMetrics") or {}
    return {
        "kind": PROGRESS,
        "query": progress["name"],
        "batch": progress["batchId"],
        "time_ms": began_ms,
        "took_ms": took_ms,
        "rows": progress.get("numInputRows", 0),
        "lag": lag_of(sources),
        "positions": {queue: end for each in sources for queue, end in _queues(each.get("endOffset")).items()} or None,
        "watermark": (progress.get("eventTime") or {}).get("watermark"),
        "state_rows": sum(each.get("numRowsTotal", 0) for each in operators),
        "too_late": sum(each.get("numRowsDroppedByWatermark", 0) for each in operators),
        "waited_ms": _waits([observed[name] for name in observed if name.startswith(OBSERVED)], began_ms + took_ms),
        "quarantined": (observed.get(OBSERVED_QUARANTINE) or {}).get("rows"),
    }


def lag_of(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """How many messages wait in the topics; None if there are only tables."""
    found = None
    for source in sources:
        latest, end = _queues(source.get("latestOffset")), _queues(source.get("endOffset"))
        if latest:
            found = (found or 0) + sum(max(0, offset - end.get(queue, offset)) for queue, offset in latest.items())
    return found


def _queues(offset: Any) -> dict[str, int]:
    """The ends of queues by `topic broker queue`, in an offset of ours; nothing in others."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    topics = offset.get("queues") if isinstance(offset, Mapping) else None
    return {
        f"{topic} {broker} {queue}": end
        for topic, brokers in (topics or {}).items()
        for broker, queues in brokers.items()
        for queue, end in queues.items()
    }


def _waits(observed: Sequence[Mapping[str, Any] | None], done_ms: int) -> list[int] | None:
    """How long the newest and the oldest message of a batch had been stored when the batch was done."""
    newest, oldest = ([each[key] for each in observed if each and each.get(key)] for key in ("newest_ms", "oldest_ms"))
    if not newest or not oldest:
        return None
    return [max(0, done_ms - max(newest)), max(0, done_ms - min(oldest))]


def _milliseconds(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


class Listener(StreamingQueryListener):
    """Hears of each trigger from Spark and writes it down. `after` is called with the query's name.

    Spark tells it by and by, in a thread of its own.
    """

    def __init__(self, log: ProgressLog, after: Callable[[str], None]) -> None:
        self._log, self._after = log, after
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def wait_for_ends(self, runs: set[str], timeout_s: float = 10.0) -> None:
        """Return when Spark has told everything about these runs of queries, which have ended; or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: runs <= self._ended, timeout_s)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's names
        self._log.started(event.name or "", _milliseconds(event.timestamp))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = json.loads(event.progress.json)
        self._log.progressed(progress)
        self._after(progress["name"])

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()
