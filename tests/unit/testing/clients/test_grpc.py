"""How programs of gRPC clients are talked to, with small Python programs in their place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rocketline.testing.clients import ClientFailedError, GrpcCallError, GrpcClient, GrpcReceipt

ANSWER = "import json, sys\nfor line in sys.stdin: print(json.dumps(answer(json.loads(line))), flush=True)"


def client(home: Path, program: str) -> GrpcClient:
    return GrpcClient("Fake", [sys.executable, "-c", program], home, "proxy:1")


def test_call_names_what_was_given_and_no_more(tmp_path: Path) -> None:
    program = f"def answer(call): return dict(answer=dict(id=json.dumps(call), recall=''))\n{ANSWER}"
    with client(tmp_path, program) as fake:
        receipt = fake.send("T", "body", tag="a", due_s=0)
    assert receipt == GrpcReceipt('{"call": "send", "topic": "T", "body": "body", "tag": "a", "due_s": 0}', "")


def test_received_message_is_told_from_its_other_deliveries(tmp_path: Path) -> None:
    message = {"id": "m", "body": "b", "attempt": 2, "tag": "", "keys": [], "message_group": "", "time_ms": 5}
    program = f"def answer(call): return dict(answer=[{message} | dict(properties=dict(count=str(call['count'])))])\n"
    with client(tmp_path, program + ANSWER) as fake:
        (received,) = fake.receive("T", "G", count=7)
    assert (received.held, received.properties) == ("m/2", {"count": "7"})


def test_error_of_the_client_is_raised(tmp_path: Path) -> None:
    with (
        client(tmp_path, f"def answer(call): return dict(error='40013, expired')\n{ANSWER}") as fake,
        pytest.raises(GrpcCallError, match="40013"),
    ):
        fake.pushed("T")


def test_program_that_has_ended_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = "import sys; sys.stdin.readline(); sys.exit('no such proxy: ' + sys.argv[1])"
    with client(tmp_path, program) as fake, pytest.raises(ClientFailedError, match="no such proxy: proxy:1"):
        fake.pushed("T")
