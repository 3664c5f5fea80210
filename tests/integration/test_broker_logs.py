"""What peers do all the time is one line a second."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from support.brokers.running import BrokerPeer, broker

TOPIC = {"readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG", "defaultTopic": "x"}


async def test_changes_by_one_peer_are_one_line_a_second_and_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = str(tmp_path / "broker.conf")
    with caplog.at_level(logging.INFO):
        async with broker(clock=FakeClock(), brokerConfigPath=config) as running, BrokerPeer(running.address) as peer:
            await peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
            for number in range(20):
                await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**TOPIC, "topic": f"T{number}"})
                place = {"topic": "T0", "group": "g", "timestamp": "0", "isForce": "true"}
                await peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, place)
                await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=f"regionId=r{number}".encode())
                await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"T{number + 1}"})
            told = [record.getMessage() for record in caplog.records]
    for cause in ("topics updated", "offset reset", "settings updated", "topics deleted"):
        assert len([line for line in told if line.startswith(cause)]) == 1, cause
