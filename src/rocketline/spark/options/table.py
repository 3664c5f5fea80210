"""Every option of `format("rocketmq")`: its name, its default, what it is for and what it means.

This table is the one place that knows names and defaults. What reads options asks here, so do documentation and the
search for the option that a mistyped one was meant to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STREAM, BATCH, SINK = "S", "B", "W"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `uses` has a letter for each of: stream read (S), batch read (B), write (W)."""

    name: str
    uses: str
    default: str
    """As a user would write it; empty: there is none."""
    meaning: str

    @property
    def key(self) -> str:
        """The name as Spark hands it over."""
        return self.name.lower()


_ROWS: Final = (
    ("nameServer", "SBW", "", "required: host:port, several separated by ; or ,"),
    ("subscribe", "SB", "", "topics, separated by commas"),
    ("subscribePattern", "SB", "", "a regular expression that whole topic names must match"),
    ("assign", "SB", "", 'queues, as JSON: {"orders": {"broker-a": [0, 1]}}'),
    ("topic", "SBW", "", "read: the same as subscribe, for one topic; write: the topic of all rows"),
    ("table", "SB", "messages", "messages, offsets, topics or groups"),
    ("startingOffsets", "SB", "",
     "earliest (the default of batches), latest (of streams, and for them only), group (where consumerGroup is), or "
     "JSON: topic, broker, queue, offset; -2 earliest, -1 latest"),
    ("startingTimestamp", "SB", "", "begin at the first message stored at this time, in ms since 1970"),
    ("startingOffsetsByTimestamp", "SB", "", "the same for each queue, as JSON: topic, broker, queue, time"),
    ("startingOffsetsByTimestampStrategy", "SB", "error", "error or latest, if no message is that new"),
    ("endingOffsets", "B", "latest", "latest, or JSON: topic, broker, queue, offset; -1 latest"),
    ("endingTimestamp", "B", "", "end before the first message stored at this time, in ms since 1970"),
    ("endingOffsetsByTimestamp", "B", "", "the same for each queue, as JSON: topic, broker, queue, time"),
    ("maxOffsetsPerTrigger", "S", "", "the most offsets of one micro-batch"),
    ("minOffsetsPerTrigger", "S", "", "wait for so many offsets before a micro-batch begins"),
    ("maxTriggerDelay", "S", "15m", "but no longer than this"),
    ("minPartitions", "SB", "", "at least so many tasks, if there is that much to read"),
    ("maxRecordsPerPartition", "SB", "", "the most offsets of one task"),
    ("minRecordsPerPartition", "SB", "5000", "queues with less share a task; 0: each queue has its own"),
    ("failOnDataLoss", "SB", "true", "false: go on, with a warning, when messages to be read are gone or broken"),
    ("tags", "SB", "*", "read messages with one of these tags only: A || B"),
    ("sql", "SB", "", "read messages whose properties fulfil this SQL92 expression only, if the broker can"),
    ("consumerGroup", "SB", "TOOLS_CONSUMER", "who reads, for access control and for group offsets"),
    ("commitOffsetsToBroker", "S", "false", "tell the broker how far consumerGroup is, one micro-batch late"),
    ("pullBatchSize", "SB", "1000", "messages asked for at once; brokers may give fewer"),
    ("pullTimeoutMs", "SB", "3000", "how long one pull may take"),
    ("fetchOffset.numRetries", "SB", "3", "how often a question about offsets is asked again"),
    ("fetchOffset.retryIntervalMs", "SB", "1000", "the time in between"),
    ("minOffsetPollIntervalMs", "S", "200", "brokers are asked for new messages this often at most"),
    ("partition.metadata.cache.ttl.ms", "SB", "30000", "how long it counts as known which queues there are and where"),
    ("producerGroup", "W", "rocketline_spark", "who writes, for access control"),
    ("sendTimeoutMs", "W", "3000", "how long sending a message or a batch may take"),
    ("retryTimesWhenSendFailed", "W", "2", "how often it is sent again"),
    ("maxMessageSize", "W", "4194304", "the most bytes of one message or batch"),
    ("sendBatchSize", "W", "256", "messages sent as one batch"),
    ("maxInFlight", "W", "8", "sends that may wait for their answers, for each task"),
    ("addIdentity", "W", "true", "add the property SPARK_ID, the same whenever a row is sent again"),
    ("rocketmq.accessKey", "SBW", "", "who signs the requests"),
    ("rocketmq.secretKey", "SBW", "", "what they are signed with"),
    ("rocketmq.securityToken", "SBW", "", "a token that is sent along"),
    ("rocketmq.namespace", "SBW", "", "topics and groups are namespace%name on the wire"),
    ("rocketmq.namespaceV2", "SBW", "", "sent with each request, for gateways"),
    ("rocketmq.unitName", "SBW", "", "a part of the client's id"),
    ("rocketmq.vipChannelEnabled", "SBW", "false", "use the brokers' second port"),
    ("rocketmq.connectTimeoutMillis", "SBW", "3000", "how long a connection may take"),
    ("rocketmq.mqClientApiTimeout", "SBW", "3000", "how long a question to a name server may take, in ms"),
    ("rocketmq.useTLS", "SBW", "false", "encrypt"),
    ("rocketmq.tls.client.trustCertPath", "SBW", "", "trust the certificates in this file; else the system's"),
    ("rocketmq.tls.client.certPath", "SBW", "", "our own certificate"),
    ("rocketmq.tls.client.keyPath", "SBW", "", "its key"),
    ("rocketmq.tls.client.keyPassword", "SBW", "", "the password of the key"),
    ("rocketmq.tls.client.authServer", "SBW", "true", "check the servers' certificates"),
)  # fmt: skip

OPTIONS: Final = tuple(Option(*row) for row in _ROWS)
BY_KEY: Final = {option.key: option for option in OPTIONS}
CLIENT_PREFIX: Final = "rocketmq."

SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "owner", "provider", "serialization.format"})
"""What Spark adds by itself; `option.…` too."""
