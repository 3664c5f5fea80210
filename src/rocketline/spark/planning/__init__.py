"""What is to be read, decided on the driver in plain functions: offsets, where a stream is, ranges for tasks, and what
to say of messages that are gone. No socket, no Spark. What a cluster has comes in as a survey of `cluster`, ranges go
out to `sources` and, by tasks, to `pulling`.
"""
