"""What a push consumer tells administrators of its options. Java: DefaultMQPushConsumerImpl.consumerRunningInfo."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from rocketline.client.push.options import PushOptions
from rocketline.model.subscription import ConsumeType

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_VERSION: Final = "V5_5_0"  # the name of wire.codes.CURRENT_VERSION
_SECRET: Final = frozenset({"credentials", "rpc_hooks", "tls"})


def running_properties(
    options: PushOptions, runtime: ClientRuntime, *, group: str, threads: int, started_ms: int
) -> dict[str, str]:
    """The options as text, and what Java's consumers tell beside theirs. Secrets are left out."""
    told = {field.name: str(getattr(options, field.name)) for field in fields(options) if field.name not in _SECRET}
    return told | {
        "consumerGroup": group,
        "messageModel": options.message_model.name,
        "PROP_CONSUMEORDERLY": str(options.orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(threads),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in runtime.name_servers),
        "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.name,
        "PROP_CLIENT_VERSION": _VERSION,
    }
