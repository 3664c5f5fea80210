"""The topics that a store's folder knows, so that a mistyped one is an error and not an empty table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocketline.errors import ConfigError, RemoteProtocolError
from rocketline.logs import Log
from rocketline.model.names import REPLY_TOPIC_SUFFIX, is_dlq_topic, is_retry_topic, is_system_topic
from rocketline.spark.options.store import StoreOptions
from rocketline.spark.store_files.log_files import topic_lists
from rocketline.spark.store_files.queue_units import topics_with_queues
from rocketline.wire import fastjson

_NAMED_MAX: Final = 20
"""How many topics an error names."""
_ROCKSDB: Final = ("config/topics", "config/metadata", "consumequeue_rocksdb", "consumequeue/CURRENT")
"""What Apache's broker leaves where it keeps topics or queues in RocksDB, by its settings."""

_log = Log(__name__)


def check_topics(options: StoreOptions) -> None:
    """Raise `ConfigError` for topics that the folder does not know; with `failOnDataLoss=false` that is a warning.

    A folder that knows none at all, as one with nothing but a log, says nothing of them; nor does one with a RocksDB,
    beside which an old list may lie. Those that come into being when they are needed are not missed.
    """
    known = _known_topics(Path(options.path)) if options.topics else set()
    unknown = [name for name in options.topics if name not in known and not _comes_when_needed(name)]
    if not known or not unknown:
        return
    problem = f"{options.path} knows no topic {' and no topic '.join(map(repr, unknown))}, but {_listed(known)}"
    if options.fail_on_data_loss:
        raise ConfigError([f"{problem}. Set failOnDataLoss=false to look for messages of a deleted topic in the log"])
    _log.warning("the log is searched for topics that the store does not know", problem=problem)


def is_products_own(topic: str) -> bool:
    """No application has made it."""
    return is_system_topic(topic) or topic.endswith(REPLY_TOPIC_SUFFIX)


def _comes_when_needed(topic: str) -> bool:
    """Retry and dead-letter topics are made when they are first used: that one is missing is no error."""
    return is_products_own(topic) or is_retry_topic(topic) or is_dlq_topic(topic)


def _known_topics(root: Path) -> set[str]:
    """Topics with queues, and those of the broker's list, which may have no message yet; none if that is unsure."""
    if any((root / name).exists() for name in _ROCKSDB):
        return set()
    known = topics_with_queues(root)
    for content in topic_lists(root):
        try:
            known |= fastjson.parse(content)["topicConfigTable"].keys()
        except (RemoteProtocolError, LookupError, TypeError, AttributeError):  # torn; its older twin may be whole
            continue
    return known


def _listed(known: set[str]) -> str:
    own = sorted(name for name in known if not is_products_own(name))
    more = f" and {len(own) - _NAMED_MAX} more" if len(own) > _NAMED_MAX else ""
    return (", ".join(own[:_NAMED_MAX]) or "only the product's own") + more
