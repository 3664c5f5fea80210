"""Pipelines from topics to tables and back, declared in a file and run on Spark.

    from rocketline.pipelines.definition_file import load

    load("orders.toml").steps

`rocketline pipeline run orders.toml` does the work. What a pipeline is made of: `definition`; how its file is read:
`definition_file` and, step by step, `declared`, which also says what queries of Spark that makes; what steps do to
rows: `steps`; how a batch reaches a table once and only once: `runs` and `tables`; how that is proved: `proof`; what a
person sees of it: `report`. Messages come in by `spark`, and go out to tables or, by its sink, to topics. Imported by
`cli`.
"""
