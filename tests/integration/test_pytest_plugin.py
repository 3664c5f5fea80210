"""The plugin as a stranger meets it: a project of its own, where nothing but `pip install rocketline` was done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from rocketline.testing.pytest_plugin import RocketMQ


def run_pytest(folder: Path, test: str) -> str:
    """Without the plugins of this project: of the installed ones, only Rocketline's entry point is used."""
    (folder / "test_project.py").write_text(dedent(test), "utf-8")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "rocketline"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=50)
    return done.stdout + done.stderr


def test_a_strangers_tests_share_one_server_and_have_their_own_topics(tmp_path: Path) -> None:
    shown = run_pytest(
        tmp_path,
        """
        from rocketline.testing.exchange import ask
        from rocketline.testing.setting_up import is_registered

        seen = []

        def test_a_topic_is_there(rocketmq):
            seen.append((rocketmq.address, rocketmq.topic("orders"), rocketmq.group("billing")))
            assert is_registered(rocketmq.address, rocketmq.server.broker_addresses[0])

        def test_another_one_has_the_same_server_and_other_names(rocketmq):
            address, topic, group = seen[0]
            assert rocketmq.address == address
            assert rocketmq.topic("orders") == rocketmq.topic("orders") != topic
            assert rocketmq.group("billing") != group

        def test_faults_do_not_outlive_their_test(rocketmq, rocketmq_server):
            assert rocketmq.server is rocketmq_server
            rocketmq.faults.refuse(310, 2)
            rocketmq.advance(60)

        def test_as_seen_here(rocketmq):
            assert rocketmq.faults.waiting == 0
        """,
    )
    assert "4 passed" in shown, shown


def test_a_strangers_consumer_gets_its_retry_without_waiting_for_it(tmp_path: Path) -> None:
    shown = run_pytest(
        tmp_path,
        """
        import queue

        from rocketline import Message, Producer, PushConsumer
        from rocketline.wire.codes import RequestCode

        def test_an_order_that_failed_comes_again(rocketmq):
            topic, tries = rocketmq.topic("orders"), queue.Queue()

            def handle(message):
                tries.put(message.reconsume_times)
                if not message.reconsume_times:
                    raise RuntimeError("not now")

            with (
                PushConsumer(rocketmq.address, group=rocketmq.group("billing")) as consumer,
                Producer(rocketmq.address, group="shop") as producer,
            ):
                consumer.subscribe(topic, "*", handle)
                rocketmq.faults.refuse(RequestCode.SEND_MESSAGE_V2, 2)
                producer.send(Message(topic, b"one"))
                assert tries.get(timeout=30) == 0
                for _ in range(300):
                    rocketmq.advance(10)
                    try:
                        assert tries.get(timeout=0.1) == 1
                        break
                    except queue.Empty:
                        pass
                else:
                    raise AssertionError("it did not come again")
        """,
    )
    assert "1 passed" in shown, shown


def test_the_plugin_costs_nothing_until_a_fixture_is_used(tmp_path: Path) -> None:
    shown = run_pytest(
        tmp_path,
        """
        import sys

        def test_no_server_was_imported():
            assert "rocketline.testing.pytest_plugin" in sys.modules
            assert not [name for name in sys.modules if name.startswith(("rocketline.broker", "asyncio"))]
        """,
    )
    assert "1 passed" in shown, shown


def test_the_fixtures_serve_here_too(rocketmq: RocketMQ) -> None:
    assert rocketmq.topic("orders").startswith("orders-")
