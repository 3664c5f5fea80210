from __future__ import annotations

import ssl
from typing import get_type_hints

import pytest

from rocketline.client.producer.options import ProducerKeywords, ProducerOptions
from rocketline.client.producer.queue_choice import BrokerFaults
from rocketline.errors import ConfigError
from rocketline.model.sys_flags import CompressionType


def test_keywords_and_options_have_the_same_fields_and_types() -> None:
    names = {"SSLContext": ssl.SSLContext}
    declared = get_type_hints(ProducerOptions, localns=names)
    assert declared.pop("name_servers") == tuple[str, ...]
    assert get_type_hints(ProducerKeywords, localns=names) == declared


def test_defaults_are_javas() -> None:
    """Those of 5.5.0, also for back-pressure."""
    default = ProducerOptions()
    assert (default.create_topic_key, default.default_topic_queue_nums, default.topics) == ("TBW102", 4, ())
    assert (default.send_timeout_s, default.attempt_timeout_s) == (3, None)
    assert (default.retries, default.async_retries, default.retries_unsafe) == (2, 2, False)
    assert default.retry_codes == {1, 2, 14, 16, 17, 204, 205, 1500}
    assert (default.message_bytes_max, default.compress_over_bytes) == (4194304, 4096)
    assert (default.compression, default.compression_level) == (CompressionType.ZLIB, 5)
    assert (default.avoids_slow_brokers, default.probes_brokers) == (False, False)
    assert (default.probe_timeout_s, default.probe_period_s) == (0.2, 2)
    assert (default.back_pressure, default.back_pressure_count, default.back_pressure_bytes) == (False, 1024, 104857600)
    assert default.async_in_flight_max == 50_000


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"retries": -1}, "retries=-1"),
        ({"send_timeout_s": 0}, "send_timeout_s=0"),
        ({"back_pressure_count": 9}, "at least 10"),
        ({"back_pressure_bytes": 1000}, "at least 1048576"),
        ({"compression_level": 10}, "ZLIB level 10"),
        ({"compression": CompressionType.ZSTD, "compression_level": 0}, "ZSTD level 0"),
        ({"topics": ("a b",)}, "letters, digits"),
        ({"message_bytes_max": 16 * 2**20}, "at most"),
    ],
)
def test_what_is_out_of_range_is_named(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ProducerOptions(**options)  # type: ignore[arg-type]


def test_latency_levels_may_come_in_any_order() -> None:
    faults = BrokerFaults([(1.0, 5.0), (10.0, 60.0), (0.0, 0.0)])
    faults.note("a", 12.0, 0.0)
    assert (faults.is_available("a", 59.9), faults.is_available("a", 60.0)) == (False, True)
