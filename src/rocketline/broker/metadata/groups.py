"""The consumer groups of a broker, kept in `subscriptionGroup.json`. Java: SubscriptionGroupManager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.attributes import GROUP_ATTRIBUTES, altered
from rocketline.broker.metadata.saved_table import ConfigTable, SavedTable
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError
from rocketline.logs import Throttle
from rocketline.model import names
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.route import PERM_READ
from rocketline.settings import Settings
from rocketline.store.files.json_files import load_json
from rocketline.store.filesystem import FileSystem, told
from rocketline.wire.bodies.groups import SubscriptionGroupTable
from rocketline.wire.codes import V3_4_9

_PREDEFINED = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", names.TRANSACTION_GROUP,
)  # fmt: skip
GROUPS_MAX: Final = 50_000
"""Anybody can make one: by asking for it, or by a heartbeat. The table of so many has 30 to 50 MB, and what
`CONFIGS_BYTES_MAX` says."""
FORBIDDEN_MAX: Final = 10_000
"""Topics that groups may not read, of all groups together."""
CONFIG_BYTES_MAX: Final = 32 * 1024
"""What the lists and texts of one group's configuration may take: a thousand waits, or a hundred subscriptions. Their
text is made in one go, at a millisecond or two."""
CONFIGS_BYTES_MAX: Final = 64 * 1024 * 1024
"""And those of all groups."""
_SUBSCRIPTION_BYTES: Final = 256
_WAIT_BYTES: Final = 32
_GROUPS, _FORBIDDEN = "subscriptionGroupTable", "forbiddenTable"


class GroupTable(ConfigTable[SubscriptionGroupConfig]):
    """All groups, and which topics each may not read. A change is on disk before it shows.

    Every method that may change something raises `OSError` if that cannot be saved; nothing has changed then. Only a
    group that is made because somebody uses it is taken in all the same: who can read must not depend on a full disk.

    Differs from Apache: to let a group read one topic again leaves its other topics forbidden, and is saved.
    """

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        settings: Settings[BrokerConfig],
        clock: Clock,
        log: Throttle,
        saved: SubscriptionGroupTable | None = None,
    ) -> None:
        self._settings, self._log = settings, log
        known = {group: SubscriptionGroupConfig(group) for group in _PREDEFINED}
        known |= saved.subscription_group_table if saved else {}
        version, forbidden = (saved.data_version, saved.forbidden_table) if saved else (None, {})
        self._table = SavedTable(
            files, path, _GROUPS, SubscriptionGroupConfig, clock, known, version, {_FORBIDDEN: forbidden}
        )
        self._bytes_of: dict[str, int] = {}
        """Of groups that have lists or texts; most have none."""
        self._bytes = 0
        self._count(self._table.entries.values())

    @classmethod
    def load(
        cls, files: FileSystem, path: Path, settings: Settings[BrokerConfig], clock: Clock, log: Throttle
    ) -> GroupTable:
        """The predefined groups, and over them what the file holds. Raises `CorruptStoreError`."""
        return cls(files, path, settings, clock, log, load_json(files, path, SubscriptionGroupTable))

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The group, made if the settings allow it. None if they do not, or nothing can be called so."""
        known = self._table.entries.get(group)
        return known if known is not None else self.find_all([group]).get(group)

    def find_all(self, groups: Iterable[str]) -> dict[str, SubscriptionGroupConfig]:
        """As `find` for several groups, with one save for all. Those that do not exist are left out."""
        wanted = list(groups)
        missing = [group for group in wanted if group not in self._table.entries and self._may_be_made(group)]
        if missing and not self.has_room(missing):
            self._log.warning("no room for new groups", f"there are {GROUPS_MAX}: delete some", first=missing[0])
        elif missing:
            self._make({group: SubscriptionGroupConfig(group) for group in missing})
        return {group: config for group in wanted if (config := self.get(group)) is not None}

    def _make(self, groups: Mapping[str, SubscriptionGroupConfig]) -> None:
        try:
            self._table.change(groups)
        except OSError as error:
            self._log.warning("new groups not saved yet", told(error), first=next(iter(groups)), groups=len(groups))
            self._table.lend(groups)

    def has_room(self, groups: Iterable[str]) -> bool:
        """There are not too many for those of these that are new."""
        return self._table.has_room(groups, GROUPS_MAX)

    def has_bytes(self, sizes: Mapping[str, int]) -> bool:
        """The lists and texts of all groups do not become too many bytes with these, by group; or they do not grow."""
        grown = sum(sizes.values()) - sum(self._bytes_of.get(group, 0) for group in sizes)
        return grown <= 0 or self._bytes + grown <= CONFIGS_BYTES_MAX

    def _count(self, configs: Iterable[SubscriptionGroupConfig]) -> None:
        for config in configs:
            self._bytes -= self._bytes_of.pop(config.group_name, 0)
            if size := config_bytes(config):
                self._bytes_of[config.group_name] = size
                self._bytes += size

    def _may_be_made(self, group: str) -> bool:
        config = self._settings.value
        is_system = group.startswith(names.SYSTEM_GROUP_PREFIX) and config.enable_create_sys_group
        if not config.auto_create_subscription_group and not is_system:
            return False
        try:
            names.check_group(group)
        except LocalProtocolError:
            return False
        return True

    @property
    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Permissions taken away, as bits by group and topic; replaced by every change, never edited."""
        return self._table.others[_FORBIDDEN]

    def update(self, *configs: SubscriptionGroupConfig) -> None:
        """Make or replace groups, all or none. Their attributes are changes, with signed keys; see `attributes`.

        Raises `RemoteProtocolError` for a change of attributes that is not allowed.
        """
        changes = {c.group_name: replace(c, attributes=self._attributes(c)) for c in configs}
        if changes:
            self._table.change(changes)
            self._count(changes.values())

    def _attributes(self, config: SubscriptionGroupConfig) -> dict[str, str]:
        known = self.get(config.group_name)
        return altered(GROUP_ATTRIBUTES, None if known is None else known.attributes, config.attributes)

    def delete(self, group: str) -> None:
        """Remove a group and what it may not read; one that is not there is as good as removed.

        Whoever asks sees to all else of it."""
        if group in self._table.entries or group in self.forbidden:
            self._table.change({group: None}, {_FORBIDDEN: {group: None}} if group in self.forbidden else None)
            self._bytes -= self._bytes_of.pop(group, 0)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """The group may not read the topic."""
        return bool(self.forbidden.get(group, {}).get(topic, 0) & PERM_READ)

    def set_forbidden(self, group: str, topic: str, *, is_forbidden: bool) -> None:
        """Keep a group from reading a topic, or let it read again."""
        known = self.forbidden.get(group, {})
        bits = known.get(topic, 0) | PERM_READ if is_forbidden else known.get(topic, 0) & ~PERM_READ
        if bits != known.get(topic, 0):
            self._table.change({}, {_FORBIDDEN: {group: {topic: bits or None}}})

    def may_forbid(self, group: str, topic: str) -> bool:
        """There are not too many topics that groups may not read for another one."""
        is_known = topic in self.forbidden.get(group, {})
        return is_known or sum(map(len, self.forbidden.values())) < FORBIDDEN_MAX


def config_bytes(config: SubscriptionGroupConfig) -> int:
    """What the lists and texts of a group's configuration take, which whoever sends it makes as long as he likes.

    >>> config_bytes(SubscriptionGroupConfig("g"))
    0
    """
    custom, subscriptions = config.group_retry_policy.customized_retry_policy, config.subscription_data_set or ()
    if custom is None and not subscriptions:  # as it is with nearly all of thousands
        return 0
    size = _WAIT_BYTES * len(custom.next if custom is not None else ()) + _SUBSCRIPTION_BYTES * len(subscriptions)
    if size <= CONFIG_BYTES_MAX:  # beyond that nobody needs to know how much, and there may be thousands to look at
        texts = (text for one in subscriptions for text in (one.topic, one.expression_type, one.expression) if text)
        size += sum(len(text.encode("utf-8", "replace")) for text in texts)
    return size


def retries_max(group: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """How often a message is retried: as its consumer asks, if its client is new enough for that to count, or as its
    group is configured."""
    return asked if asked is not None and version >= V3_4_9 else group.retry_max_times
