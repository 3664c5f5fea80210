"""The reference pipeline's orders: the same for the same seed, and their numbers are known."""

from __future__ import annotations

import json

from rocketline.pipelines.examples.orders.events import OrderStream


def test_orders_are_the_same_for_the_same_seed() -> None:
    first, again, other = (
        [(message.body, message.keys) for message in OrderStream("orders", seed=seed).messages(200)]
        for seed in (1, 1, 2)
    )

    assert first == again != other


def test_counts_tell_what_is_in_the_messages() -> None:
    stream = OrderStream("orders", seed=3)
    bodies = [message.body for message in stream.messages(5000)]
    orders = []
    for body in bodies:
        try:
            order = json.loads(body)
        except ValueError:
            continue
        if order.keys() == {"order_id", "product", "quantity", "price", "ordered_at"}:
            orders.append(order)
    good = {order["order_id"]: order for order in orders if order["quantity"] > 0}
    counts = stream.counts

    assert counts.messages == len(bodies) == 5000
    assert len(bodies) - len(orders) == counts.malformed > 0
    assert len(good) == counts.orders
    assert sum(order["quantity"] <= 0 for order in orders) == counts.senseless > 0
    assert len(orders) - counts.senseless - len(good) == counts.duplicates > 0
    assert counts.late > 0
    assert round(sum(stream.revenue.values()), 2) == round(
        sum(each["quantity"] * each["price"] for each in good.values()), 2
    )
