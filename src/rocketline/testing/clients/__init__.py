"""Clients of other languages, fetched from their registries and driven by programs of ours: all speak the same."""

from rocketline.testing.clients.fetching import cpp_client, go_client, java_client, node_client, own_client
from rocketline.testing.clients.program import ClientFailedError, ClientProgram, Delivered, Portion, Sent
from rocketline.testing.clients.watching import Watched, Watcher

__all__ = [
    "ClientFailedError",
    "ClientProgram",
    "Delivered",
    "Portion",
    "Sent",
    "Watched",
    "Watcher",
    "cpp_client",
    "go_client",
    "java_client",
    "node_client",
    "own_client",
]
