"""What `mqadmin` printed, without what may differ between two name servers or two moments."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from rocketline.testing.apache import MqadminOutput

_OWN_SETTINGS = ("rocketmqHome", "kvConfigPath", "configStorePath", "listenPort")
"""Settings in which two name servers on one machine must differ."""

_THROWN = re.compile(r"^(?:Caused by: )?[\w.]+\.(\w+Exception)(?:: CODE: (\d+))?", re.MULTILINE)


class Shown(NamedTuple):
    """A command, what it printed, and the exceptions it ended with."""

    command: str
    printed: Any
    """For `topicRoute` the route, for `clusterList` rows, else the lines; what has no order in Apache is sorted."""
    thrown: list[str]
    """From the outermost to its cause, with the response code. The text beside a code is a server's own."""


def read(output: MqadminOutput, name_server: str) -> Shown:
    text = output.out.replace(name_server, "NAME-SERVER")
    reader = _READERS.get(output.command[0], _lines) if text.strip() else _lines
    return Shown(" ".join(output.command), reader(text), thrown(output))


def thrown(output: MqadminOutput) -> list[str]:
    """The exceptions that a command ended with, or what it complained of."""
    found = [f"{name} {code}".rstrip() for name, code in _THROWN.findall(output.error)]
    return found or ([output.error] if output.status else [])


def _lines(text: str) -> list[str]:
    return sorted(line.rstrip() for line in text.splitlines() if line.strip())


def _route(text: str) -> dict[str, Any] | list[str]:
    if not text.startswith("{"):  # the form of `-l`
        return _lines(text)
    value: dict[str, Any] = json.loads(re.sub(r'(\d+):"', r'"\1":"', text))
    for key in ("brokerDatas", "queueDatas"):
        value[key].sort(key=lambda data: data["brokerName"])
    return value


def _cluster_rows(text: str) -> list[list[str]]:
    """Cluster, broker name, id, address, version, whether active; the figures between change from call to call."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [[*row[:5], row[-1]] for row in rows[1:]]


def _counted_rows(text: str) -> list[str]:
    """Topic and group, of 64 characters each: the figures behind them are the brokers', of the moment of the call."""
    return sorted(line[:130].rstrip() for line in text.splitlines() if line.strip())


def _settings(text: str) -> list[str]:
    return [line for line in _lines(text) if not line.startswith(_OWN_SETTINGS)]


_READERS = {
    "topicRoute": _route,
    "clusterList": _cluster_rows,
    "getNamesrvConfig": _settings,
    "statsAll": _counted_rows,
}
