"""The reference pipeline: a shop's orders, some late, some twice, some not readable, become revenue.

`pipeline.toml` declares it; `events` makes orders to run it on. `rocketline demo` shows both.
"""

from __future__ import annotations

from pathlib import Path

PIPELINE_FILE = Path(__file__).parent / "pipeline.toml"
TOPIC, REVENUE_TOPIC, REJECTED_TOPIC = "orders", "revenue", "orders_rejected"
