"""A pipeline as its file says it: reading and checking its steps (`step_section`), and which queries of Spark that
makes (`queries`). `pipelines.definition_file` hands sections in; steps, and queries, come out. Pure: no Spark, no
cluster. What a pipeline is made of is `pipelines.definition`, what its steps do to rows is `pipelines.steps`.
"""
