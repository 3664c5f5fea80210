"""What a step does to rows, on DataFrames: parsing, expectations, transformations, users' functions, and whether all of
it judges a row the same each time (`determinism`). Rows in, rows out; nothing is landed here. Imported by `runs`, and
by `sdp`, which has Spark's own pipelines do the same.
"""
