"""A run: checks before it, plans of Spark, landing of each batch, and what is told meanwhile.

`run` begins and ends it, `preflight` refuses what could not end well, `plans` builds the queries, `landing` is called
by Spark with each batch (ADR 14), `checkpoint` reads what Spark noted, `run_numbers` tells the newer of two drivers.
Rows come in as batches of Spark and leave by `tables`; what happens to them on the way is in `steps`. Imported by
`proof`, `report`, `sdp` and `cli`.
"""
