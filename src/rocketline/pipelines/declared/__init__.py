"""A pipeline as its file says it: reading and checking the file (`definition_file`, `step_section`), and which queries
of Spark that makes (`queries`). Pure: no Spark, no cluster. What a pipeline is made of is `pipelines.definition`.
"""
