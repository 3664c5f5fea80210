"""Consume queues: units of 20 bytes that point into the log, and batch queues, whose units hold several messages.

`queue_table` has all queues, most of them asleep (ADR 18); `queue_ends` where they ended when that was last written
down. Units come in by the store's dispatch and leave by `store.reading`.
"""
