"""A run: checks before it, plans of Spark, landing of each batch, and what is told meanwhile.

`run` begins and ends it, `preflight` refuses what could not end well, `plans` builds the queries, `landing` is called
by Spark with each batch (ADR 14), `checkpoint` reads what Spark noted, `run_numbers` tells the newer of two drivers.
"""
