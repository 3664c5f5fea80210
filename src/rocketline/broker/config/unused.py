"""Settings of Apache's broker that ours has no use for, by the reason.

Java: BrokerConfig, NettyClientConfig, AuthConfig. Those whose silence would cost safety, data or copies of it stop the
start when they are set to anything but their default.
"""

# ruff: noqa: N815  # In Apache's spelling, as these are read from Apache's files and by nobody else.

from __future__ import annotations

from rocketline.settings import setting
from rocketline.settings.unused import threads, unused


@unused(
    only_default="access control is not part of Rocketline yet, so that anybody who reaches the port may do anything",
    help="Access control, which Rocketline has not yet; only the default is supported.",
)
class Security:
    """Who may do what. Java: BrokerConfig."""

    aclEnable: bool = False


@unused(
    only_default="access control is not part of Rocketline yet, so that anybody who reaches the port may do anything",
    help="Access control, which Rocketline has not yet; only the default is supported.",
    own=True,
)
class Access:
    """Who may do what. Java: AuthConfig."""

    authenticationEnabled: bool = False
    authorizationEnabled: bool = False
    migrateAuthFromV1Enabled: bool = False


@unused(help="Accepted for Apache's sake and without effect: there is no access control yet.", own=True)
class AccessDetails:
    """How accounts are kept and checked. Java: AuthConfig."""

    configName: str = ""
    clusterName: str = ""
    authConfigPath: str = ""
    authenticationProvider: str = ""
    authenticationMetadataProvider: str = ""
    authenticationStrategy: str = ""
    authenticationWhitelist: str = ""
    initAuthenticationUser: str = setting(
        "",
        key="initAuthenticationUser",
        own=True,
        secret=True,
        effect=False,
        help="Accepted for Apache's sake and without effect: there is no access control yet.",
    )
    innerClientAuthenticationCredentials: str = setting(
        "",
        key="innerClientAuthenticationCredentials",
        own=True,
        secret=True,
        effect=False,
        help="Accepted for Apache's sake and without effect: there is no access control yet.",
    )
    authorizationProvider: str = ""
    authorizationMetadataProvider: str = ""
    authorizationStrategy: str = ""
    authorizationWhitelist: str = ""
    userCacheMaxNum: int = 1000
    userCacheExpiredSecond: int = 600
    userCacheRefreshSecond: int = 60
    aclCacheMaxNum: int = 1000
    aclCacheExpiredSecond: int = 600
    aclCacheRefreshSecond: int = 60
    statefulAuthenticationCacheMaxNum: int = 10_000
    statefulAuthenticationCacheExpiredSecond: int = 60
    statefulAuthorizationCacheMaxNum: int = 10_000
    statefulAuthorizationCacheExpiredSecond: int = 60


@unused(
    only_default="our own connections use TLS with tls.enable=true, and no proxy",
    help="How the broker's own connections are made; only the default is supported.",
)
class ClientSecurity:
    """Connections to name servers. Java: NettyClientConfig."""

    useTLS: bool = False
    socksProxyConfig: str = "{}"


@unused(
    only_default="a broker of Rocketline is a master by itself; leave the key out",
    help="Another role than a master's; only the default is supported.",
)
class Role:
    """Brokers that stand in for each other."""

    enableSlaveActingMaster: bool = False
    enableRemoteEscape: bool = False
    enableControllerMode: bool = False
    isBrokerContainer: bool = False
    isInBrokerContainer: bool = False


@unused(
    only_default="this kind of store is not part of Rocketline; leave the key out, its data is not read either",
    help="A kind of store that Rocketline has not; only the default is supported.",
)
class StoreKind:
    """Other places for messages, offsets and configuration."""

    messageStorePlugIn: str = ""
    configManagerVersion: str = "v1"
    useSingleRocksDBForAllConfigs: bool = False
    persistConsumerOffsetIncrementally: bool = False
    popConsumerKVServiceInit: bool = False
    popConsumerKVServiceEnable: bool = False


@unused(help="Accepted for Apache's sake and without effect: there are no replicas.")
class Replicas:
    """Talk between a master, its replicas and a controller."""

    sendHeartbeatTimeoutMillis: int = 1000
    brokerHeartbeatInterval: int = 1000
    brokerNotActiveTimeoutMillis: int = 10_000
    syncBrokerMemberGroupPeriod: int = 1000
    cleanOfflineBrokerInterval: int = 30_000
    isolateLogEnable: bool = False
    forwardTimeout: int = 3000
    skipPreOnline: bool = False
    compatibleWithOldNameSrv: bool = True
    controllerAddr: str = ""
    fetchControllerAddrByDnsLookup: bool = False
    syncBrokerMetadataPeriod: int = 5000
    checkSyncStateSetPeriod: int = 5000
    syncControllerMetadataPeriod: int = 10_000
    controllerHeartBeatTimeoutMills: int = 10_000
    brokerElectionPriority: int = 2_147_483_647


@unused(help="Accepted for Apache's sake and without effect: requests wait in no thread pool.")
class ThreadPools:
    """Java's pools and their queues."""

    sendMessageThreadPoolNums: int = threads("sendMessageThreadPoolNums", lambda cores: min(cores, 4), "min(cores, 4)")
    putMessageFutureThreadPoolNums: int = threads(
        "putMessageFutureThreadPoolNums", lambda cores: min(cores, 4), "min(cores, 4)"
    )
    pullMessageThreadPoolNums: int = threads(
        "pullMessageThreadPoolNums", lambda cores: 16 + cores * 2, "16 + cores * 2"
    )
    litePullMessageThreadPoolNums: int = threads(
        "litePullMessageThreadPoolNums", lambda cores: 16 + cores * 2, "16 + cores * 2"
    )
    ackMessageThreadPoolNums: int = 16
    processReplyMessageThreadPoolNums: int = threads(
        "processReplyMessageThreadPoolNums", lambda cores: 16 + cores * 2, "16 + cores * 2"
    )
    queryMessageThreadPoolNums: int = threads("queryMessageThreadPoolNums", lambda cores: 8 + cores, "8 + cores")
    adminBrokerThreadPoolNums: int = 16
    clientManageThreadPoolNums: int = 32
    consumerManageThreadPoolNums: int = 32
    loadBalanceProcessorThreadPoolNums: int = 32
    heartbeatThreadPoolNums: int = threads("heartbeatThreadPoolNums", lambda cores: min(cores, 32), "min(cores, 32)")
    recoverThreadPoolNums: int = 32
    endTransactionThreadPoolNums: int = threads(
        "endTransactionThreadPoolNums",
        lambda cores: max(8 + cores * 2, min(cores, 4) * 4),
        "max(8 + cores * 2, min(cores, 4) * 4)",
    )
    putThreadPoolQueueCapacity: int = 10_000
    litePullThreadPoolQueueCapacity: int = 100_000
    ackThreadPoolQueueCapacity: int = 100_000
    replyThreadPoolQueueCapacity: int = 10_000
    queryThreadPoolQueueCapacity: int = 20_000
    clientManagerThreadPoolQueueCapacity: int = 1_000_000
    consumerManagerThreadPoolQueueCapacity: int = 1_000_000
    heartbeatThreadPoolQueueCapacity: int = 50_000
    endTransactionPoolQueueCapacity: int = 100_000
    adminBrokerThreadPoolQueueCapacity: int = 10_000
    loadBalanceThreadPoolQueueCapacity: int = 100_000


@unused(help="Accepted and without effect: POP consumption is not part of Rocketline yet.")
class Pop:
    """Consumption without assigned queues."""

    popPollingSize: int = 1024
    popPollingMapSize: int = 100_000
    popPollingMapExpireTimeSeconds: int = 600
    maxPopPollingSize: int = 100_000
    reviveInterval: int = 1000
    reviveMaxSlow: int = 3
    reviveScanTime: int = 10_000
    enableSkipLongAwaitingAck: bool = False
    reviveAckWaitMs: int = 180_000
    enablePopLog: bool = False
    enablePopBufferMerge: bool = False
    popCkStayBufferTime: int = 10_000
    popCkStayBufferTimeOut: int = 3000
    popCkMaxBufferSize: int = 200_000
    popCkOffsetMaxQueueSize: int = 20_000
    enablePopBatchAck: bool = False
    popLongPollingForceNotifyInterval: int = 800
    enableNotifyBeforePopCalculateLag: bool = True
    enableNotifyAfterPopOrderLockRelease: bool = True
    initPopOffsetByCheckMsgInMem: bool = True
    retrieveMessageFromPopRetryTopicV1: bool = True
    enableRetryTopicV2: bool = False
    popFromRetryProbability: int = 20
    popFromRetryProbabilityForPriority: int = 0
    priorityOrderAsc: bool = True
    popConsumerFSServiceInit: bool = True
    popConsumerKVServiceLog: bool = False
    popReviveMaxReturnSizePerRead: int = 16_384
    popReviveConcurrency: int = 32
    popReviveMaxAttemptTimes: int = 16
    popReviveSkipIfGroupAbsent: bool = True
    useSeparateRetryQueue: bool = False
    useMessageFilterForNotification: bool = True
    maxMessageFilterNumForNotification: int = 64
    enablePopMetrics: bool = True
    popResponseReturnActualRetryTopic: bool = False
    popInflightMessageThreshold: int = 10_000
    enablePopMessageThreshold: bool = False
    skipWhenCKRePutReachMaxTimes: bool = False
    appendAckAsync: bool = False
    appendCkAsync: bool = False
    enableLitePopLog: bool = False
    waitTimeMillsInAckQueue: int = 3000
    defaultMessageRequestMode: str = "PULL"
    defaultPopShareQueueNum: int = -1


@unused(help="Accepted for Apache's sake and without effect: nothing is kept in RocksDB.")
class RocksdbTransactions:
    """Half messages in RocksDB."""

    transactionCheckRocksdbCoreThreads: int = 2
    transactionCheckRocksdbMaxThreads: int = 5
    transactionCheckRocksdbQueueCapacity: int = 2000


@unused(help="Accepted and without effect: no metrics are exported yet.")
class Metrics:
    """OpenTelemetry."""

    metricsExporterType: str = "DISABLE"
    metricsOtelCardinalityLimit: int = 50_000
    metricsGrpcExporterTarget: str = ""
    metricsGrpcExporterHeader: str = ""
    metricGrpcExporterTimeOutInMills: int = 3000
    metricGrpcExporterIntervalInMills: int = 60_000
    metricLoggingExporterIntervalInMills: int = 10_000
    metricsPromExporterPort: int = 5557
    metricsPromExporterHost: str = ""
    metricsLabel: str = ""
    metricsExportBatchMaxDataPoints: int = 1000
    metricsInDelta: bool = False
    enableRemotingMetrics: bool = True
    enableMessageStoreMetrics: bool = True
    enableConnectionMetrics: bool = True
    enableTransactionMetrics: bool = True
    enableStatsMetrics: bool = True
    enableRequestMetrics: bool = True
    enableLagAndDlqMetrics: bool = True


@unused(help="Accepted for Apache's sake and without effect: there are no lite topics.")
class LiteTopics:
    """Many small topics in one."""

    enableLmqStats: bool = False
    enableLiteEventMode: bool = True
    liteEventCheckInterval: int = 10_000
    liteTtlCheckInterval: int = 120_000
    minLiteTTl: int = 900_000
    liteSubscriptionCheckInterval: int = 120_000
    liteSubscriptionCheckTimeoutMills: int = 180_000
    maxLiteSubscriptionCount: int = 100_000
    maxClientEventCount: int = 100
    liteEventFullDispatchDelayTime: int = 10_000
    liteEventFullDispatchDelayTimeForWildcardGroup: int = 10_000
    liteLagLatencyCollectEnable: bool = False
    liteLagLatencyMetricsEnable: bool = False
    liteLagCountMetricsEnable: bool = False
    liteLagLatencyTopK: int = 50


@unused(help="Accepted for Apache's sake and without effect: filters in SQL look at messages themselves.")
class Filters:
    """Shortcuts of filters in SQL."""

    enableCalcFilterBitMap: bool = False
    filterSupportRetry: bool = False


@unused(help="Accepted for Apache's sake and without effect: reads from disk are not slowed down.")
class ColdReadSettings:
    """Slowing down those who read from disk."""

    coldCtrStrategyEnable: bool = False
    usePIDColdCtrStrategy: bool = True
    cgColdReadThreshold: int = 3_145_728
    globalColdReadThreshold: int = 104_857_600


@unused(help="Accepted for Apache's sake and without effect: one event loop does this work.")
class Outgoing:
    """Connections to name servers. Java: NettyClientConfig."""

    clientWorkerThreads: int = 4
    clientCallbackExecutorThreads: int = 2
    clientOnewaySemaphoreValue: int = 65_535
    clientAsyncSemaphoreValue: int = 65_535
    channelNotActiveInterval: int = 60_000
    isScanAvailableNameSrv: bool = True
    clientChannelMaxIdleTimeSeconds: int = 120
    clientSocketSndBufSize: int = 0
    clientSocketRcvBufSize: int = 0
    clientPooledByteBufAllocatorEnable: bool = False
    clientCloseSocketIfTimeout: bool = True
    disableCallbackExecutor: bool = False
    disableNettyWorkerGroup: bool = False
    maxReconnectIntervalTimeSeconds: int = 60
    enableReconnectForGoAway: bool = True


@unused(help="Accepted for Apache's sake and without effect: Rocketline does this in one way only.")
class Tuning:
    """What is left."""

    recoverConcurrently: bool = False
    flushConsumerOffsetHistoryInterval: int = 60_000
    highSpeedMode: bool = False
    accountStatsPrintZeroValues: bool = True
    transferMsgByHeap: bool = True
    enableNetWorkFlowControl: bool = False
    asyncSendEnable: bool = True
    estimateAccumulation: bool = True
    fetchNamesrvAddrInterval: int = 10_000
    enableFastChannelEventProcess: bool = False
    accountStatsEnable: bool = True
    commercialSizePerMsg: int = 4096
    commercialBaseCount: int = 1
    subscriptionExpiredTimeout: int = 600_000
    printChannelGroups: bool = False
    printChannelGroupsMinNum: int = 5
    useStaticSubscription: bool = False
    lockInStrictMode: bool = False
    enableBroadcastOffsetStore: bool = True
    broadcastOffsetExpireSecond: int = 120
    broadcastOffsetExpireMaxSecond: int = 300
