"""The simple consumer: a worker asks for messages, works as long as it takes, and says what became of each.

Which brokers are asked, and when, is in `sources` and `receiving`; `held_messages` keeps a message hidden while
somebody works on it; `core` puts them together. Imported by `aio` and `sync`; imports `pop` and below,
nothing of `push`.
Java has it for gRPC only: SimpleConsumer.
"""
