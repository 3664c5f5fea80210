"""Tables that pipelines write: Delta and Iceberg by one commit for each batch, Parquet by Spark's own file sink."""
