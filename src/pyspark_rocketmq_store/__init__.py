"""Lets Spark find `format("rocketmq-store")` by itself: it imports every installed module named `pyspark_…`."""

from rocketline.spark.sources.store_source import RocketMQStoreDataSource

DefaultSource = RocketMQStoreDataSource
