"""Must hold 1: a stopped or killed Apache broker is gone at once, a silent one after its heartbeat time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rocketline.testing.apache import ApacheBroker, ClientJvm, Release, cluster_info, running
from rocketline.testing.name_server import NameServerProcess
from support.apache import mqadmin_output

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120, func_only=True)]

AT_ONCE_S = 5
"""Much less than any heartbeat time, and enough for a busy machine."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Brokers to lose, one per test; the last two stand for each other."""

    name_server: NameServerProcess
    stopped: ApacheBroker
    killed: ApacheBroker
    master: ApacheBroker
    slave: ApacheBroker

    def is_known(self, broker: ApacheBroker) -> bool:
        return broker.address in cluster_info(self.name_server.address)


@pytest.fixture(scope="module")
def losses(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Losses]:
    home = tmp_path_factory.mktemp("losses")
    notify = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}
    # Only a broker that may have its slave act for it tells a heartbeat time (10 s) to the name server.
    acting = {"enableSlaveActingMaster": "true"}
    slave_role = {"brokerRole": "SLAVE"}
    with NameServerProcess(home / "ours", settings=notify) as ours:
        known_to = (ours.address,)
        stopped = ApacheBroker(release, home / "stopped", name_servers=known_to, broker_name="stopped")
        killed = ApacheBroker(release, home / "killed", name_servers=known_to, broker_name="killed")
        master = ApacheBroker(release, home / "master", name_servers=known_to, broker_name="pair", settings=acting)
        slave = ApacheBroker(
            release,
            home / "slave",
            name_servers=known_to,
            broker_name="pair",
            broker_id=1,
            settings=acting | slave_role,
        )
        with running(stopped, killed, master, slave):
            yield Losses(ours, stopped, killed, master, slave)


def _wait_until(condition: Callable[[], bool], *, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.05)


def test_stopped_broker_is_gone_before_it_has_ended(losses: Losses) -> None:
    losses.stopped.terminate()
    _wait_until(lambda: not losses.is_known(losses.stopped), timeout_s=AT_ONCE_S)
    assert losses.stopped.is_running


def test_killed_broker_is_gone_at_once(losses: Losses) -> None:
    losses.killed.kill()
    _wait_until(lambda: not losses.is_known(losses.killed), timeout_s=AT_ONCE_S)


def test_silent_master_is_replaced_by_its_slave_until_it_speaks_again(losses: Losses, clients: ClientJvm) -> None:
    """Its connection stays open, so nothing but its heartbeat time tells that it is gone."""
    name_server, master, slave = losses.name_server.address, losses.master, losses.slave

    def route() -> tuple[object, object]:
        output = clients.mqadmin(name_server, "topicRoute", "-t", "rmq_sys_REVIVE_LOG_DefaultCluster")
        shown = mqadmin_output.read(output, name_server).printed
        of_pair = [data for data in shown["brokerDatas"] + shown["queueDatas"] if data["brokerName"] == "pair"]
        return of_pair[0]["brokerAddrs"], of_pair[1]["perm"]

    assert route() == ({"0": master.address, "1": slave.address}, 6)

    master.pause()
    assert losses.is_known(master)
    _wait_until(lambda: not losses.is_known(master), timeout_s=40)
    assert route() == ({"0": slave.address}, 4)
    # What a broker writes down when NOTIFY_MIN_BROKER_ID_CHANGE reaches it.
    _wait_until(lambda: "min broker id changed, prev 1, new 1" in slave.log(), timeout_s=AT_ONCE_S)

    master.resume()
    _wait_until(lambda: losses.is_known(master), timeout_s=40)
    _wait_until(lambda: route() == ({"0": master.address, "1": slave.address}, 6), timeout_s=40)
    _wait_until(lambda: "min broker id changed, prev 1, new 0" in slave.log(), timeout_s=AT_ONCE_S)
