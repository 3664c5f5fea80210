from __future__ import annotations

from rocketline.broker.long_work import QUEUES_A_STEP, each_with_pause, encoded
from rocketline.wire.bodies.offsets import CorrectionOffsets
from support.long_steps import counted


def test_large_body_is_written_in_steps() -> None:
    body, pauses = counted(encoded(CorrectionOffsets(dict.fromkeys(range(16384), 2**63 - 1))))
    assert pauses > 20
    assert len(body) / pauses < 32_768


def test_step_ends_after_so_many_things() -> None:
    assert sum(is_step for _, is_step in each_with_pause(range(10 * QUEUES_A_STEP))) == 10
