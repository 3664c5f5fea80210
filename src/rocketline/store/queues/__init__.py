"""Consume queues: units of 20 bytes that point into the log, and batch queues, whose units hold several messages.

`queue_table` has all queues, most of them asleep (ADR 18); `queue_places` says which are; `queue_looks` wakes them,
which compares them with the log, and has those mended that do not agree with it; `queue_ends` is where they ended when
that was last written down. Units come in by the store's dispatch and leave by `store.reading`.
"""
