"""How a message gets into the store, whoever brings it: admission, put, flush.

`admission` refuses when the broker is busy, `put` checks and rewrites what is to be delayed, `flusher` brings it to
disk and tells those who wait (Java: GroupCommitService). `real_place` says where a message belongs that waits in
another topic. Imported by `sends`, `retries`, `timers`, `transactions`, `pop`, `hot_path`, `routing` and `services`;
knows no request.
"""
