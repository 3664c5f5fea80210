"""Tables that pipelines write: Delta and Iceberg by one commit for each batch, Parquet by Spark's own file sink.

`pipelines.runs.landing` asks a table whether it has a batch, and gives it what is missing; here is how a format commits
rows and the batch's number together (`commits`, `delta`, `iceberg`), the files of a batch before that (`staging`), and
reading (`reading`, `table_stream`).
"""
