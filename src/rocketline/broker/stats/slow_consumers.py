"""Barring groups that are so far behind that their reads come from disk and slow everybody down.

Java: BrokerController.protectBroker. Only with `disableConsumeIfConsumerReadSlowly`; an administrator lets them in
again.
"""

from __future__ import annotations

from dataclasses import replace

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.stats.counters import BrokerStats
from rocketline.logs import Log
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.settings import Settings

_log = Log(__name__)


class SlowConsumers:
    """Knows by the statistics how far each group was behind at its last read."""

    def __init__(self, stats: BrokerStats, groups: GroupTable, settings: Settings[BrokerConfig]) -> None:
        self._stats, self._groups, self._settings = stats, groups, settings

    def bar(self) -> None:
        """Disable the groups that were too far behind in any queue. To be called every three minutes."""
        config = self._settings.value
        if not config.disable_consume_if_consumer_read_slowly:
            return
        barred: dict[str, SubscriptionGroupConfig] = {}
        first: dict[str, object] = {}
        for (name, topic, _), size in list(self._stats.fall_bytes.items()):
            group = self._groups.get(name)
            if size > config.consumer_fallbehind_threshold and group is not None and group.consume_enable:
                first = first or {"group": name, "topic": topic, "bytes": size}
                barred[name] = replace(group, consume_enable=False, attributes={})
        if barred:
            self._groups.update(*barred.values())  # at once: there may be thousands, and each would be a write
            _log.warning("groups barred from consuming: too far behind", count=len(barred), **first)
