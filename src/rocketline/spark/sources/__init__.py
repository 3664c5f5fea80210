"""What Spark calls: `format("rocketmq")` and `format("rocketmq-store")`, batch and stream readers, tables about the
cluster. Thin: what is read is planned in `planning`, read in `pulling` or `store_files`. Above everything else in
`spark`; only `pyspark_rocketmq` and `pyspark_rocketmq_store` import it, so that Spark finds it.
"""
