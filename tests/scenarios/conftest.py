"""Scenarios with real servers: ours in `make test`, the same against Apache's in `make interop`."""

from __future__ import annotations

from support.clients.clusters import cluster

__all__ = ["cluster"]
