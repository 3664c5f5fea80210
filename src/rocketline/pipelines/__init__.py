"""Pipelines from topics to tables and back, declared in a file and run on Spark.

    from rocketline.pipelines.definition_file import load

    load("orders.toml").steps

`rocketline pipeline run orders.toml` does the work. What a pipeline is made of: `definition`; which queries of Spark
that makes: `queries`; how a batch reaches a table once and only once: `landing`; how that is proved: `verification`.
"""
