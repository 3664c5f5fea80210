"""What a task does to read: pulls in flight from brokers, as many as pay, until its ranges are read.

A task begins at `range_reader`, where Spark's iterator comes from; `schedule` decides what to ask for next,
`broker_pulls` asks for it on the connections of the worker (`executor_client`), `outcomes` says what an answer means.
Bytes leave to `decoding`.
"""
