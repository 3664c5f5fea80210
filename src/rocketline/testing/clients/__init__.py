"""Clients of other languages, fetched from their registries and driven by programs of ours: all speak the same.

`fetching` fetches and builds, `program` starts one and talks to it line by line; the programs are in `go`, `node` and
`cpp`, and `own` is the same for our own clients. Java's is in `testing.apache`. Clients of Apache's gRPC proxy have
calls of their own, in `grpc`; their programs are in `grpc_java` and `grpc_python`.
"""

from rocketline.testing.clients.fetching import (
    cpp_client,
    go_client,
    java_client,
    java_grpc_client,
    node_client,
    own_client,
    python_grpc_client,
)
from rocketline.testing.clients.grpc import GrpcCallError, GrpcClient, GrpcMessage, GrpcReceipt
from rocketline.testing.clients.program import ClientFailedError, ClientProgram, Delivered, Portion, Sent
from rocketline.testing.clients.watching import Watched, Watcher

__all__ = [
    "ClientFailedError",
    "ClientProgram",
    "Delivered",
    "GrpcCallError",
    "GrpcClient",
    "GrpcMessage",
    "GrpcReceipt",
    "Portion",
    "Sent",
    "Watched",
    "Watcher",
    "cpp_client",
    "go_client",
    "java_client",
    "java_grpc_client",
    "node_client",
    "own_client",
    "python_grpc_client",
]
