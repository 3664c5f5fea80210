"""How a message gets into the store, whoever brings it: admission, put, flush.

`admission` refuses when the broker is busy, `put` checks and rewrites what is to be delayed, `flusher` brings it to
disk and tells those who wait (Java: GroupCommitService). Imported by `sends` and `retries`; knows no request.
"""
