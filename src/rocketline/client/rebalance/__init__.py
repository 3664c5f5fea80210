"""Whose a queue is: sharing queues out among the members of a group. Java: RebalanceImpl.

`rebalancer` asks who else is there, has a strategy of `allocation` share out queues, drops what is no longer ours,
locks what is new (`queue_locks`) and finds where it begins (`start_offset`); `listeners` tells the application. When it
runs is said by `client.runtime.rebalance_timer`. Imports `consumer` and below; `push` and `lite_pull` give it queues to
take up.
"""
