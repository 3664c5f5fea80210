"""Errors of a client are shown while a command runs; the rest is not."""

from __future__ import annotations

import logging

import pytest

from rocketline.cli.shared.client_log import client_log
from rocketline.logs import Log


def test_errors_are_shown_on_standard_error_and_only_for_as_long_as_the_command_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = list(logging.getLogger("rocketline").handlers)
    with client_log():
        Log("rocketline.client").warning("route missing", topic="orders")
        Log("rocketline.client").error("rebalance failed", group="billing")
    output, errors = capsys.readouterr()
    assert output == ""
    (line,) = errors.splitlines()
    assert line.endswith("rebalance failed group=billing")
    assert logging.getLogger("rocketline").handlers == before
