"""The fingerprint of a heartbeat, and the check of a subscription before the first one."""

from __future__ import annotations

from dataclasses import replace

from rocketline.model.heartbeat import ConsumerData, HeartbeatData
from rocketline.model.java_hash import java_string_hash
from rocketline.model.subscription import SubscriptionData
from rocketline.record import record
from rocketline.wire.bodies.codec import encode


@record
class CheckClientRequestBody:
    """Would this subscription be accepted? Java: CheckClientRequestBody."""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription_data: SubscriptionData | None = None


def heartbeat_fingerprint(heartbeat: HeartbeatData) -> int:
    """A hash of what the heartbeat subscribes to, whoever sends it and whenever. Java: computeHeartbeatFingerprint."""
    anonymous = replace(
        heartbeat,
        client_id="",
        consumer_data_set=[_without_versions(consumer) for consumer in heartbeat.consumer_data_set],
        heartbeat_fingerprint=0,
        without_sub=False,
    )
    return java_string_hash(encode(anonymous).decode())


def _without_versions(consumer: ConsumerData) -> ConsumerData:
    subscriptions = [replace(subscription, sub_version=0) for subscription in consumer.subscription_data_set]
    return replace(consumer, subscription_data_set=subscriptions)
