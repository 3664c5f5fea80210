"""When a broker counts as gone: by time, or by the loss of the connection that it registered over last."""

from __future__ import annotations

from rocketline.model.topic_config import DataVersion
from rocketline.nameserver.liveness import ExpiredBroker, LiveBrokers
from rocketline.nameserver.registration import BrokerRegistration, Unregistration


def broker(address: str, *, name: str = "B", timeout_ms: int | None = None, counter: int = 1) -> BrokerRegistration:
    return BrokerRegistration(
        cluster="C",
        broker_name=name,
        broker_id=0,
        address=address,
        heartbeat_timeout_ms=timeout_ms,
        data_version=DataVersion(counter),
    )


GONE = Unregistration("C", "B", "a")


def test_expired_once_silent_for_longer_than_its_timeout() -> None:
    live = LiveBrokers()
    live.put(broker("a", timeout_ms=10_000), "connection", now_ms=1000)
    assert live.expired(11_000) == []
    assert live.expired(11_001) == [ExpiredBroker("connection", GONE)]


def test_expired_after_120_s_if_the_broker_names_no_timeout() -> None:
    live = LiveBrokers()
    live.put(broker("a"), "connection", now_ms=0)
    assert live.expired(120_000) == []
    assert live.expired(120_001) == [ExpiredBroker("connection", GONE)]


def test_touch_lets_a_live_broker_live_on_and_means_nothing_for_others() -> None:
    live = LiveBrokers()
    live.put(broker("a", timeout_ms=10), "connection", now_ms=0)
    live.touch(("C", "a"), 100)
    live.touch(("C", "unknown"), 100)
    assert live.expired(110) == []
    assert live.get(("C", "unknown")) is None


def test_expired_broker_stays_until_it_is_forgotten() -> None:
    """Closing its connection and unregistering may fail; the next look finds it again."""
    live = LiveBrokers()
    live.put(broker("a", timeout_ms=10), "connection", now_ms=0)
    assert live.expired(11) == live.expired(11)
    live.forget(("C", "a"))
    assert live.expired(11) == []


def test_broker_that_came_back_over_a_new_connection_survives_the_loss_of_the_old_one() -> None:
    live = LiveBrokers()
    live.put(broker("a"), "old", now_ms=0)
    live.put(broker("a"), "new", now_ms=1)
    assert live.registered_over("old") == []
    assert live.registered_over("new") == [GONE]


def test_all_brokers_of_one_connection_go_with_it() -> None:
    """A broker container registers all its brokers over one connection; Apache drops an arbitrary one at once."""
    live = LiveBrokers()
    live.put(broker("a"), "shared", now_ms=0)
    live.put(broker("b", name="B2"), "shared", now_ms=0)
    assert live.registered_over("shared") == [GONE, Unregistration("C", "B2", "b")]
    live.forget(("C", "a"))
    live.forget(("C", "b"))
    assert live.registered_over("shared") == []


def test_forgetting_an_unknown_broker_is_no_error() -> None:
    LiveBrokers().forget(("C", "a"))
