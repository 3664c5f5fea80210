"""Scenarios with real servers: ours in `make test`, the same against Apache's in `make interop`."""

from __future__ import annotations

from client_clusters import cluster

__all__ = ["cluster"]
