"""Looking at a store that nobody has open: `check` names what is wrong with it, `repair` mends what can be mended.

`log_walk` and the modules for queues, index, tables and timers compare all files with the log; findings go out, to
`rocketline store`, which alone imports it. What an open store mends by itself is in `store.recovery` and
`store.queue_doctor`.
"""
