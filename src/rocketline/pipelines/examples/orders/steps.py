"""What the reference pipeline does beyond its declaration: plain functions, DataFrame to DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def priced(orders: DataFrame) -> DataFrame:
    """Orders with their amount, without what only the messaging knows."""
    from pyspark.sql import functions as f

    return orders.select(
        "order_id",
        "product",
        "quantity",
        "price",
        (f.col("quantity") * f.col("price")).alias("amount"),
        "ordered_at",
        "storeTimestamp",
    )
