"""What a step does to rows, on DataFrames: parsing, expectations, transformations, users' functions, and whether all of
it judges a row the same each time (`determinism`). Rows in, rows out; nothing is landed here. Imported by `runs`,
`report` and `sdp`; the last has Spark's own pipelines do the same.
"""
