"""The commit log: the stream of records, its disk space, walking over it, and what is damaged in it.

`commit_log` writes and reads bytes, `record_scan` tells records apart and whole from torn, `resync` finds the next one
behind damage, `record_walk` goes from record to record over all of it, `damage` remembers what is passed over and
copies aside what is cleared. Records are laid out by `store.log_writer`, which joins log, queues and index.
"""
