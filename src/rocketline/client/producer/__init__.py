"""Sending, decided: which queue, which attempt, which bytes. Java: DefaultMQProducerImpl.

A message comes in at `core`, is laid out once in `send_request`, gets its queue from `queue_choice`; `attempts` says
what an answer or an error means, and when it is over; `delivery` puts frames on connections and `async_sends` counts
those that nobody waits for, within `back_pressure`; `auto_batch` has messages of many callers leave together.
`requests` waits for replies, `recall` calls timer messages back. `transactions` has half messages, their ends and
brokers' questions about them; `traced` notes what was sent, `trace_producer` carries such notes. What the application
sees is in `aio` and `sync`. Imports `trace`, `runtime` and the floor; nobody here knows a consumer.
"""
