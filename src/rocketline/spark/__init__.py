"""Topics as tables and streams of Spark, in plain Python: `format("rocketmq")` and `format("rocketmq-store")`.

Spark calls `sources` (to read) and `sink` (to write). A read is planned on the driver (`options`, `cluster`,
`planning`), done by tasks (`pulling`, `store_files`) and decoded by columns (`decoding`). Decisions are plain
functions; what Spark calls is thin. `session` and `java_runtime` find or make a Spark. What is done with rows that
were read is the application's business, or that of `pipelines`, which builds on this; brokers know nothing of Spark.
"""
