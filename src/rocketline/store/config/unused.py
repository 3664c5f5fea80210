"""Settings of Apache's store that ours has no use for, by the reason. Java: MessageStoreConfig.

Those whose silence would cost data or copies of it stop the start when they are set to anything but their default.
"""

# ruff: noqa: N815  # In Apache's spelling, as these are read from Apache's files and by nobody else.

from __future__ import annotations

from rocketline.settings.unused import unused


@unused(
    only_default="this kind of store is not part of Rocketline; leave the key out, its data is not read either",
    help="A kind of store that Rocketline has not; only the default is supported.",
)
class Absent:
    """Other ways to keep messages."""

    storeType: str = "default"
    enableConsumeQueueExt: bool = False
    enableLmq: bool = False
    enableMultiDispatch: bool = False
    timerRocksDBEnable: bool = False
    transRocksDBEnable: bool = False
    indexRocksDBEnable: bool = False
    rocksdbCQDoubleWriteEnable: bool = False


@unused(
    only_default="a log on several paths is not supported; name one with storePathCommitLog",
    help="Further folders of the log, to read from; not supported.",
    own=True,
)
class ReadOnlyPaths:
    """A log on several disks."""

    readOnlyCommitLogStorePaths: str = ""


@unused(
    only_default="a broker of Rocketline is a master without replicas; leave the key out",
    help="Replication, which Rocketline has not; only the default is supported.",
)
class Replication:
    """More than one copy of a store."""

    brokerRole: str = "ASYNC_MASTER"
    duplicationEnable: bool = False
    enableDLegerCommitLog: bool = False
    totalReplicas: int = 1
    inSyncReplicas: int = 1
    minInSyncReplicas: int = 1
    allAckInSyncStateSet: bool = False
    enableAutoInSyncReplicas: bool = False
    asyncLearner: bool = False


@unused(
    only_default="a broker of Rocketline is a master without replicas; leave the key out",
    help="Where a replica finds its master; not supported.",
    own=True,
)
class Master:
    """The master of a replica."""

    haMasterAddress: str = ""


@unused(help="Accepted for Apache's sake and without effect: there are no replicas.", own=True)
class ReplicaPlaces:
    """Names and places that only replicas need."""

    storePathDLedgerCommitLog: str = ""
    storePathEpochFile: str = ""
    storePathBrokerIdentity: str = ""
    dLegerGroup: str = ""
    dLegerPeers: str = ""
    dLegerSelfId: str = ""
    preferredLeaderId: str = ""


@unused(help="Accepted for Apache's sake and without effect: there are no replicas.")
class ReplicaPacing:
    """The traffic between replicas."""

    haSendHeartbeatInterval: int = 5000
    haHousekeepingInterval: int = 20_000
    haTransferBatchSize: int = 32_768
    haMaxGapNotInSync: int = 268_435_456
    slaveTimeout: int = 3000
    offsetCheckInSlave: bool = False
    enableBatchPush: bool = False
    haFlowControlEnable: bool = False
    maxHaTransferByteInSecond: int = 104_857_600
    haMaxTimeSlaveNotCatchup: int = 15_000
    syncMasterFlushOffsetWhenStartup: bool = False
    maxChecksumRange: int = 1_073_741_824
    replicasPerDiskPartition: int = 1
    maxSlaveResendLength: int = 268_435_456
    syncFromLastFile: bool = False


@unused(help="Accepted for Apache's sake and without effect: nothing is kept in RocksDB.")
class RocksDb:
    """Apache's stores in RocksDB."""

    timerRocksDBStopScan: bool = False
    timerRocksDBPrecisionMs: int = 1000
    timerRocksDBRollMaxTps: float = 8000.0
    timerRocksDBTimeExpiredMaxTps: float = 200000.0
    timerRocksDBRollIntervalHours: int = 1
    timerRocksDBRollRangeHours: int = 2
    transWriteOriginTransHalfEnable: bool = True
    maxRocksDBIndexQueryDays: int = 7
    indexFileWriteEnable: bool = True
    indexFileReadEnable: bool = True
    iteratorWhenUseRocksdbConsumeQueue: bool = True
    cleanRocksDBDirtyCQIntervalMin: int = 60
    statRocksDBCQIntervalSec: int = 10
    memTableFlushIntervalMs: int = 3_600_000
    realTimePersistRocksDBConfig: bool = True
    enableRocksDBLog: bool = False
    combineCQLoadingCQTypes: str = "default;defaultRocksDB"
    combineCQPreferCQType: str = "default"
    combineAssignOffsetCQType: str = "default"
    combineCQEnableCheckSelf: bool = False
    combineCQMaxExtraSearchCommitLogFiles: int = 3
    combineCQUseRocksdbForLmq: bool = False
    bottomMostCompressionTypeForConsumeQueueStore: str = "zstd"
    rocksdbCompressionType: str = "lz4"
    rocksdbFlushWalFrequency: int = 1024
    rocksdbWalFileRollingThreshold: int = 1_073_741_824
    useSeparateStorePathForRocksdbCQ: bool = False


@unused(help="Accepted for Apache's sake and without effect: timers need no threads, and are tried until they succeed.")
class TimerSettings:
    """How Apache's timers work inside."""

    timerGetMessageThreadNum: int = 3
    timerPutMessageThreadNum: int = 3
    timerEnableDisruptor: bool = False
    timerEnableCheckMetrics: bool = True
    timerInterceptDelayLevel: bool = False
    timerWheelSnapshotFlush: bool = False
    timerCheckMetricsWhen: str = "05"
    timerSkipUnknownError: bool = False
    timerWarmEnable: bool = False
    timerEnableRetryUntilSuccess: bool = False
    timerMetricSmallThreshold: int = 1_000_000
    timerProgressLogIntervalMs: int = 10_000
    timerWheelSnapshotIntervalMs: int = 10_000
    timerRecallToTimeWheelEnable: bool = True
    timerRecallToTimelineEnable: bool = True
    timerReputServiceCorePoolSize: int = 6
    timerReputServiceMaxPoolSize: int = 6
    timerReputServiceQueueCapacity: int = 10_000


@unused(help="Accepted for Apache's sake and without effect: topics are not compacted.")
class Compaction:
    """Topics that keep the last message of each key."""

    compactionMappedFileSize: int = 104_857_600
    compactionCqMappedFileSize: int = 10_485_760
    compactionScheduleInternal: int = 900_000
    maxOffsetMapSize: int = 104_857_600
    compactionThreadNum: int = 6
    enableCompaction: bool = True


@unused(help="Accepted for Apache's sake and without effect: it tunes threads, locks or maps that Rocketline has not.")
class Pacing:
    """Threads, locks, memory maps and the buffers between them."""

    commitLogRecoverMaxNum: int = 10
    mappedFileSizeConsumeQueueExt: int = 50_331_648
    bitMapLengthConsumeQueueExt: int = 112
    commitIntervalCommitLog: int = 200
    useReentrantLockWhenPutMessage: bool = True
    flushCommitLogTimed: bool = True
    deleteCommitLogFilesInterval: int = 100
    deleteConsumeQueueFilesInterval: int = 100
    destroyMapedFileIntervalForcibly: int = 120_000
    redeleteHangedFileInterval: int = 120_000
    putMsgIndexHightWater: int = 600_000
    checkCommitLogOffsetOnRecover: bool = False
    commitCommitLogLeastPages: int = 4
    flushLeastPagesWhenWarmMapedFile: int = 4096
    commitCommitLogThoroughInterval: int = 200
    messageIndexSafe: bool = False
    warmMapedFileEnable: bool = False
    debugLockEnable: bool = False
    diskFallRecorded: bool = True
    transientStorePoolEnable: bool = False
    transientStorePoolSize: int = 5
    fastFailIfNoBufferInStorePool: bool = False
    writeWithoutMmap: bool = False
    maxLmqConsumeQueueNum: int = 20_000
    enableLmqQuota: bool = False
    enableScheduleAsyncDeliver: bool = False
    scheduleAsyncDeliverMaxPendingLimit: int = 2000
    scheduleAsyncDeliverMaxResendNum2Blocked: int = 3
    maxBatchDeleteFilesNum: int = 50
    dispatchCqThreads: int = 10
    dispatchCqCacheNum: int = 4096
    enableAsyncReput: bool = True
    recheckReputOffsetFromCq: bool = False
    enableRunningFlagsInFlush: bool = False
    correctLogicMinOffsetSleepInterval: int = 1
    correctLogicMinOffsetForceInterval: int = 300_000
    mappedFileSwapEnable: bool = True
    commitLogForceSwapMapInterval: int = 43_200_000
    commitLogSwapMapInterval: int = 3_600_000
    commitLogSwapMapReserveFileNum: int = 100
    logicQueueForceSwapMapInterval: int = 43_200_000
    logicQueueSwapMapInterval: int = 3_600_000
    cleanSwapedMapInterval: int = 300_000
    logicQueueSwapMapReserveFileNum: int = 20
    searchBcqByCacheEnable: bool = True
    dispatchFromSenderThread: bool = False
    wakeCommitWhenPutMessage: bool = True
    wakeFlushWhenPutMessage: bool = False
    maxAsyncPutMessageRequests: int = 5000
    pullBatchMaxMessageCount: int = 160
    logicalDiskSpaceCleanForciblyThreshold: float = 0.8
    maxConsumeQueueScan: int = 20_000
    sampleCountThreshold: int = 5000
    coldDataFlowControlEnable: bool = False
    coldDataScanEnable: bool = False
    dataReadAheadEnable: bool = True
    timerColdDataCheckIntervalMs: int = 60_000
    sampleSteps: int = 32
    accessMessageInMemoryHotRatio: int = 26
    enableBuildConsumeQueueConcurrently: bool = False
    batchDispatchRequestThreadPoolNums: int = 16
    topicQueueLockNum: int = 32
    readUnCommitted: bool = False
    putConsumeQueueDataByFileChannel: bool = True
    enableAcceleratedRecovery: bool = False
    sharedByteBufferNum: int = 16
    spinLockCollisionRetreatOptimalDegree: int = 1000
    useABSLock: bool = False
    enableLogConsumeQueueRepeatedlyBuildWhenRecover: bool = False


@unused(help="Accepted for Apache's sake and without effect: Rocketline does this in one way only.")
class Limits:
    """Bounds that Apache leaves to its users."""

    maxTopicLength: int = 127
    autoMessageVersionOnTopicLen: bool = True
    putMessageTimeout: int = 8000
    maxRecoveryCommitlogFiles: int = 30
    travelCqFileNumWhenGetMessage: int = 1
    maxMsgsNumBatch: int = 64
