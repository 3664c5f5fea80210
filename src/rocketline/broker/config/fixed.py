"""Which settings no update over the wire changes, and why: whoever can reach the port may send one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.settings import Settings
from rocketline.settings.declared import Declared, declared

_KEYS: Final = {
    "brokerId": "the broker's role",
    "brokerRole": "the broker's role",
    "haMasterAddress": "replication",
    "storeType": "the kind of store",
    "listenPort": "a port",
    "haListenPort": "a port",
    "bindAddress": "an address that is listened on",
    "brokerIP1": "an address that clients are told",
    "brokerIP2": "an address that replicas are told",
    "storePathCommitLog": "a path",
    "readOnlyCommitLogStorePaths": "a path",
    "storePathDLedgerCommitLog": "a path",
    "storePathEpochFile": "a path",
    "storePathBrokerIdentity": "a path",
    "mappedFileSizeCommitLog": "the size of files that are there already",
    "mappedFileSizeConsumeQueue": "the size of files that are there already",
    "mapperFileSizeBatchConsumeQueue": "the size of files that are there already",
    "maxHashSlotNum": "the size of files that are there already",
    "maxIndexNum": "the size of files that are there already",
}


def refusals(settings: Settings[BrokerConfig], pairs: Mapping[str, str]) -> list[str]:
    """Why an update is refused, one sentence for each key that would change what must stay."""
    known = declared(BrokerConfig)
    return [
        f"{key}: {reason}"
        for key, text in pairs.items()
        if (setting := known.get(key)) is not None
        and (reason := _reason(setting)) is not None
        and not _is_same(setting, settings.value, text)
    ]


def _reason(setting: Declared) -> str | None:
    if setting.rules.only_default:
        return setting.rules.only_default
    concern = _KEYS.get(setting.key) or setting.rules.concern or ("a path" if setting.type is Path else "")
    if setting.path[0] == "tls":
        concern = "security"
    if not concern:
        return None
    return f"it concerns {concern}, so change it where the broker is started, in its file or by an option"


def _is_same(setting: Declared, config: BrokerConfig, text: str) -> bool:
    try:
        return bool(setting.parse_update(text) == setting.value_in(config))
    except ValueError:
        return False
