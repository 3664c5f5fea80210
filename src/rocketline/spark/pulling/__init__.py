"""What a task does to read: pulls in flight from brokers, as many as pay, until its ranges are read.

A task pulls in `range_reader`: its loop is where Spark's iterator comes from, and everything else serves it. `schedule`
decides what to ask for next, `broker_pulls` writes the frames and reads the answers of one broker, on a connection of
the worker (`executor_client`), `outcomes` says what an answer means. Bytes leave to `decoding`.
"""
