"""What is to be read, decided on the driver in plain functions: offsets, where a stream is, ranges for tasks, and what
to say of messages that are gone. No socket, no Spark.
"""
