"""Pipelines from topics to tables and back, declared in a file and run on Spark.

    from rocketline.pipelines.definition_file import load

    load("orders.toml").steps

`rocketline pipeline run orders.toml` does the work. What a pipeline is made of: `definition`; how its file is read, and
which queries of Spark it makes: `declared`; what its steps do to rows: `steps`; how a batch reaches a table once and
only once: `runs` and `tables`; how that is proved: `proof`; what a person sees of it: `report`.
"""
