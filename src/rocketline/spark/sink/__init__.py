"""Rows of Spark into messages: `writers` is what Spark calls, `rows` and `properties` make messages of columns, and
`task_sender` sends those of a task through `client`. `schema` says which columns there may be. Imported by `sources`
and `pipelines`. The former tells Spark of it, the latter write topics; it reads nothing.
"""
