"""The real Apache RocketMQ as a peer: fetched from Maven once, started on free ports, asked through its own clients.

`release` fetches, `servers` has its name server, broker and proxy as child processes, `clients` its Java clients and
`mqadmin`; what runs inside their JVMs is in `java`. Clients of other languages are in `testing.clients`.
"""

from rocketline.testing.apache.clients import ClientJvm, MqadminOutput, Traffic
from rocketline.testing.apache.release import Release, fetch
from rocketline.testing.apache.servers import ApacheBroker, ApacheNameServer, ApacheProxy
from rocketline.testing.broker import cluster_info
from rocketline.testing.cache import ToolError
from rocketline.testing.server_process import free_port, running

__all__ = [
    "ApacheBroker",
    "ApacheNameServer",
    "ApacheProxy",
    "ClientJvm",
    "MqadminOutput",
    "Release",
    "ToolError",
    "Traffic",
    "cluster_info",
    "fetch",
    "free_port",
    "running",
]
