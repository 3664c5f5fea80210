"""How a foreign client's program is called, with shell scripts in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.testing.clients import ClientFailedError, ClientProgram, Delivered, Portion, Sent
from rocketline.testing.clients import program as program_module


def program(home: Path, script: str) -> ClientProgram:
    return ClientProgram("Fake", ["sh", "-c", script, "client"], home, frozenset({"sync"}), frozenset({"concurrent"}))


def test_send_hands_its_portions_over_and_reads_the_last_line(tmp_path: Path) -> None:
    client = program(
        tmp_path, """echo chatter; echo "$@" > called; echo '{"sent": 3, "failed": 1, "problem": "busy"}'"""
    )
    sent = client.send("ns:1", "T", Portion("sync", 0, 3), Portion("async", 3, 1, failures=2))
    assert sent == Sent(sent=3, failed=1, problem="busy")
    assert (tmp_path / "called").read_text() == "send ns:1 T sync:0:3:0 async:3:1:2\n"


def test_consume_gives_the_deliveries_in_their_order(tmp_path: Path) -> None:
    client = program(
        tmp_path, """echo "$HOME $@" > called; echo '{"deliveries": [[7, 1, 4, 0, 12], [5, 0, 2, 1, 30]]}'"""
    )
    deliveries = client.consume("ns:1", "T", "G", 2, mode="orderly", expression="a || b", timeout_s=9)
    assert deliveries == [Delivered(7, 1, 4, 0, 12), Delivered(5, 0, 2, 1, 30)]
    assert (tmp_path / "called").read_text() == f"{tmp_path} consume ns:1 T G orderly a || b 2 9\n"


@pytest.mark.parametrize("script", ["echo no route >&2; exit 3", "echo no route >&2"])
def test_program_that_fails_or_says_nothing_is_quoted(tmp_path: Path, script: str) -> None:
    with pytest.raises(ClientFailedError, match=r"(?s)Fake client ended with code .*no route"):
        program(tmp_path, script).send("ns:1", "T")


def test_program_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "GRACE_S", 0)
    with pytest.raises(ClientFailedError, match="did not end"):
        program(tmp_path, "exec sleep 60").send("ns:1", "T", timeout_s=0.1)
