"""Topics as tables and streams of Spark, in plain Python: `format("rocketmq")` and `format("rocketmq-store")`."""
