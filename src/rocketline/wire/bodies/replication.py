"""Masters and slaves: how far they are, and which epochs and replicas they know."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.record import record


@record
class HAConnectionRuntimeInfo:
    """A slave's connection, from the master's side. Java: HAConnectionRuntimeInfo."""

    addr: str | None = None
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


@record
class HAClientRuntimeInfo:
    """The connection to the master, from the slave's side. Java: HAClientRuntimeInfo."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0


@record
class HARuntimeInfo:
    """The state of replication. Java: HARuntimeInfo."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = field(default_factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = field(default_factory=HAClientRuntimeInfo)


@record
class EpochEntry:
    """The span of the log that one master wrote. Java: EpochEntry."""

    epoch: Int32 = 0
    start_offset: int = 0
    end_offset: int = 2**63 - 1


@record
class EpochEntryCache:
    """All epochs that a broker knows. Java: EpochEntryCache."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: int = 0
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: int = 0


@record
class SyncStateSet:
    """The ids of the replicas that have everything. Java: SyncStateSet."""

    sync_state_set: list[int] = field(default_factory=list)
    sync_state_set_epoch: Int32 = 0
